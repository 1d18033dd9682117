-- The settings of schedules that come from SQL: read, filled in with defaults, and checked.

-- The row of a schedule with these settings, checked, without its name.
create or replace function penstock.read_schedule(p_tenant bigint, p_settings jsonb)
returns penstock.schedules
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_times text[] := '{cron,every,fire_at}';
  v_plain text[] := '{target,target_kind,status,timezone,delay_s,priority,group_id,catchup,catchup_limit,jitter_s,failure_threshold}';
  v_known text[] := v_plain || v_times || '{start_at,message,headers}';
  v_row penstock.schedules;
  v_unknown text;
begin
  perform penstock.check_that('settings', jsonb_typeof(p_settings) = 'object', 'be an object');
  select k into v_unknown from jsonb_object_keys(p_settings) as k where k <> all (v_known) limit 1;
  if found then
    raise exception using errcode = 'PS010', detail = v_unknown,
      message = format('unknown setting %s; known: %s', v_unknown, array_to_string(v_known, ', '));
  end if;
  v_row.tenant_id := p_tenant;
  v_row.target_kind := 'queue';
  v_row.status := 'active';
  v_row.timezone := 'UTC';
  v_row.catchup := false;
  v_row.catchup_limit := 100;
  v_row.jitter_s := 0;
  v_row.failure_threshold := 10;
  begin
    v_row := jsonb_populate_record(
      v_row, (select coalesce(jsonb_object_agg(s.key, s.value), '{}') from jsonb_each(p_settings) as s
        where s.key = any (v_plain) and s.value <> 'null')
    );
  exception
    when data_exception then
      raise exception using errcode = 'PS010', message = sqlerrm, detail = 'settings';
  end;
  perform penstock.check_that('status', v_row.status in ('active', 'paused'), 'be active or paused');
  perform penstock.check_range('delay_s', v_row.delay_s, 0, 43200);
  perform penstock.check_range('priority', v_row.priority, 0, 1000);
  perform penstock.check_range('catchup_limit', v_row.catchup_limit, 1, 1000);
  perform penstock.check_range('jitter_s', v_row.jitter_s, 0, 86400);
  perform penstock.check_range('failure_threshold', v_row.failure_threshold, 1, 1000);
  perform penstock.check_that(
    'group_id', v_row.group_id ~ '^[!-~]{1,128}$', 'be 1 to 128 letters, digits and ASCII punctuation'
  );
  perform penstock.check_schedule_target(v_row);
  return penstock.read_schedule_message(penstock.read_schedule_times(v_row, p_settings), p_settings);
end;
$$;

-- A queue or a stream must exist. A topic may come later, and a queue of jobs comes with its first job.
create or replace function penstock.check_schedule_target(p_schedule penstock.schedules)
returns void
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.check_that('target', p_schedule.target is not null, 'be set');
  case p_schedule.target_kind
    when 'queue' then
      perform penstock.find_queue(p_schedule.tenant_id, p_schedule.target);
    when 'topic' then
      perform penstock.check_that(
        'target',
        p_schedule.target ~ '^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)*$' and length(p_schedule.target) <= 255,
        'be a routing key: words between dots'
      );
    when 'stream', 'job' then
      perform penstock.check_that(
        'target', p_schedule.target ~ '^[A-Za-z0-9_.:-]{1,128}$', 'be 1 to 128 letters, digits and . _ : -'
      );
      if p_schedule.target_kind = 'stream' then
        perform pgque.queue_id(
          case when p_schedule.tenant_id = 1 then '' else 't' || p_schedule.tenant_id || ':' end || p_schedule.target
        );
      end if;
    else
      perform penstock.check_that('target_kind', false, 'be queue, topic, stream or job');
  end case;
end;
$$;

-- The schedule with its times in their canonical form.
create or replace function penstock.read_schedule_times(p_schedule penstock.schedules, p_settings jsonb)
returns penstock.schedules
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_moment timestamptz;
begin
  perform penstock.check_that(
    'cron', num_nonnulls(p_settings ->> 'cron', p_settings ->> 'every', p_settings ->> 'fire_at') = 1,
    'be the only one of cron, every and fire_at, of which exactly one is given'
  );
  p_schedule.shape := case when p_settings ->> 'cron' is not null then 'cron' when p_settings ->> 'every' is not null
    then 'every' else 'fire_at' end;
  p_schedule.given := p_settings ->> p_schedule.shape;
  p_schedule.anchor := '2024-01-01 00:00:00+00';
  p_schedule.kind := p_schedule.shape;
  perform penstock.check_that(
    'start_at', p_settings ->> 'start_at' is null or p_schedule.shape = 'every', 'be given with every alone'
  );
  if p_schedule.shape = 'cron' then
    p_schedule.expression := penstock.read_crons(p_schedule.given);
  elsif p_schedule.shape = 'every' then
    p_schedule.expression := penstock.read_duration(p_schedule.given);
    p_schedule.anchor := coalesce(penstock.read_moment('start_at', p_settings ->> 'start_at'), p_schedule.anchor);
  else
    v_moment := penstock.read_moment('fire_at', p_schedule.given);
    perform penstock.check_that('fire_at', v_moment > clock_timestamp(), 'be in the future');
    p_schedule.kind := 'once';
    p_schedule.expression := to_char(v_moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
      || coalesce('.' || nullif(to_char(v_moment, 'US'), '000000'), '') || 'Z';
  end if;
  if upper(p_schedule.timezone) in ('UTC', 'Z', 'GMT') then
    p_schedule.timezone := 'UTC';
  else
    select z.name into p_schedule.timezone
    from pg_timezone_names as z
    where lower(z.name) = lower(p_schedule.timezone)
      and z.name not in ('localtime', 'Factory', 'posixrules')
    limit 1;
    perform penstock.check_that('timezone', found, 'be a time zone of the IANA database');
  end if;
  return p_schedule;
end;
$$;

-- A moment in ISO 8601 with its offset from UTC.
create or replace function penstock.read_moment(p_field text, p_text text)
returns timestamptz
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_moment timestamptz;
begin
  if p_text is null then
    return null;
  end if;
  perform penstock.check_that(
    p_field,
    p_text ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+-][0-9]{2}:?[0-9]{2})$',
    'be a moment in ISO 8601 with its offset from UTC, such as 2030-12-24T18:00:00Z'
  );
  begin
    v_moment := p_text::timestamptz;
  exception
    when data_exception then
      raise exception using errcode = 'PS010', message = format('%s: %s', p_field, sqlerrm), detail = p_field;
  end;
  perform penstock.check_moments(p_field, array[v_moment]);
  return v_moment;
end;
$$;

-- The schedule with its message and headers. A JSON string is sent as text, anything else as JSON.
create or replace function penstock.read_schedule_message(p_schedule penstock.schedules, p_settings jsonb)
returns penstock.schedules
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_headers jsonb := nullif(p_settings -> 'headers', 'null');
begin
  p_schedule.is_json := coalesce(jsonb_typeof(p_settings -> 'message'), 'null') <> 'string';
  p_schedule.body := coalesce(
    case when p_schedule.is_json then (p_settings -> 'message')::text else p_settings ->> 'message' end, 'null'
  );
  perform penstock.check_that('message', octet_length(p_schedule.body) <= 1048576, 'have at most 1048576 bytes');
  perform penstock.check_json('message', array[p_schedule.body]);
  if v_headers is not null then
    perform penstock.check_that('headers', jsonb_typeof(v_headers) = 'object', 'be an object');
    perform penstock.check_that('headers', not v_headers ? '_schedule', 'not have _schedule, which the schedule writes');
    p_schedule.headers := nullif(v_headers::text, '{}');
  end if;
  return p_schedule;
end;
$$;

-- Whether the status changed. A schedule that becomes active is planned anew by a server.
create or replace function penstock.change_schedule_status(p_name text, p_status text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_tenant bigint := penstock.current_tenant();
begin
  if not exists (select from penstock.schedules as s where s.tenant_id = v_tenant and s.name = p_name) then
    raise exception using errcode = 'PS02A', message = format('Schedule ''%s'' does not exist', p_name), detail = 'schedule';
  end if;
  update penstock.schedules as s
  set status = p_status,
      unplanned = s.unplanned or p_status = 'active',
      due_at = case p_status when 'active' then v_now else s.due_at end,
      consecutive_failures = case p_status when 'active' then 0 else s.consecutive_failures end,
      last_error = case when p_status = 'paused' then s.last_error end,
      updated_at = v_now,
      revision = s.revision + 1
  where s.tenant_id = v_tenant
    and s.name = p_name
    and s.status <> p_status;
  return found;
end;
$$;
