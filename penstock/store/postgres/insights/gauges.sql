-- How much there is to do, for the metrics. Nothing here reads what is queued: counters, first entries of indexes, ticks.

-- name: job_figures
-- The first job of each priority comes by one step down the index of ready jobs each, $1 steps at most: a place is a
-- priority and a number below 2^48, so that the next priority begins behind the last number of this one.
select t.tenant_id, t.queue, t.pending, t.processing, t.completed, t.cancelled, t.dead, r.ready_since
from penstock.job_totals as t
left join lateral (
  with recursive firsts (step, priority, run_at) as (
    (
      select 1, j.priority, j.run_at
      from penstock.jobs as j
      where j.queue_id = t.queue_id
        and j.state = 0
      order by j.place
      limit 1
    )
    union all
    select f.step + 1, n.priority, n.run_at
    from firsts as f
    cross join lateral (
      select j.priority, j.run_at
      from penstock.jobs as j
      where j.queue_id = t.queue_id
        and j.state = 0
        and j.place > penstock.job_place(f.priority, 281474976710655)
      order by j.place
      limit 1
    ) as n
    where f.step < $1
  )
  select min(f.run_at) as ready_since from firsts as f
) as r on true;

-- name: endpoint_figures
-- The index of unfinished deliveries finds them.
select f.tenant_id, f.endpoint, count(*) as failing
from (
  select d.tenant_id, d.endpoint
  from penstock.deliveries as d
  where d.state < 2
    and d.attempts >= $1
  limit $2
) as f
group by f.tenant_id, f.endpoint;

-- name: schedule_figures
select
  (
    select count(*)
    from (select from penstock.schedules as s where s.status = 'active' order by s.due_at, s.id limit $2) as counted
  ) as active,
  (
    select count(*)
    from (select from penstock.schedules as s where s.status = 'paused' order by s.id limit $2) as counted
  ) as paused,
  (
    select count(*)
    from (
      select
      from penstock.schedules as s
      where s.status = 'active'
        and s.due_at <= $1
      order by s.due_at, s.id
      limit $2
    ) as counted
  ) as overdue,
  (select s.due_at from penstock.schedules as s where s.status = 'active' order by s.due_at, s.id limit 1) as due_at;

-- name: consumer_figures
-- Members of a cooperative consumer are not consumers of their own.
select
  p.queue_name,
  p.consumer_name,
  coalesce(p.newest_event_seq - p.tick_event_seq, 0) as pending,
  extract(epoch from now() - p.tick_time)::float8 as lag_s
from pgque.consumer_places() as p
where p.sub_role <> 'member'
  and p.tick_time is not null;

-- name: stream_figures
-- A stream may be dropped meanwhile: its sequence is gone then.
select
  q.queue_name,
  extract(epoch from now() - t.tick_time)::float8 as tick_age_s,
  coalesce(pg_sequence_last_value(to_regclass('pgque.event_' || q.queue_id || '_nack_seq')), 0) as nacked,
  (
    select count(*)
    from (select from pgque.dead_letter as d where d.dl_queue_id = q.queue_id limit 1000) as counted
  ) as dead
from pgque.queue as q
cross join lateral (
  select n.tick_time
  from pgque.tick as n
  where n.tick_queue = q.queue_id
  order by n.tick_id desc
  limit 1
) as t;

-- name: pipeline_figures
-- One step down the index for each pipeline of each tenant that runs any, however many runs there are.
with recursive known (tenant_id, pipeline) as (
  (select r.tenant_id, r.pipeline from penstock.pipeline_runs as r order by r.tenant_id, r.pipeline limit 1)
  union all
  select n.tenant_id, n.pipeline
  from known as k
  cross join lateral (
    select r.tenant_id, r.pipeline
    from penstock.pipeline_runs as r
    where (r.tenant_id, r.pipeline) > (k.tenant_id, k.pipeline)
    order by r.tenant_id, r.pipeline
    limit 1
  ) as n
)
select
  l.tenant_id as tenant,
  l.pipeline,
  l.state = 'running' and l.seen_at >= $1 as running,
  l.state = 'failed' or (l.state = 'running' and l.seen_at < $1) as failed,
  l.rows,
  coalesce(case when l.state = 'running' then l.lag_events end, 0) as lag_events,
  coalesce(case when l.state = 'running' then l.lag_s end, 0) as lag_s,
  l.seen_at
from known as k
cross join lateral (
  select r.*
  from penstock.pipeline_runs as r
  where r.tenant_id = k.tenant_id
    and r.pipeline = k.pipeline
  order by r.id desc
  limit 1
) as l;
