-- Schedules: firing them. The server has computed which times are due and what comes next; here it happens, once.

-- Make one message for each time and answer their ids. p_marks are the _schedule headers, one for each time.
create or replace function penstock.fire_target(
  p_schedule penstock.schedules,
  p_times text[],
  p_marks text[],
  p_now timestamptz
)
returns text[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_headers text[];
begin
  select array_agg(
    case
      when coalesce(p_schedule.headers, '{}') = '{}' then '{"_schedule":' || m.mark || '}'
      else left(p_schedule.headers, -1) || ',"_schedule":' || m.mark || '}'
    end
    order by m.position
  )
  into v_headers
  from unnest(p_marks) with ordinality as m (mark, position);
  return case p_schedule.target_kind
    when 'queue' then penstock.fire_queue(p_schedule, p_times, v_headers, p_now)
    when 'topic' then penstock.fire_topic(p_schedule, p_times, v_headers, p_now)
    when 'stream' then penstock.fire_stream(p_schedule, v_headers)
    when 'job' then penstock.fire_jobs(p_schedule, p_marks, p_now)
  end;
end;
$$;

create or replace function penstock.fire_queue(
  p_schedule penstock.schedules,
  p_times text[],
  p_headers text[],
  p_now timestamptz
)
returns text[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer := cardinality(p_times);
  v_fifo boolean := p_schedule.target like '%.fifo';
  v_sent record;
  v_code text;
begin
  v_sent := penstock.send_many(
    array_fill(p_schedule.tenant_id, array[v_count]),
    array_fill(p_schedule.target, array[v_count]),
    array_fill(p_schedule.body, array[v_count]),
    array_fill(p_schedule.is_json, array[v_count]),
    array_fill(p_schedule.delay_s, array[v_count]),
    array_fill(p_schedule.priority, array[v_count]),
    -- A FIFO queue asks for a group and an id; the schedule and its time are what they would be.
    case when v_fifo or p_schedule.group_id is not null
      then array_fill(coalesce(p_schedule.group_id, p_schedule.name), array[v_count])
    end,
    case when v_fifo then (
      select array_agg(p_schedule.name || '@' || t.at order by t.position)
      from unnest(p_times) with ordinality as t (at, position)
    ) end,
    null,
    null,
    null,
    p_headers,
    null,
    null,
    p_now
  );
  foreach v_code in array v_sent.codes loop
    if v_code is not null then
      perform penstock.raise_code(v_code, p_schedule.target);
    end if;
  end loop;
  return v_sent.ids::text[];
end;
$$;

-- The topic of that name, or else the event with that routing key. A FIFO topic is fed like a FIFO queue.
create or replace function penstock.fire_topic(
  p_schedule penstock.schedules,
  p_times text[],
  p_headers text[],
  p_now timestamptz
)
returns text[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_node text := current_setting('penstock.node', true);
  v_topic penstock.topics;
  v_publish penstock.pending_publishes;
  v_ids text[] := '{}';
begin
  -- The server does not know which queues receive, so it is to be told of them like any other node. Not by a setting
  -- of the function: only a superuser may create one that sets what PostgreSQL does not know.
  perform set_config('penstock.node', '', true);
  select t.*
  into v_topic
  from penstock.topics as t
  where t.tenant_id = p_schedule.tenant_id
    and t.name = p_schedule.target;
  v_publish.tenant_id := p_schedule.tenant_id;
  v_publish.body := p_schedule.body;
  v_publish.is_json := p_schedule.is_json;
  v_publish.delay_s := p_schedule.delay_s;
  v_publish.published_at := p_now;
  if v_topic.id is not null then
    v_publish.topic := v_topic.name;
    v_publish.subscription_ids := array(
      select s.id from penstock.subscriptions as s where s.topic_id = v_topic.id and s.confirmed
    );
  else
    v_publish.routing_key := p_schedule.target;
    v_publish.subscription_ids := penstock.subscriptions_of_key(p_schedule.tenant_id, p_schedule.target);
  end if;
  for v_place in 1 .. cardinality(p_times) loop
    v_publish.message_id := gen_random_uuid();
    v_publish.headers := p_headers[v_place];
    if v_topic.fifo then
      v_publish.group_id := coalesce(p_schedule.group_id, p_schedule.name);
      v_publish.dedup_id := p_schedule.name || '@' || p_times[v_place];
      perform penstock.lock_topic_group(v_topic.id, v_publish.group_id);
      select n.message_id, n.sequence
      into v_publish.message_id, v_publish.sequence
      from penstock.number_publish(v_topic.id, v_publish.dedup_id, '', v_publish.message_id, p_now) as n;
    end if;
    perform penstock.publish_to(v_publish);
    v_ids := v_ids || v_publish.message_id;
  end loop;
  perform set_config('penstock.node', coalesce(v_node, ''), true);
  return v_ids;
end;
$$;

-- Events of the type schedule; the headers are their second extra. The streams of other tenants than the first have
-- the tenant before their name.
create or replace function penstock.fire_stream(p_schedule penstock.schedules, p_headers text[])
returns text[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer := cardinality(p_headers);
begin
  if to_regnamespace('pgque') is null then
    raise exception using errcode = 'PS060', message = 'Streams are not installed in this database.';
  end if;
  return pgque.insert_events(
    i_queue_name => case when p_schedule.tenant_id = 1 then '' else 't' || p_schedule.tenant_id || ':' end
      || p_schedule.target,
    i_types => array['schedule'],
    i_data => array_fill(p_schedule.body, array[v_count]),
    i_extra2 => p_headers
  )::text[];
end;
$$;

-- A job has a payload and no headers: where that is an object, the mark of the schedule is put into it.
create or replace function penstock.fire_jobs(p_schedule penstock.schedules, p_marks text[], p_now timestamptz)
returns text[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer := cardinality(p_marks);
  v_body text := case when p_schedule.is_json then p_schedule.body else to_json(p_schedule.body)::text end;
  v_queue integer;
  v_numbers bigint[];
begin
  v_queue := (penstock.make_job_queues(array[p_schedule.tenant_id], array[p_schedule.target], p_now))[1];
  select e.numbers
  into v_numbers
  from penstock.enqueue_jobs(
    array_fill(p_schedule.tenant_id, array[v_count]),
    array_fill(v_queue, array[v_count]),
    array(
      select case
        when json_typeof(v_body::json) <> 'object' then v_body
        when v_body ~ '^\{\s*\}$' then '{"_schedule":' || m.mark || '}'
        else left(v_body, -1) || ',"_schedule":' || m.mark || '}'
      end
      from unnest(p_marks) with ordinality as m (mark, position)
      order by m.position
    ),
    array_fill(p_schedule.priority, array[v_count]),
    null,
    array_fill(p_now + make_interval(secs => p_schedule.delay_s), array[v_count]),
    null,
    null,
    null,
    p_now
  ) as e;
  return array(
    select penstock.job_uuid(v_queue, n.number)::text
    from unnest(v_numbers) with ordinality as n (number, position)
    order by n.position
  );
end;
$$;

-- Tries a schedule again later: after one second, then two, four and so on. Pauses it after too many failures.
create or replace function penstock.fail_schedule(p_id bigint, p_error text, p_longest_retry_s integer, p_now timestamptz)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update penstock.schedules as s
  set consecutive_failures = s.consecutive_failures + 1,
      last_error = p_error,
      status = case when s.consecutive_failures + 1 >= s.failure_threshold then 'paused' else 'active' end,
      due_at = p_now + make_interval(secs => least(2 ^ least(s.consecutive_failures, 20), p_longest_retry_s)),
      revision = s.revision + 1
  where s.id = p_id;
end;
$$;

-- Fire those schedules whose next time is still the expected one, and that nobody has changed since the server read them:
-- p_next was worked out from those settings. p_owners says to which of them (from 1) each time belongs; p_errors why the
-- server already knows that one cannot be fired. Answers a row for each that was fired or failed; of the others another
-- node has taken care, or the next round will.
drop function if exists penstock.fire_schedules(
  bigint[], timestamptz[], timestamptz[], timestamptz[], timestamptz[], text[], integer[], text[], text[], integer,
  timestamptz
);
create or replace function penstock.fire_schedules(
  p_ids bigint[], p_expected timestamptz[], p_next timestamptz[], p_due timestamptz[], p_last timestamptz[],
  p_errors text[], p_owners integer[], p_times text[], p_marks text[], p_longest_retry_s integer, p_now timestamptz,
  p_revisions bigint[] default null
)
returns table (schedule_id bigint, ids text[], error text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
-- A user's open transaction may hold the lock of a FIFO group: that is one schedule's failure, not everyone's wait.
set lock_timeout = '2s'
as $$
declare
  v_entry record;
  v_schedule penstock.schedules;
  v_times text[];
  v_marks text[];
begin
  for v_entry in
    select s as schedule, f.position::integer as position
    from unnest(p_ids, p_expected, p_revisions) with ordinality as f (id, expected, revision, position)
    join penstock.schedules as s on s.id = f.id
    where s.status = 'active'
      and s.next_fire_at = f.expected
      -- A server of the release before does not say which revision it has read.
      and s.revision = coalesce(f.revision, s.revision)
      and s.due_at <= p_now
    order by f.position
    for update of s skip locked
  loop
    v_schedule := v_entry.schedule;
    schedule_id := v_schedule.id;
    ids := null;
    error := left(p_errors[v_entry.position], 500);
    select array_agg(t.at order by t.position), array_agg(t.mark order by t.position)
    into v_times, v_marks
    from unnest(p_owners, p_times, p_marks) with ordinality as t (owner, at, mark, position)
    where t.owner = v_entry.position;
    begin
      if error is null then
        ids := penstock.fire_target(v_schedule, v_times, v_marks, p_now);
      end if;
    exception
      -- These say that the whole round must be tried again.
      when deadlock_detected or serialization_failure then
        raise;
      when others then
        error := left(sqlerrm, 500);
    end;
    if error is not null then
      perform penstock.fail_schedule(v_schedule.id, error, p_longest_retry_s, p_now);
    elsif p_next[v_entry.position] is null then
      delete from penstock.schedules as s where s.id = v_schedule.id;
    else
      update penstock.schedules as s
      set next_fire_at = p_next[v_entry.position],
          due_at = p_due[v_entry.position],
          last_fire_at = p_last[v_entry.position],
          fires = s.fires + cardinality(v_times),
          consecutive_failures = 0,
          last_error = null,
          revision = s.revision + 1
      where s.id = v_schedule.id;
    end if;
    return next;
  end loop;
end;
$$;

-- Fire once by hand; the timetable does not move.
create or replace function penstock.run_schedule_row(p_id bigint, p_time text, p_mark text, p_now timestamptz)
returns text[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_schedule penstock.schedules;
begin
  select s.* into v_schedule from penstock.schedules as s where s.id = p_id;
  if not found then
    raise exception using errcode = 'PS02A', message = 'The schedule does not exist.';
  end if;
  return penstock.fire_target(v_schedule, array[p_time], array[p_mark], p_now);
end;
$$;
