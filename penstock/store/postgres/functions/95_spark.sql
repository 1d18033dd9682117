-- Writes of Spark: staged by tasks, published whole by the driver.

-- Publish what these attempts staged, and these loads, once per batch of a query; false when it had been published
-- before. A write that is not a batch of anything has a name of its own (p_once), so that its driver may ask again when
-- the answer was lost; such names are forgotten with what is collected.
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
-- What was staged a moment ago has no statistics.
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_tenant bigint := (select t.id from penstock.tenants as t where t.name = p_tenant);
  v_fresh boolean;
  v_count bigint;
begin
  if v_tenant is null then
    raise exception using errcode = 'PS020', message = format('Tenant ''%s'' does not exist', p_tenant);
  end if;
  insert into penstock.spark_ledger as l (query, batch, once, written_at)
  values (p_query, p_batch, p_once, p_now)
  on conflict (query) do update
  set batch = excluded.batch,
      written_at = excluded.written_at
  where l.batch < excluded.batch;
  v_fresh := found;
  if v_fresh then
    case p_target
      when 'stream' then v_count := penstock.publish_staged_events(p_attempts, p_name);
      when 'queue' then v_count := penstock.publish_staged_messages(p_attempts, v_tenant, p_name, p_now);
      when 'jobs' then v_count := penstock.publish_staged_jobs(p_attempts, v_tenant, p_name, p_now);
      else raise exception using errcode = 'PS010', message = 'target must be stream, queue or jobs';
    end case;
    if v_count <> p_count then
      raise exception using
        errcode = 'PS030',
        message = format('%s of %s staged rows are left; write the batch again', v_count, p_count);
    end if;
    if p_loads <> '{}' then
      perform pgque.publish_loads(p_name, p_loads);
    end if;
  elsif p_loads <> '{}' then
    perform pgque.discard_loads(p_loads);
  end if;
  delete from penstock.spark_staging as s where s.attempt = any (p_attempts);
  return v_fresh;
end;
$$;

-- The staged rows in portions of arrays, as the functions that store many take them.
create or replace function penstock.staged_portions(
  p_attempts bigint[],
  p_name text,
  out names text[],
  out types text[],
  out bodies text[],
  out delays integer[],
  out moments timestamptz[],
  out priorities integer[],
  out groups text[],
  out dedups text[],
  out headers text[]
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    array_agg(coalesce(p_name, r.name) order by r.rank),
    array_agg(coalesce(r.type, 'default') order by r.rank),
    array_agg(r.value order by r.rank),
    array_agg(ceil(extract(epoch from r.deliver_at - now()))::integer order by r.rank),
    array_agg(r.deliver_at order by r.rank),
    array_agg(r.priority order by r.rank),
    array_agg(r.key order by r.rank),
    array_agg(r.dedup_id order by r.rank),
    array_agg(r.headers order by r.rank)
  from (
    select s.*, row_number() over (order by coalesce(p_name, s.name), s.attempt, s.position) as rank
    from penstock.spark_staging as s
    where s.attempt = any (p_attempts)
  ) as r
  -- One name in each portion: a stream takes only its own.
  group by coalesce(p_name, r.name), (r.rank - 1) / 5000
  order by min(r.rank);
$$;

-- Each of these returns how many rows it has published.

-- Into one stream with one statement, into several in portions.
create or replace function penstock.publish_staged_events(p_attempts bigint[], p_name text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_portion record;
  v_count bigint := 0;
begin
  if p_name is not null then
    return penstock.publish_staged_stream(p_attempts, p_name);
  end if;
  for v_portion in select * from penstock.staged_portions(p_attempts, p_name) loop
    perform pgque.insert_events(
      v_portion.names[1], v_portion.types, v_portion.bodies, v_portion.headers, null, null, v_portion.groups
    );
    v_count := v_count + cardinality(v_portion.names);
  end loop;
  return v_count;
end;
$$;

-- The rules are those of every insert (who may, and whether the stream takes any), and so is the order of locks: the
-- transaction has its id before the current table is looked up, and holds that table until it ends. The ids are in
-- the order of the attempts and of their rows, which the index has.
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

-- A message that its queue refuses fails the whole batch: half a batch could not be written again.
create or replace function penstock.publish_staged_messages(
  p_attempts bigint[], p_tenant bigint, p_name text, p_now timestamptz
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_portion record;
  v_sent record;
  v_refused integer;
  v_count bigint := 0;
begin
  for v_portion in select * from penstock.staged_portions(p_attempts, p_name) loop
    select *
    into v_sent
    from penstock.send_many(
      array_fill(p_tenant, array[cardinality(v_portion.names)]), v_portion.names, v_portion.bodies, null,
      array(select greatest(d, 0) from unnest(v_portion.delays) as d), v_portion.priorities, v_portion.groups,
      v_portion.dedups, null, null, null, v_portion.headers, null, null, p_now
    );
    select min(c.position)
    into v_refused
    from unnest(v_sent.codes) with ordinality as c (code, position)
    where c.code is not null;
    if v_refused is not null then
      perform penstock.raise_code(v_sent.codes[v_refused], v_portion.names[v_refused]);
    end if;
    v_count := v_count + cardinality(v_portion.names);
  end loop;
  return v_count;
end;
$$;

create or replace function penstock.publish_staged_jobs(
  p_attempts bigint[], p_tenant bigint, p_name text, p_now timestamptz
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_portion record;
  v_tenants bigint[];
  v_count bigint := 0;
begin
  for v_portion in select * from penstock.staged_portions(p_attempts, p_name) loop
    v_tenants := array_fill(p_tenant, array[cardinality(v_portion.names)]);
    perform penstock.enqueue_jobs(
      v_tenants, penstock.make_job_queues(v_tenants, v_portion.names, p_now), v_portion.bodies, v_portion.priorities,
      null, v_portion.moments, null,
      case when num_nonnulls(variadic v_portion.dedups) > 0 then v_portion.dedups end, null, p_now
    );
    v_count := v_count + cardinality(v_portion.names);
  end loop;
  return v_count;
end;
$$;

-- What killed attempts staged, reads that nobody waits for any more, and names of writes that nobody asks about again.
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
