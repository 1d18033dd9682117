-- Facts for the pipeline insights, and its results.

-- What happened between two moments, one row for each fact that is stored. These functions run with the rights of their
-- caller and are inlined, so that each part is read by its index.
--
-- Every part also bounds the column that its table is ordered by: what was sent after a moment also ended after it.

-- Messages of queues. A dead letter was sent to the queue it comes from.
create or replace function penstock.queue_facts(p_since timestamptz, p_until timestamptz)
returns table (
  kind text, tenant_id bigint, name text, at timestamptz, id bigint, sent integer, done integer, retried integer,
  failed integer, dead integer, latency interval, error text
)
language sql
stable
as $$
  select
    'queue' as kind, q.tenant_id, coalesce(s.name, q.name) as name, m.sent_at as at, m.id,
    1 as sent, 0 as done, 0 as retried, 0 as failed, 0 as dead, null::interval as latency, null::text as error
  from penstock.messages as m
  join penstock.queues as q on q.bin_id = m.bin_id
  left join penstock.queues as s on s.id = m.dead_letter_source
  where m.sent_at >= p_since
    and m.sent_at < p_until
  union all
  -- The move to the dead-letter queue set both lease and visible_at to its moment; a receive since then forgets it.
  select
    'queue', s.tenant_id, s.name, m.visible_at, m.id, 0, 0, greatest(m.receives - 1, 0), m.receives, 1,
    m.visible_at - m.sent_at, 'received too often'
  from penstock.messages as m
  join penstock.queues as s on s.id = m.dead_letter_source
  where m.visible_at >= p_since
    and m.visible_at < p_until
    and m.lease = (extract(epoch from m.visible_at) * 1000000)::bigint
  union all
  select 'queue', a.tenant_id, a.queue, a.sent_at, a.id, 1, 0, 0, 0, 0, null, null
  from penstock.archive as a
  where a.sent_at >= p_since
    and a.sent_at < p_until
    and a.archived_at >= p_since
  union all
  select
    'queue', a.tenant_id, a.queue, a.archived_at, a.id, 0, 1, greatest(a.receives - 1, 0), greatest(a.receives - 1, 0),
    0, a.archived_at - a.sent_at, null
  from penstock.archive as a
  where a.archived_at >= p_since
    and a.archived_at < p_until
$$;

-- Jobs and their attempts.
create or replace function penstock.job_facts(p_since timestamptz, p_until timestamptz)
returns table (
  kind text, tenant_id bigint, name text, at timestamptz, id bigint, sent integer, done integer, retried integer,
  failed integer, dead integer, latency interval, error text
)
language sql
stable
as $$
  select 'job', j.tenant_id, q.name, j.created_at, j.id, 1, 0, 0, 0, 0, null, null
  from penstock.jobs as j
  join penstock.job_queues as q on q.id = j.queue_id
  where j.created_at >= p_since
    and j.created_at < p_until
  union all
  select 'job', j.tenant_id, q.name, j.finished_at, j.id, 0, 0, 0, 0, 1, j.finished_at - j.created_at, null
  from penstock.jobs as j
  join penstock.job_queues as q on q.id = j.queue_id
  where j.state = 3
    and j.finished_at >= p_since
    and j.finished_at < p_until
  union all
  select 'job', j.tenant_id, q.name, j.created_at, j.id, 1, 0, 0, 0, 0, null, null
  from penstock.finished_jobs as j
  join penstock.job_queues as q on q.id = j.queue_id
  where j.created_at >= p_since
    and j.created_at < p_until
    and j.finished_at >= p_since
  union all
  select 'job', j.tenant_id, q.name, j.finished_at, j.id, 0, 1, 0, 0, 0, j.finished_at - j.created_at, null
  from penstock.finished_jobs as j
  join penstock.job_queues as q on q.id = j.queue_id
  where j.state = 4
    and j.finished_at >= p_since
    and j.finished_at < p_until
  union all
  select
    'job', q.tenant_id, q.name, t.ended_at, t.job_id, 0, 0, (t.attempt > 1)::integer,
    (t.outcome <> 'completed')::integer, 0, null,
    case t.outcome when 'failed' then coalesce(t.error, 'failed') when 'lost' then coalesce(t.error, 'lease lost') end
  from penstock.job_attempts as t
  join penstock.job_queues as q on q.id = t.queue_id
  where t.ended_at >= p_since
    and t.ended_at < p_until
$$;

-- Deliveries to endpoints, named by topic or routing key.
create or replace function penstock.delivery_facts(p_since timestamptz, p_until timestamptz)
returns table (
  kind text, tenant_id bigint, name text, at timestamptz, id bigint, sent integer, done integer, retried integer,
  failed integer, dead integer, latency interval, error text
)
language sql
stable
as $$
  select 'delivery', d.tenant_id, coalesce(d.topic, d.routing_key, ''), d.created_at, d.id, 1, 0, 0, 0, 0, null, null
  from penstock.deliveries as d
  where d.created_at >= p_since
    and d.created_at < p_until
  union all
  select
    'delivery', d.tenant_id, coalesce(d.topic, d.routing_key, ''), d.finished_at, d.id, 0, 1,
    greatest(d.attempts - 1, 0), greatest(d.attempts - 1, 0), 0, d.finished_at - d.created_at, null
  from penstock.deliveries as d
  where d.state = 2
    and d.finished_at >= p_since
    and d.finished_at < p_until
  union all
  select
    'delivery', d.tenant_id, coalesce(d.topic, d.routing_key, ''), d.finished_at, d.id, 0, 0,
    greatest(d.attempts - 1, 0), d.attempts, 1, d.finished_at - d.created_at,
    coalesce(d.last_error, 'status ' || d.last_status, 'failed')
  from penstock.deliveries as d
  where d.state = 3
    and d.finished_at >= p_since
    and d.finished_at < p_until
$$;

-- Dead letters of streams. What was sent and retried is read from the streams themselves.
create or replace function penstock.stream_facts(p_since timestamptz, p_until timestamptz)
returns table (
  kind text, tenant_id bigint, name text, at timestamptz, id bigint, sent integer, done integer, retried integer,
  failed integer, dead integer, latency interval, error text
)
language sql
stable
as $$
  select
    'stream', coalesce(substring(q.queue_name from '^t([1-9][0-9]{0,17}):')::bigint, 1),
    regexp_replace(q.queue_name, '^t[1-9][0-9]{0,17}:', ''), l.dl_time, l.dl_id, 0, 0, 0, 1, 1, l.dl_time - l.ev_time,
    coalesce(l.dl_reason, 'no reason given')
  from pgque.queue as q
  join pgque.dead_letter as l on l.dl_queue_id = q.queue_id
  where l.dl_time >= p_since
    and l.dl_time < p_until
$$;

-- All facts, with the names of their tenants.
create or replace function penstock.facts(p_since timestamptz, p_until timestamptz)
returns table (
  kind text,
  tenant text,
  name text,
  at timestamptz,
  id bigint,
  sent integer,
  done integer,
  retried integer,
  failed integer,
  dead integer,
  latency_s double precision,
  error text
)
language sql
stable
as $$
  select
    f.kind, n.name, f.name, f.at, f.id, f.sent, f.done, f.retried, f.failed, f.dead,
    extract(epoch from f.latency)::double precision, f.error
  from (
    select * from penstock.queue_facts(p_since, p_until)
    union all
    select * from penstock.job_facts(p_since, p_until)
    union all
    select * from penstock.delivery_facts(p_since, p_until)
    union all
    select * from penstock.stream_facts(p_since, p_until)
  ) as f
  join penstock.tenants as n on n.id = f.tenant_id
$$;

-- Rows have full values, so that a call can be repeated. Rows of deleted tenants are left out.
create or replace function penstock.record_insights(p_rows jsonb, p_moment timestamptz)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer;
begin
  insert into penstock.insights as r (
    tenant_id, step, starts_at, kind, name, sent, done, retried, failed, dead, retry_rate, dead_rate, per_second,
    p50_s, p95_s, p99_s, max_s, recorded_at
  )
  select
    t.id, e.step, e.starts_at, e.kind, e.name, e.sent, e.done, e.retried, e.failed, e.dead, e.retry_rate, e.dead_rate,
    e.per_second, e.p50_s, e.p95_s, e.p99_s, e.max_s, p_moment
  from jsonb_to_recordset(p_rows) as e (
    tenant text, step text, starts_at timestamptz, kind text, name text, sent bigint, done bigint, retried bigint,
    failed bigint, dead bigint, retry_rate double precision, dead_rate double precision, per_second double precision,
    p50_s double precision, p95_s double precision, p99_s double precision, max_s double precision
  )
  join penstock.tenants as t on t.name = e.tenant
  on conflict (tenant_id, step, starts_at, kind, name) do update
  set sent = excluded.sent,
      done = excluded.done,
      retried = excluded.retried,
      failed = excluded.failed,
      dead = excluded.dead,
      retry_rate = excluded.retry_rate,
      dead_rate = excluded.dead_rate,
      per_second = excluded.per_second,
      p50_s = excluded.p50_s,
      p95_s = excluded.p95_s,
      p99_s = excluded.p99_s,
      max_s = excluded.max_s,
      recorded_at = excluded.recorded_at;
  get diagnostics v_count = row_count;
  return v_count;
end;
$$;

create or replace function penstock.record_insight_errors(p_rows jsonb, p_moment timestamptz)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer;
begin
  insert into penstock.insight_errors as r (
    tenant_id, starts_at, kind, name, shape, count, example, recorded_at
  )
  select t.id, e.starts_at, e.kind, e.name, e.shape, e.count, e.example, p_moment
  from jsonb_to_recordset(p_rows) as e (
    tenant text, starts_at timestamptz, kind text, name text, shape text, count bigint, example text
  )
  join penstock.tenants as t on t.name = e.tenant
  on conflict (tenant_id, starts_at, kind, name, shape) do update
  set count = excluded.count,
      example = excluded.example,
      recorded_at = excluded.recorded_at;
  get diagnostics v_count = row_count;
  return v_count;
end;
$$;

-- Called at the end of a run that has counted everything since p_since: delete rows of that time that the run did not
-- write, and rows beyond their retention. Returns the number of deleted rows.
create or replace function penstock.settle_insights(
  p_since timestamptz,
  p_moment timestamptz,
  p_hours_kept interval,
  p_days_kept interval
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_day timestamptz := date_trunc('day', p_since at time zone 'UTC') at time zone 'UTC';
  v_insights integer;
  v_errors integer;
begin
  delete from penstock.insights as r
  where (r.step = 'hour' and r.starts_at >= p_since and r.recorded_at <> p_moment)
    or (r.step = 'day' and r.starts_at >= v_day and r.recorded_at <> p_moment)
    or (r.step = 'hour' and r.starts_at < p_moment - p_hours_kept)
    or (r.step = 'day' and r.starts_at < p_moment - p_days_kept);
  get diagnostics v_insights = row_count;
  delete from penstock.insight_errors as r
  where (r.starts_at >= p_since and r.recorded_at <> p_moment)
    or r.starts_at < p_moment - p_hours_kept;
  get diagnostics v_errors = row_count;
  return v_insights + v_errors;
end;
$$;
