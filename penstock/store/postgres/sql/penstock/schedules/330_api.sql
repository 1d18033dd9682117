-- Schedules from SQL, in the caller's transaction.
--
-- SQL checks and stores a schedule; when it fires next, a server computes, because that takes time zones and calendars.
-- Until then the schedule is unplanned, and due at once, so that a server finds it like any other.

-- True when the schedule is new. An existing one is not changed.
create or replace function penstock.create_schedule(schedule text, settings jsonb)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_row penstock.schedules;
begin
  perform penstock.check_that(
    'schedule', coalesce(schedule ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,79}$', false),
    'have 1 to 80 letters, digits, dots, hyphens and underscores, a letter or digit first'
  );
  v_row := penstock.read_schedule(penstock.current_tenant(), settings);
  insert into penstock.schedules as s (
    tenant_id, name, status, target_kind, target, shape, given, kind, expression, timezone, anchor, body, is_json, headers,
    delay_s, priority, group_id, catchup, catchup_limit, jitter_s, failure_threshold, next_fire_at, due_at, created_at,
    updated_at, unplanned
  )
  values (
    v_row.tenant_id, schedule, v_row.status, v_row.target_kind, v_row.target, v_row.shape, v_row.given, v_row.kind,
    v_row.expression, v_row.timezone, v_row.anchor, v_row.body, v_row.is_json, v_row.headers, v_row.delay_s, v_row.priority,
    v_row.group_id, v_row.catchup, v_row.catchup_limit, v_row.jitter_s, v_row.failure_threshold, v_now, v_now, v_now, v_now,
    true
  )
  on conflict (tenant_id, name) do nothing;
  return found;
end;
$$;

create or replace function penstock.list_schedules()
returns table (
  schedule text, status text, target_kind text, target text, expression text, timezone text, next_fire_at timestamptz,
  last_fire_at timestamptz, fires bigint, consecutive_failures integer, last_error text, created_at timestamptz
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.name, s.status, s.target_kind, s.target, s.expression, s.timezone,
    case when not s.unplanned then s.next_fire_at end, s.last_fire_at, s.fires, s.consecutive_failures, s.last_error,
    s.created_at
  from penstock.schedules as s
  where s.tenant_id = penstock.current_tenant()
  order by s.name collate "C";
$$;

-- Whether the schedule was active. Fires that pass meanwhile do not happen.
create or replace function penstock.pause_schedule(schedule text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return penstock.change_schedule_status(schedule, 'paused');
end;
$$;

-- Whether the schedule was paused. It goes on with the next fire after now; failures are forgotten.
create or replace function penstock.resume_schedule(schedule text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return penstock.change_schedule_status(schedule, 'active');
end;
$$;

-- Whether the schedule existed.
create or replace function penstock.drop_schedule(schedule text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from penstock.schedules as s
  where s.tenant_id = penstock.current_tenant()
    and s.name = drop_schedule.schedule;
  return found;
end;
$$;
