-- Schedules: made, changed, fired.

-- name: insert_schedule
insert into schedules (
  tenant_id, name, status, target_kind, target, shape, given, kind, expression, timezone, anchor, body, json,
  headers, delay_s, priority, group_id, catchup, catchup_limit, jitter_s, failure_threshold, next_fire_at, due_at,
  created_at, updated_at
)
values (
  :tenant, :name, :status, :target_kind, :target, :shape, :given, :kind, :expression, :timezone, :anchor, :body, :json,
  :headers, :delay_s, :priority, :group_id, :catchup, :catchup_limit, :jitter_s, :failure_threshold, :next_fire_at,
  :due_at, :now, :now
)
on conflict (tenant_id, name) do nothing
returning *;

-- name: get_schedule
select *
from schedules
where tenant_id = :tenant
and name = :name;

-- name: get_schedule_by_id
select *
from schedules
where id = :id;

-- name: list_schedules
-- Without what they send, which may be large.
select
  id, tenant_id, name, status, target_kind, target, shape, given, kind, expression, timezone, anchor, '' as body,
  json, null as headers, delay_s, priority, group_id, catchup, catchup_limit, jitter_s, failure_threshold,
  next_fire_at, due_at, last_fire_at, fires, consecutive_failures, last_error, revision, created_at, updated_at
from schedules
where tenant_id = :tenant
and (:status is null or status = :status)
and (:kind is null or target_kind = :kind)
and substr(name, 1, length(:prefix)) = :prefix
order by name
limit :limit;

-- name: update_schedule
update schedules
set status = :status,
    target_kind = :target_kind,
    target = :target,
    shape = :shape,
    given = :given,
    kind = :kind,
    expression = :expression,
    timezone = :timezone,
    anchor = :anchor,
    body = :body,
    json = :json,
    headers = :headers,
    delay_s = :delay_s,
    priority = :priority,
    group_id = :group_id,
    catchup = :catchup,
    catchup_limit = :catchup_limit,
    jitter_s = :jitter_s,
    failure_threshold = :failure_threshold,
    next_fire_at = :next_fire_at,
    due_at = :due_at,
    consecutive_failures = :consecutive_failures,
    last_error = :last_error,
    updated_at = :now,
    revision = revision + 1
where tenant_id = :tenant
and id = :id
and revision = :revision
returning *;

-- name: delete_schedule
delete from schedules
where tenant_id = :tenant
and name = :name;

-- name: delete_fired_schedule
delete from schedules
where id = :id;

-- name: next_schedule_due
select due_at
from schedules indexed by schedules_due
where status = 'active'
and (due_at, id) > (:since, :last)
order by due_at, id
limit 1;

-- name: due_schedules
select *
from schedules indexed by schedules_due
where status = 'active'
and due_at <= :now
and (due_at, id) > (:since, :last)
order by due_at, id
limit :limit;

-- name: is_schedule_due
select 1
from schedules
where id = :id
and status = 'active'
and revision = :revision
and due_at <= :now;

-- name: advance_schedule
update schedules
set next_fire_at = :next_fire_at,
    due_at = :due_at,
    last_fire_at = :last_fire_at,
    fires = fires + :fires,
    consecutive_failures = 0,
    last_error = null,
    revision = revision + 1
where id = :id;

-- name: fail_schedule
update schedules
set consecutive_failures = consecutive_failures + 1,
    last_error = :error,
    status = case when consecutive_failures + 1 >= failure_threshold then 'paused' else 'active' end,
    due_at = :due_at,
    revision = revision + 1
where id = :id;

-- name: savepoint_schedule
savepoint schedule;

-- name: release_schedule
release schedule;

-- name: rollback_schedule
rollback to schedule;

-- name: insert_fire
insert into schedule_fires (schedule_id, scheduled_for, times, fired_at, by_hand, sent_id, error)
values (:id, :scheduled_for, :times, :now, :by_hand, :sent_id, :error);

-- name: forget_fires
delete from schedule_fires
where schedule_id = :id
  and id <= (select id from schedule_fires where schedule_id = :id order by id desc limit 1 offset :kept);

-- name: schedule_fires
select *
from schedule_fires
where schedule_id = :id
order by id desc
limit :limit;

-- name: sweep_fires
delete from schedule_fires
where id in (select id from schedule_fires where fired_at < :before order by fired_at limit :limit);
