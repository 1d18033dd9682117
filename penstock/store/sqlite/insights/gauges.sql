-- How much there is to do, for the metrics. Nothing here reads what is queued: counters and first entries of indexes.

-- name: job_figures
-- The first job of each priority comes by one step down the index of ready jobs each, :steps at most.
with recursive firsts (queue_id, step, job_id) as (
  select
    q.id,
    1,
    (
      select j.id
      from jobs as j indexed by jobs_ready
      where j.queue_id = q.id
        and j.state = 0
      order by j.priority desc, j.id
      limit 1
    )
  from job_queues as q
  union all
  select
    f.queue_id,
    f.step + 1,
    (
      select j.id
      from jobs as j indexed by jobs_ready
      where j.queue_id = f.queue_id
        and j.state = 0
        and j.priority < (select p.priority from jobs as p where p.id = f.job_id)
      order by j.priority desc, j.id
      limit 1
    )
  from firsts as f
  where f.job_id is not null
    and f.step < :steps
)
select q.tenant_id, q.name as queue, q.id as queue_id, min(j.run_at) as ready_since
from firsts as f
join job_queues as q on q.id = f.queue_id
left join jobs as j on j.id = f.job_id
group by q.id;

-- name: job_counts
select queue_id, state, jobs
from job_counts;

-- name: endpoint_figures
select tenant_id, endpoint, count(*) as failing
from (
  select tenant_id, endpoint
  from deliveries indexed by deliveries_due
  where state < 2
  and attempts >= :attempts
  limit :limit
)
group by tenant_id, endpoint;

-- name: schedule_figures
select
  (
    select count(*)
    from (select 1 from schedules indexed by schedules_due where status = 'active' limit :limit)
  ) as active,
  (
    select count(*)
    from (select 1 from schedules indexed by schedules_paused where status = 'paused' limit :limit)
  ) as paused,
  (
    select count(*)
    from (select 1 from schedules indexed by schedules_due where status = 'active' and due_at <= :now limit :limit)
  ) as overdue,
  (
    select due_at
    from schedules indexed by schedules_due
    where status = 'active'
    order by due_at, id
    limit 1
  ) as due_at;
