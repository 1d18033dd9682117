-- Writes of Spark: tasks stage rows, and the driver publishes them all at once.

-- Publish the rows that these attempts staged, and these loads, once per batch of a query and target; false when the
-- batch was published before. A write outside of streaming queries has a unique name (p_once), so that its driver may
-- repeat the call when the answer was lost; collect_staged deletes such names. The ledger also has the number of rows of
-- the last batch that were not stored because their deduplication ids were duplicates. With p_rejects, rows that the
-- target refuses do not fail the batch but are stored there: see penstock.store_rejects.
drop function if exists penstock.publish_staged(
  text, bigint, bigint[], bigint, bigint[], text, text, text, boolean, timestamptz
);
create or replace function penstock.publish_staged(
  p_query text,
  p_batch bigint,
  p_attempts bigint[],
  p_count bigint,
  p_loads bigint[],
  p_target text,
  p_tenant text,
  p_name text,
  p_once boolean,
  p_now timestamptz,
  p_rejects text default null
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
-- Rows that were just staged have no statistics.
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_tenant bigint := (select t.id from penstock.tenants as t where t.name = p_tenant);
  v_fresh boolean;
  v_count bigint;
  v_duplicates bigint := 0;
begin
  if v_tenant is null then
    raise exception using errcode = 'PS020', message = format('Tenant ''%s'' does not exist', p_tenant);
  end if;
  insert into penstock.spark_ledger as l (query, tenant_id, target, name, batch, once, written_at)
  select p_query, v_tenant, p_target, coalesce(p_name, ''), p_batch, p_once, p_now
  -- One from before places were kept stands for all of them.
  where not exists (
    select
    from penstock.spark_ledger as b
    where b.query = p_query
      and b.target = ''
      and b.batch >= p_batch
  )
  on conflict (query, tenant_id, target, name) do update
  set batch = excluded.batch,
      written_at = excluded.written_at
  where l.batch < excluded.batch;
  v_fresh := found;
  if v_fresh then
    select p.published, p.duplicates
    into v_count, v_duplicates
    from penstock.publish_staged_rows(p_target, p_attempts, v_tenant, p_name, p_now, p_query, p_batch, p_rejects) as p;
    update penstock.spark_ledger as l
    set duplicates = v_duplicates
    where l.query = p_query
      and l.tenant_id = v_tenant
      and l.target = p_target
      and l.name = coalesce(p_name, '')
      and l.duplicates <> v_duplicates;
    if v_count is distinct from p_count then
      raise exception using
        errcode = 'PS030',
        message = format('%s of %s staged rows are left; write the batch again', v_count, p_count);
    end if;
    if p_loads <> '{}' then
      perform pgque.publish_loads(penstock.stream_queue(v_tenant, p_name), p_loads);
    end if;
  elsif p_loads <> '{}' then
    perform pgque.discard_loads(p_loads);
  end if;
  delete from penstock.spark_staging as s where s.attempt = any (p_attempts);
  return v_fresh;
end;
$$;

-- The staged rows in portions that fit into arrays, however large the rows are. The rows of a portion have one target.
-- Rows do not move within their transaction, so a tid identifies a row.
create or replace function penstock.staged_portions(p_attempts bigint[], p_name text, out name text, out places tid[])
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select r.name, array_agg(r.place order by r.rank)
  from (
    select
      coalesce(p_name, s.name) as name,
      s.ctid as place,
      row_number() over portion as rank,
      sum(coalesce(octet_length(s.value), 0) + coalesce(octet_length(s.headers), 0)) over portion as bytes
    from penstock.spark_staging as s
    where s.attempt = any (p_attempts)
      and s.problem is null
    window portion as (order by coalesce(p_name, s.name), s.attempt, s.position rows unbounded preceding)
  ) as r
  group by r.name, (r.rank - 1) / 5000, r.bytes / 16777216
  order by min(r.rank);
$$;

-- A portion in the form that the functions for many rows take. A row without deliver_at has the delay of its queue.
create or replace function penstock.staged_portion(
  p_places tid[],
  p_now timestamptz,
  out types text[],
  out bodies text[],
  out delays integer[],
  out moments timestamptz[],
  out priorities integer[],
  out groups text[],
  out dedups text[],
  out headers text[]
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    array_agg(coalesce(s.type, 'default') order by s.attempt, s.position),
    array_agg(s.value order by s.attempt, s.position),
    array_agg(
      case
        when s.deliver_at is not null
        then greatest(0, least(2147483647, ceil(extract(epoch from s.deliver_at - p_now))))::integer
      end
      order by s.attempt, s.position
    ),
    array_agg(s.deliver_at order by s.attempt, s.position),
    array_agg(s.priority order by s.attempt, s.position),
    array_agg(s.key order by s.attempt, s.position),
    array_agg(s.dedup_id order by s.attempt, s.position),
    array_agg(s.headers order by s.attempt, s.position)
  from penstock.spark_staging as s
  where s.ctid = any (p_places);
$$;

-- The name of a tenant's stream in the schema pgque, which has no tenants.
create or replace function penstock.stream_queue(p_tenant bigint, p_name text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select case when p_tenant = 1 then '' else 't' || p_tenant || ':' end || p_name;
$$;

-- All staged rows, in portions; the number of rows that are settled, including duplicates and rejected rows. One statement
-- is enough for a single stream.
create or replace function penstock.publish_staged_rows(
  p_target text,
  p_attempts bigint[],
  p_tenant bigint,
  p_name text,
  p_now timestamptz,
  p_query text,
  p_batch bigint,
  p_rejects text,
  out published bigint,
  out duplicates bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_portion record;
  v_done record;
begin
  published := 0;
  duplicates := 0;
  if p_target not in ('stream', 'queue', 'jobs') then
    raise exception using errcode = 'PS010', message = 'target must be stream, queue or jobs';
  end if;
  if p_rejects is not null then
    published := penstock.reject_problems(p_attempts, p_target, p_tenant, p_name, p_query, p_batch, p_rejects);
  end if;
  if p_target = 'stream' and p_name is not null then
    published := published
      + penstock.publish_staged_stream(p_attempts, penstock.stream_queue(p_tenant, p_name));
    return;
  end if;
  for v_portion in select * from penstock.staged_portions(p_attempts, p_name) loop
    if p_rejects is null then
      v_done := penstock.publish_portion(p_target, p_tenant, v_portion.name, v_portion.places, p_now);
    else
      v_done := penstock.publish_or_reject(
        p_target, p_tenant, v_portion.name, v_portion.places, p_now, p_name is null, p_query, p_batch, p_rejects
      );
    end if;
    published := published + v_done.published;
    duplicates := duplicates + v_done.duplicates;
  end loop;
end;
$$;

-- The rows of one portion into their target. One row that is refused fails all.
create or replace function penstock.publish_portion(
  p_target text,
  p_tenant bigint,
  p_name text,
  p_places tid[],
  p_now timestamptz,
  out published bigint,
  out duplicates bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_rows record;
begin
  perform penstock.check_that('name', p_name is not null, 'not be null');
  v_rows := penstock.staged_portion(p_places, p_now);
  published := cardinality(v_rows.bodies);
  duplicates := 0;
  case p_target
    when 'stream' then
      perform pgque.insert_events(
        penstock.stream_queue(p_tenant, p_name), v_rows.types, v_rows.bodies, v_rows.headers, null, null, v_rows.groups
      );
    when 'queue' then duplicates := penstock.publish_staged_messages(p_places, v_rows, p_tenant, p_name, p_now);
    else duplicates := penstock.publish_staged_jobs(p_places, v_rows, p_tenant, p_name, p_now);
  end case;
end;
$$;

-- The same, but rows that are refused are stored as rejects. A portion that fails is halved until single rows are left.
-- Only errors that a row can cause: a missing queue is one only when the row names it.
create or replace function penstock.publish_or_reject(
  p_target text,
  p_tenant bigint,
  p_name text,
  p_places tid[],
  p_now timestamptz,
  p_named_by_rows boolean,
  p_query text,
  p_batch bigint,
  p_rejects text,
  out published bigint,
  out duplicates bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_half integer := cardinality(p_places) / 2;
  v_state text;
  v_done record;
  v_part record;
begin
  begin
    v_done := penstock.publish_portion(p_target, p_tenant, p_name, p_places, p_now);
    published := v_done.published;
    duplicates := v_done.duplicates;
    return;
  exception
    when others then
      v_state := sqlstate;
      if not (
        v_state in ('PS010', 'PS011', 'PS012') or left(v_state, 2) in ('22', '54')
        or (p_named_by_rows and v_state in ('PS020', 'PS021', 'PS029', 'P0001'))
      ) then
        raise;
      end if;
      if v_half = 0 then
        perform penstock.store_rejects(p_places, sqlerrm, p_target, p_tenant, p_name, p_query, p_batch, p_rejects);
        published := 1;
        duplicates := 0;
        return;
      end if;
  end;
  published := 0;
  duplicates := 0;
  for v_part in
    select p_places[1:v_half] as places
    union all
    select p_places[v_half + 1:]
  loop
    v_done := penstock.publish_or_reject(
      p_target, p_tenant, p_name, v_part.places, p_now, p_named_by_rows, p_query, p_batch, p_rejects
    );
    published := published + v_done.published;
    duplicates := duplicates + v_done.duplicates;
  end loop;
end;
$$;

-- Rows in which a task found a problem, such as a zero byte, which PostgreSQL does not store.
create or replace function penstock.reject_problems(
  p_attempts bigint[],
  p_target text,
  p_tenant bigint,
  p_name text,
  p_query text,
  p_batch bigint,
  p_rejects text
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_row record;
  v_count bigint := 0;
begin
  for v_row in
    select s.problem, coalesce(p_name, s.name) as name, array_agg(s.ctid order by s.attempt, s.position) as places
    from penstock.spark_staging as s
    where s.attempt = any (p_attempts)
      and s.problem is not null
    group by s.problem, coalesce(p_name, s.name)
  loop
    perform penstock.store_rejects(
      v_row.places, v_row.problem, p_target, p_tenant, v_row.name, p_query, p_batch, p_rejects
    );
    v_count := v_count + cardinality(v_row.places);
  end loop;
  return v_count;
end;
$$;

-- Rejected rows, with the reason: into the table penstock.spark_rejects, or as JSON into a stream or a queue of the tenant,
-- p_rejects being `table`, `stream:NAME` or `queue:NAME`.
create or replace function penstock.store_rejects(
  p_places tid[],
  p_reason text,
  p_target text,
  p_tenant bigint,
  p_name text,
  p_query text,
  p_batch bigint,
  p_rejects text
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_row record;
  v_kind text := split_part(p_rejects, ':', 1);
  v_place text := substr(p_rejects, length(split_part(p_rejects, ':', 1)) + 2);
  v_told jsonb;
  v_sent record;
begin
  for v_row in
    select s.* from penstock.spark_staging as s where s.ctid = any (p_places) order by s.attempt, s.position
  loop
    v_told := jsonb_build_object(
      'target', p_target, 'name', p_name, 'reason', p_reason, 'query', p_query, 'batch', p_batch,
      'row', jsonb_strip_nulls(
        jsonb_build_object(
          'type', v_row.type, 'key', v_row.key, 'value', v_row.value, 'headers', v_row.headers,
          'deliver_at', v_row.deliver_at, 'priority', v_row.priority, 'dedup_id', v_row.dedup_id
        )
      )
    );
    case v_kind
      when 'table' then
        insert into penstock.spark_rejects (tenant_id, query, batch, target, name, reason, row)
        values (p_tenant, p_query, p_batch, p_target, p_name, p_reason, v_told -> 'row');
      when 'stream' then
        perform pgque.insert_event(penstock.stream_queue(p_tenant, v_place), 'rejected', v_told::text);
      else
        v_sent := penstock.send_many(
          array[p_tenant], array[v_place], array[v_told::text], null, null, null, null, null, null, null, null, null,
          null, null, now()
        );
        if v_sent.codes[1] is not null then
          perform penstock.raise_code(v_sent.codes[1], v_place);
        end if;
    end case;
  end loop;
end;
$$;

-- The rules of every insert apply (permissions, and whether the stream is open), and the same order of locks: the
-- transaction gets its id before the current table is looked up, and locks that table until its end. Event ids follow
-- the order of the attempts and of their rows, which the index provides.
create or replace function penstock.publish_staged_stream(p_attempts bigint[], p_name text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue := pgque.queue_for_insert(p_name);
  v_attempt bigint;
  v_rows bigint;
  v_count bigint := 0;
begin
  for v_attempt in select a from unnest(p_attempts) as a order by a loop
    execute 'insert into ' || pgque.event_table(v_queue.queue_id, v_queue.queue_cur_table)
      || ' (ev_time, ev_type, ev_data, ev_extra1, ev_extra4)'
      || ' select now(), coalesce(s.type, ''default''), s.value, s.headers, s.key'
      || ' from penstock.spark_staging as s where s.attempt = $1 and s.problem is null order by s.position'
    using v_attempt;
    get diagnostics v_rows = row_count;
    v_count := v_count + v_rows;
  end loop;
  return v_count;
end;
$$;

-- Raises an error that names the row with invalid JSON by its position: PostgreSQL's own error would quote its content.
-- Called only when storing a portion has failed.
create or replace function penstock.check_staged_json(p_places tid[], p_field text)
returns void
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_row record;
begin
  for v_row in
    select
      s.attempt >> 40 as task,
      s.position,
      case p_field when 'headers' then s.headers else s.value end as told
    from penstock.spark_staging as s
    where s.ctid = any (p_places)
    order by s.attempt, s.position
  loop
    begin
      perform v_row.told::json;
    exception
      when data_exception or program_limit_exceeded then
        perform penstock.check_that(
          p_field, false, format('be JSON: see row %s of partition %s', v_row.position + 1, v_row.task)
        );
    end;
  end loop;
end;
$$;

-- The number of duplicates. A refused message fails the whole portion.
create or replace function penstock.publish_staged_messages(
  p_places tid[],
  p_rows record,
  p_tenant bigint,
  p_name text,
  p_now timestamptz
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer := cardinality(p_rows.bodies);
  v_sent record;
  v_refused text;
begin
  perform penstock.check_messages(p_rows.bodies, p_rows.delays, p_rows.priorities, p_rows.groups, p_rows.dedups);
  begin
    v_sent := penstock.send_many(
      array_fill(p_tenant, array[v_count]), array_fill(p_name, array[v_count]), p_rows.bodies, null,
      p_rows.delays, p_rows.priorities, p_rows.groups, p_rows.dedups, null, null, null, p_rows.headers, null, null,
      p_now
    );
  exception
    when data_exception or program_limit_exceeded then
      perform penstock.check_staged_json(p_places, 'headers');
      raise;
  end;
  v_refused := (select c from unnest(v_sent.codes) as c where c is not null limit 1);
  if v_refused is not null then
    perform penstock.raise_code(v_refused, p_name);
  end if;
  return coalesce(cardinality(array_positions(v_sent.duplicates, true)), 0);
end;
$$;

create or replace function penstock.publish_staged_jobs(
  p_places tid[],
  p_rows record,
  p_tenant bigint,
  p_name text,
  p_now timestamptz
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_sent record;
begin
  perform penstock.check_jobs(p_rows.bodies, p_rows.priorities, p_rows.dedups, p_rows.moments);
  begin
    v_sent := penstock.enqueue_jobs(
      array[p_tenant], penstock.make_job_queues(array[p_tenant], array[p_name], p_now), p_rows.bodies,
      p_rows.priorities, null, p_rows.moments, null,
      case when num_nonnulls(variadic p_rows.dedups) > 0 then p_rows.dedups end, null, p_now
    );
  exception
    when data_exception or program_limit_exceeded then
      perform penstock.check_staged_json(p_places, 'payload');
      raise;
  end;
  return coalesce(cardinality(array_positions(v_sent.existing, true)), 0);
end;
$$;

-- Delete staged rows of killed attempts, notes of old reads, and names of old writes.
create or replace function penstock.collect_staged(p_before timestamptz)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_rows bigint;
begin
  delete from penstock.spark_pieces as p where p.noted_at < p_before;
  delete from penstock.spark_ledger as l where l.once and l.written_at < p_before;
  delete from penstock.spark_staging as s where s.staged_at < p_before;
  get diagnostics v_rows = row_count;
  return v_rows;
end;
$$;
