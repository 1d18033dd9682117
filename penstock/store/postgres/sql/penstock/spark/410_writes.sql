-- Writes of Spark: tasks stage rows, and the driver publishes them all at once.

-- Publish the rows that these attempts staged, and these loads, once per batch of a query and target; false when the
-- batch was published before. A write outside of streaming queries has a unique name (p_once), so that its driver may
-- repeat the call when the answer was lost; collect_staged deletes such names. The ledger also has the number of rows of
-- the last batch that were not stored because their deduplication ids were duplicates.
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
  p_now timestamptz
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
    case p_target
      when 'stream' then v_count := penstock.publish_staged_events(p_attempts, v_tenant, p_name);
      when 'queue' then
        select p.published, p.duplicates
        into v_count, v_duplicates
        from penstock.publish_staged_messages(p_attempts, v_tenant, p_name, p_now) as p;
      when 'jobs' then
        select p.published, p.duplicates
        into v_count, v_duplicates
        from penstock.publish_staged_jobs(p_attempts, v_tenant, p_name, p_now) as p;
      else raise exception using errcode = 'PS010', message = 'target must be stream, queue or jobs';
    end case;
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

-- Each of these functions returns the number of published rows, including duplicates.

-- One statement for a single stream; portions for several streams.
create or replace function penstock.publish_staged_events(p_attempts bigint[], p_tenant bigint, p_name text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_portion record;
  v_rows record;
  v_count bigint := 0;
begin
  if p_name is not null then
    return penstock.publish_staged_stream(p_attempts, penstock.stream_queue(p_tenant, p_name));
  end if;
  for v_portion in select * from penstock.staged_portions(p_attempts, p_name) loop
    perform penstock.check_that('name', v_portion.name is not null, 'not be null');
    v_rows := penstock.staged_portion(v_portion.places, now());
    perform pgque.insert_events(
      penstock.stream_queue(p_tenant, v_portion.name), v_rows.types, v_rows.bodies, v_rows.headers, null, null,
      v_rows.groups
    );
    v_count := v_count + cardinality(v_rows.bodies);
  end loop;
  return v_count;
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
      || ' from penstock.spark_staging as s where s.attempt = $1 order by s.position'
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

-- A refused message fails the whole batch: part of a batch could not be repeated.
create or replace function penstock.publish_staged_messages(
  p_attempts bigint[],
  p_tenant bigint,
  p_name text,
  p_now timestamptz,
  out published bigint,
  out duplicates bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_portion record;
  v_rows record;
  v_sent record;
  v_count integer;
  v_refused text;
begin
  published := 0;
  duplicates := 0;
  for v_portion in select * from penstock.staged_portions(p_attempts, p_name) loop
    perform penstock.check_that('name', v_portion.name is not null, 'not be null');
    v_rows := penstock.staged_portion(v_portion.places, p_now);
    v_count := cardinality(v_rows.bodies);
    perform penstock.check_messages(
      v_rows.bodies, v_rows.delays, v_rows.priorities, v_rows.groups, v_rows.dedups
    );
    begin
      v_sent := penstock.send_many(
        array_fill(p_tenant, array[v_count]), array_fill(v_portion.name, array[v_count]), v_rows.bodies, null,
        v_rows.delays, v_rows.priorities, v_rows.groups, v_rows.dedups, null, null, null, v_rows.headers, null, null,
        p_now
      );
    exception
      when data_exception or program_limit_exceeded then
        perform penstock.check_staged_json(v_portion.places, 'headers');
        raise;
    end;
    v_refused := (select c from unnest(v_sent.codes) as c where c is not null limit 1);
    if v_refused is not null then
      perform penstock.raise_code(v_refused, v_portion.name);
    end if;
    published := published + v_count;
    duplicates := duplicates + coalesce(cardinality(array_positions(v_sent.duplicates, true)), 0);
  end loop;
end;
$$;

create or replace function penstock.publish_staged_jobs(
  p_attempts bigint[],
  p_tenant bigint,
  p_name text,
  p_now timestamptz,
  out published bigint,
  out duplicates bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_portion record;
  v_rows record;
  v_sent record;
begin
  published := 0;
  duplicates := 0;
  for v_portion in select * from penstock.staged_portions(p_attempts, p_name) loop
    perform penstock.check_that('name', v_portion.name is not null, 'not be null');
    v_rows := penstock.staged_portion(v_portion.places, p_now);
    perform penstock.check_jobs(v_rows.bodies, v_rows.priorities, v_rows.dedups, v_rows.moments);
    begin
      v_sent := penstock.enqueue_jobs(
        array[p_tenant], penstock.make_job_queues(array[p_tenant], array[v_portion.name], p_now), v_rows.bodies,
        v_rows.priorities, null, v_rows.moments, null,
        case when num_nonnulls(variadic v_rows.dedups) > 0 then v_rows.dedups end, null, p_now
      );
    exception
      when data_exception or program_limit_exceeded then
        perform penstock.check_staged_json(v_portion.places, 'payload');
        raise;
    end;
    published := published + cardinality(v_rows.bodies);
    duplicates := duplicates + coalesce(cardinality(array_positions(v_sent.existing, true)), 0);
  end loop;
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
