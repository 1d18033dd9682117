-- Schedules, as the server asks for them.

-- name: create_schedule
insert into penstock.schedules (
  tenant_id, name, status, target_kind, target, shape, given, kind, expression, timezone, anchor, body, is_json,
  headers, delay_s, priority, group_id, catchup, catchup_limit, jitter_s, failure_threshold, next_fire_at, due_at,
  created_at, updated_at
)
values (
  $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $24
)
on conflict (tenant_id, name) do nothing
returning *;

-- name: get_schedule
select s.* from penstock.schedules as s where s.tenant_id = $1 and s.name = $2;

-- name: list_schedules
-- Without what they send, which may be large.
select
  s.id, s.tenant_id, s.name, s.status, s.target_kind, s.target, s.shape, s.given, s.kind, s.expression, s.timezone,
  s.anchor, '' as body, s.is_json, null as headers, s.delay_s, s.priority, s.group_id, s.catchup, s.catchup_limit,
  s.jitter_s, s.failure_threshold, s.next_fire_at, s.due_at, s.last_fire_at, s.fires, s.consecutive_failures,
  s.last_error, s.revision, s.created_at, s.updated_at, s.unplanned
from penstock.schedules as s
where s.tenant_id = $1
  and ($2::text is null or s.status = $2)
  and ($3::text is null or s.target_kind = $3)
  and starts_with(s.name, $4)
order by s.name collate "C"
limit $5;

-- name: update_schedule
update penstock.schedules as s
set status = $4,
    target_kind = $5,
    target = $6,
    shape = $7,
    given = $8,
    kind = $9,
    expression = $10,
    timezone = $11,
    anchor = $12,
    body = $13,
    is_json = $14,
    headers = $15,
    delay_s = $16,
    priority = $17,
    group_id = $18,
    catchup = $19,
    catchup_limit = $20,
    jitter_s = $21,
    failure_threshold = $22,
    next_fire_at = $23,
    due_at = $24,
    consecutive_failures = $25,
    last_error = $26,
    updated_at = $27,
    unplanned = false,
    revision = s.revision + 1
where s.tenant_id = $1
  and s.id = $2
  and s.revision = $3
returning s.*;

-- name: delete_schedule
delete from penstock.schedules as s where s.tenant_id = $1 and s.name = $2 returning s.id;

-- name: next_schedule_due
select s.due_at
from penstock.schedules as s
where s.status = 'active'
  and (s.due_at, s.id) > ($1, $2::bigint)
order by s.due_at, s.id
limit 1;

-- name: due_schedules
select s.*
from penstock.schedules as s
where s.status = 'active'
  and s.due_at <= $1
  and (s.due_at, s.id) > ($3, $4::bigint)
order by s.due_at, s.id
limit $2;

-- name: fire_schedules
with fired as materialized (
  select f.schedule_id, f.ids, f.error
  from penstock.fire_schedules($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $13) as f
),
noted as (
  insert into penstock.schedule_fires (schedule_id, scheduled_for, times, fired_at, by_hand, sent_id, error)
  select f.schedule_id, e.expected, coalesce(cardinality(f.ids), 1), $11, false, f.ids[1], f.error
  from fired as f
  join unnest($1::bigint[], $2::timestamptz[]) as e (id, expected) on e.id = f.schedule_id
),
forgotten as (
  delete from penstock.schedule_fires as o
  using fired as f
  where o.schedule_id = f.schedule_id
    and o.id < (
      select n.id
      from penstock.schedule_fires as n
      where n.schedule_id = f.schedule_id
      order by n.id desc
      offset $12 - 1
      limit 1
    )
)
select f.schedule_id, f.ids, f.error from fired as f;

-- name: schedule_fires
select f.scheduled_for, f.times, f.fired_at, f.by_hand, f.sent_id, f.error
from penstock.schedule_fires as f
where f.schedule_id = $1
order by f.id desc
limit $2;

-- name: sweep_fires
with removed as (
  delete from penstock.schedule_fires as f
  where f.ctid = any (
    array(
      select o.ctid from penstock.schedule_fires as o where o.fired_at < $1 order by o.fired_at limit $2
    )
  )
  returning 1
)
select count(*) from removed;

-- name: run_schedule
with ran as materialized (
  select penstock.run_schedule_row($1, $2, $3, $4) as ids
),
noted as (
  insert into penstock.schedule_fires (schedule_id, scheduled_for, times, fired_at, by_hand, sent_id)
  select $1, $4, 1, $4, true, r.ids[1]
  from ran as r
)
select r.ids from ran as r;
