-- Looking at jobs: one, many, and how many.

-- Jobs as they are shown, from the two places they lie in.
drop function if exists penstock.list_jobs(bigint, text, integer[], bigint, integer, integer);
drop view if exists penstock.live_jobs;
create view penstock.live_jobs as
select
  j.queue_id, j.id, j.tenant_id, j.state, j.priority, j.payload, null::json as result, j.error, j.dead_reason,
  j.retry_count, j.max_retries, j.attempts, j.lease_lost_count, j.progress, j.note, j.worker, j.run_at, j.created_at,
  j.updated_at, j.started_at, j.leased_at, j.finished_at,
  case when j.state = 1 then j.due_at end as lease_expires_at
from penstock.jobs as j;

drop view if exists penstock.done_jobs;
create view penstock.done_jobs as
select
  f.queue_id, f.id, f.tenant_id, f.state, f.priority, f.payload, f.result, f.error, null::text as dead_reason,
  f.retry_count, f.max_retries, f.attempts, f.lease_lost_count, f.progress, f.note, f.worker, f.run_at, f.created_at,
  f.finished_at as updated_at, f.started_at, null::timestamptz as leased_at, f.finished_at,
  null::timestamptz as lease_expires_at
from penstock.finished_jobs as f;

-- How many jobs a queue has in each state: as last summed up, and what has changed since.
drop view if exists penstock.job_totals;
create view penstock.job_totals as
select
  q.id as queue_id,
  q.tenant_id,
  q.name as queue,
  coalesce(c.pending, 0) + coalesce(d.pending, 0) as pending,
  coalesce(c.processing, 0) + coalesce(d.processing, 0) as processing,
  coalesce(c.completed, 0) + coalesce(d.completed, 0) as completed,
  coalesce(c.cancelled, 0) + coalesce(d.cancelled, 0) as cancelled,
  coalesce(c.dead, 0) + coalesce(d.dead, 0) as dead
from penstock.job_queues as q
left join penstock.job_counts as c on c.queue_id = q.id
left join lateral (
  select
    sum(n.pending) as pending,
    sum(n.processing) as processing,
    sum(n.completed) as completed,
    sum(n.cancelled) as cancelled,
    sum(n.dead) as dead
  from penstock.job_changes as n
  where n.queue_id = q.id
) as d on true;

-- The newest jobs of a tenant with numbers below p_before: each queue's newest, then the newest of those. Every state
-- is walked by the index that holds nothing else, and only when it is asked for.
create or replace function penstock.list_jobs(
  p_tenant bigint,
  p_queue text,
  p_states integer[],
  p_before bigint,
  p_limit integer,
  p_offset integer
)
returns table (queue text, job penstock.live_jobs)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select q.name, x.job
  from penstock.job_queues as q
  cross join lateral (
    (
      select j.id, j as job
      from penstock.live_jobs as j
      where j.queue_id = q.id
        and j.id < p_before
        and j.state in (0, 2)
        and 0 = any (p_states)
      order by j.id desc
      limit p_limit + p_offset
    )
    union all
    (
      select j.id, j as job
      from penstock.live_jobs as j
      where j.queue_id = q.id
        and j.id < p_before
        and j.state = 1
        and 1 = any (p_states)
      order by j.id desc
      limit p_limit + p_offset
    )
    union all
    (
      select j.id, j as job
      from penstock.live_jobs as j
      where j.queue_id = q.id
        and j.id < p_before
        and j.state = 3
        and 3 = any (p_states)
      order by j.id desc
      limit p_limit + p_offset
    )
    union all
    (
      select f.id, row(f.*)::penstock.live_jobs as job
      from penstock.done_jobs as f
      where f.queue_id = q.id
        and f.id < p_before
        and f.state = 4
        and 4 = any (p_states)
      order by f.id desc
      limit p_limit + p_offset
    )
    union all
    (
      select f.id, row(f.*)::penstock.live_jobs as job
      from penstock.done_jobs as f
      where f.queue_id = q.id
        and f.id < p_before
        and f.state = 5
        and 5 = any (p_states)
      order by f.id desc
      limit p_limit + p_offset
    )
  ) as x
  where q.tenant_id = p_tenant
    and (p_queue is null or q.name = p_queue)
  order by x.id desc
  limit p_limit
  offset p_offset;
$$;

-- How many jobs each queue of a tenant has in each state; of one queue, of all, or (tenant null) of everyone's.
create or replace function penstock.count_jobs(p_tenant bigint, p_queue text)
returns table (
  tenant_id bigint,
  queue text,
  pending bigint,
  processing bigint,
  completed bigint,
  cancelled bigint,
  dead bigint,
  oldest_pending_created_at timestamptz
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    t.tenant_id,
    t.queue,
    t.pending,
    t.processing,
    t.completed,
    t.cancelled,
    t.dead,
    (
      select j.created_at
      from penstock.jobs as j
      where j.queue_id = t.queue_id
        and j.state in (0, 2)
      order by j.id
      limit 1
    )
  from penstock.job_totals as t
  where (p_tenant is null or t.tenant_id = p_tenant)
    and (p_queue is null or t.queue = p_queue)
  order by t.queue collate "C";
$$;
