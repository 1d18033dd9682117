-- Jobs. States: 0 ready, 1 processing, 2 delayed, 3 dead, 4 completed, 5 cancelled.

-- name: job_salt
select salt
from job_space;

-- name: next_job_number
update job_space
set last_number = last_number + 1
returning last_number;

-- name: find_job_queue
select *
from job_queues
where tenant_id = :tenant
  and name = :name;

-- name: insert_job_queue
insert into job_queues (tenant_id, name, created_at)
values (:tenant, :name, :now)
on conflict (tenant_id, name) do nothing;

-- name: limit_job_queue
update job_queues
set concurrency = :concurrency, rate = :rate, burst = :burst, starts_left = null, filled_at = null
where id = :id;

-- name: fill_job_queue
update job_queues
set starts_left = :left, filled_at = :now
where id = :id;

-- name: find_job_key
select job_id
from job_keys
where queue_id = :queue
  and key = :key
  and expires_at > :now;

-- name: put_job_key
insert into job_keys (queue_id, key, job_id, expires_at)
values (:queue, :key, :id, :expires_at)
on conflict (queue_id, key) do update
set job_id = excluded.job_id, expires_at = excluded.expires_at;

-- name: insert_job
insert into jobs (
  id, queue_id, tenant_id, state, priority, due_at, run_at, created_at, updated_at, max_retries, backoff, payload
)
values (:id, :queue, :tenant, :state, :priority, :run_at, :run_at, :now, :now, :max_retries, :backoff, :payload);

-- name: insert_job_trace
insert into job_traces (job_id, trace, created_at)
values (:id, :trace, :now);

-- name: job_trace
select trace
from job_traces
where job_id = :id;

-- name: traced_jobs
select j.queue_id, j.id
from (
  select r.job_id, r.trace
  from job_traces as r indexed by job_traces_age
  order by r.created_at desc
  limit :recent
) as t
join jobs as j on j.id = t.job_id
where j.tenant_id = :tenant
and t.trace >= :beginning
and t.trace < :beginning || char(1114111)
order by j.id
limit :limit;

-- name: insert_job_tag
insert into job_tags (tenant_id, tag, job_id, created_at)
values (:tenant, :tag, :id, :now)
on conflict do nothing;

-- name: list_job_tags
select tag
from job_tags
where job_id = :id
order by tag;

-- name: tagged_jobs
select job_id
from job_tags
where tenant_id = :tenant
  and tag = :tag
  and job_id < :before
order by job_id desc
limit :limit;

-- name: any_job
select id, queue_id, state
from jobs
where id = :id
union all
select id, queue_id, state
from finished_jobs
where id = :id;

-- name: forget_job_tags
delete from job_tags
where created_at < :before
  and not exists (select 1 from jobs as j where j.id = job_tags.job_id)
  and not exists (select 1 from finished_jobs as f where f.id = job_tags.job_id);

-- name: forget_job_traces
delete from job_traces
where created_at < :before;

-- name: promote_jobs
update jobs
set state = 0
where id in (
  select id
  from jobs
  where queue_id = :queue
    and state = 2
    and due_at <= :now
  order by due_at
  limit :limit
)
returning id;

-- name: lost_jobs
select *
from jobs
where queue_id = :queue
  and state = 1
  and due_at <= :now
order by due_at
limit :limit;

-- name: lose_job
update jobs
set state = :state,
    retry_count = min(retry_count + 1, max_retries),
    lease_lost_count = lease_lost_count + 1,
    lease_token = null,
    run_at = iif(:state = 0, :now, run_at),
    updated_at = :now,
    finished_at = iif(:state = 3, :now, null),
    dead_reason = iif(:state = 3, 'the lease was lost, and no retry is left', null)
where id = :id;

-- name: count_running
select count(*)
from jobs
where queue_id = :queue
  and state = 1;

-- name: ready_jobs
select id
from jobs
where queue_id = :queue
  and state = 0
order by priority desc, id
limit :limit;

-- name: lease_job
update jobs
set state = 1,
    due_at = :until,
    lease_token = :token,
    -- The clock was read before this turn came: the attempt before may have ended a little later.
    leased_at = max(:now, updated_at),
    started_at = coalesce(started_at, :now),
    updated_at = max(:now, updated_at),
    attempts = attempts + 1,
    progress = null,
    note = null,
    worker = :worker
where id = :id
returning *;

-- name: next_job_at
select min(due_at)
from jobs
where queue_id = :queue
  and state in (1, 2)
  and due_at > :now;

-- name: find_job
select *
from jobs
where id = :id
  and queue_id = :queue
  and tenant_id = :tenant;

-- name: find_finished_job
select *
from finished_jobs
where id = :id
  and queue_id = :queue
  and tenant_id = :tenant;

-- name: job_queue_name
select name
from job_queues
where id = :id;

-- name: delete_job
delete from jobs
where id = :id;

-- name: insert_edge
insert into job_edges (queue_id, job_id, after_queue_id, after_id, done, created_at)
values (:queue, :id, :after_queue, :after, :done, :now)
on conflict do nothing;

-- name: hold_job
update jobs
set state = 2, due_at = :due_at
where id = :id
  and exists (select 1 from job_edges where job_id = :id and done = 0);

-- name: meet_edges
update job_edges
set done = 1
where after_id = :id
  and done = 0
returning queue_id, job_id;

-- name: release_held_job
update jobs
set state = iif(run_at > :now, 2, 0), due_at = max(run_at, :now), updated_at = :now
where id = :id
  and state = 2
  and due_at = :due_at
  and not exists (select 1 from job_edges where job_id = :id and done = 0);

-- name: note_job_error
update jobs
set error = :error
where id = :id
  and state in (0, 2);

-- name: list_edges
select *
from job_edges
where job_id = :id
order by after_id;

-- name: forget_job_edges
delete from job_edges
where created_at < :before
  and done = 1;

-- name: job_queue
select tenant_id, name
from job_queues
where id = :id;

-- name: insert_finished_job
insert into finished_jobs (
  id, queue_id, tenant_id, state, priority, run_at, created_at, started_at, finished_at, max_retries, retry_count,
  attempts, lease_lost_count, progress, worker, note, error, payload, result
)
select
  id, queue_id, tenant_id, :state, priority, run_at, created_at, started_at, :now, max_retries, retry_count, attempts,
  lease_lost_count, progress, worker, note, error, payload, :result
from jobs
where id = :id;

-- name: insert_attempt
insert into job_attempts (job_id, attempt, started_at, ended_at, worker, outcome, error)
values (:id, :attempt, :started_at, :now, :worker, :outcome, :error);

-- name: list_attempts
-- The latest, as many as fit into :bytes.
select *
from (
  select
    *,
    sum(length(cast(coalesce(error, '') as blob)) + 100) over (
      order by attempt desc, ended_at desc rows unbounded preceding
    ) as bytes
  from job_attempts
  where job_id = :id
)
where bytes <= :bytes
order by attempt;

-- name: fail_job
update jobs
set state = :state,
    retry_count = retry_count + :spent,
    lease_token = null,
    error = :error,
    due_at = coalesce(:run_at, due_at),
    run_at = coalesce(:run_at, run_at),
    updated_at = :now,
    finished_at = iif(:state = 3, :now, null),
    dead_reason = :reason
where id = :id;

-- name: beat_job
update jobs
set due_at = :until, progress = coalesce(:progress, progress), note = coalesce(:note, note), updated_at = :now
where id = :id;

-- name: release_job
update jobs
set state = 0, lease_token = null, attempts = attempts - 1, worker = null, updated_at = :now
where id = :id;

-- name: tenant_job_queues
select id, tenant_id, name
from job_queues
where (:tenant is null or tenant_id = :tenant)
  and (:name is null or name = :name)
order by name;

-- name: list_jobs
select *
from jobs
where queue_id = :queue
  and state = :state
  and id < :before
order by id desc
limit :limit;

-- name: list_finished_jobs
select *
from finished_jobs
where queue_id = :queue
  and state = :state
  and id < :before
order by id desc
limit :limit;

-- name: count_jobs
select state, jobs
from job_counts
where queue_id = :queue;

-- name: oldest_pending_job
select min(created_at)
from jobs
where queue_id = :queue
  and state in (0, 2);

-- name: dead_jobs
select id
from jobs
where queue_id = :queue
  and state = 3
order by id
limit :limit;

-- name: requeue_job
update jobs
set state = 0, retry_count = 0, due_at = :now, run_at = :now, finished_at = null, dead_reason = null, updated_at = :now
where id = :id
  and state = 3
  and queue_id = :queue;

-- name: purge_job
delete from jobs
where id = :id
  and state = 3
  and queue_id = :queue;

-- name: due_job_queues
select distinct q.id, q.tenant_id, q.name
from jobs as j
join job_queues as q on q.id = j.queue_id
where j.state in (1, 2)
  and j.due_at <= :now;

-- name: forget_dead_jobs
delete from jobs
where id in (select id from jobs where state = 3 and finished_at < :before limit :limit)
returning id;

-- name: forget_finished_jobs
delete from finished_jobs
where id in (select id from finished_jobs where finished_at < :before limit :limit);

-- name: forget_attempts
delete from job_attempts
where ended_at < :before;

-- name: forget_job_keys
delete from job_keys
where expires_at <= :now;
