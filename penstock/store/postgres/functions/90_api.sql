-- The SQL API: what a user calls, in his own transaction.
--
-- A send that is rolled back never was; one that commits wakes receivers waiting at the server. Everything
-- happens in the tenant that the setting penstock.tenant names, or in the default one.

create or replace function penstock.raise_code(p_code text, p_queue text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_code text := split_part(p_code, ':', 1);
  v_field text := split_part(p_code, ':', 2);
begin
  raise exception using
    errcode = v_code,
    detail = v_field,
    message = case v_code
      when 'PS010' then format('%s is required on queue ''%s''', v_field, p_queue)
      when 'PS012' then format('The message is larger than queue ''%s'' allows', p_queue)
      when 'PS021' then format('Queue ''%s'' does not exist', p_queue)
      when 'PS040' then format('Queue ''%s'' has reached its maximum length', p_queue)
      else format('Queue ''%s'' refused the message', p_queue)
    end;
end;
$$;

-- What the engine asks of a queue beyond the bounds of each setting.
create or replace function penstock.check_fit(p_queue penstock.queues)
returns void
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_dead penstock.queues;
begin
  perform penstock.check_that('lifo', not (p_queue.fifo and p_queue.lifo), 'be false on a .fifo queue');
  perform penstock.check_that('content_dedup', p_queue.fifo or not p_queue.content_dedup, 'be false unless on a .fifo queue');
  select q.* into v_dead from penstock.queues as q where q.id = p_queue.dead_letter_queue_id;
  if found then
    perform penstock.check_that('max_receives', p_queue.max_receives is not null, 'be set with a dead_letter_queue');
    perform penstock.check_that('dead_letter_queue', v_dead.id <> p_queue.id, 'differ from the queue');
    perform penstock.check_that('dead_letter_queue', v_dead.fifo = p_queue.fifo, 'be .fifo like the queue, or neither');
  end if;
end;
$$;

-- True when the queue is new. Settings by name, e.g. '{"visibility_timeout_s": 60, "max_length": 1000}'.
create or replace function penstock.create_queue(queue text, settings jsonb default '{}')
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not penstock.create_queue_row(penstock.current_tenant(), queue, settings, clock_timestamp()) then
    return false;
  end if;
  perform penstock.check_fit(penstock.find_queue(penstock.current_tenant(), queue));
  return true;
end;
$$;

create or replace function penstock.alter_queue(queue text, settings jsonb)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.update_queue_row(penstock.current_tenant(), queue, settings, clock_timestamp());
  perform penstock.check_fit(penstock.find_queue(penstock.current_tenant(), queue));
end;
$$;

create or replace function penstock.drop_queue(queue text)
returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select penstock.drop_queue_row(penstock.current_tenant(), queue);
$$;

create or replace function penstock.purge_queue(queue text)
returns bigint
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select penstock.purge_queue_row(penstock.current_tenant(), queue);
$$;

create or replace function penstock.list_queues()
returns table (queue text, fifo boolean, created_at timestamptz)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select q.name, q.fifo, q.created_at
  from penstock.queues as q
  where q.tenant_id = penstock.current_tenant()
  order by q.name;
$$;

-- Counts and ages of one queue, or of all.
create or replace function penstock.metrics(queue text default null)
returns table (
  queue_name text,
  visible bigint,
  in_flight bigint,
  delayed bigint,
  sent bigint,
  oldest_age interval,
  newest_age interval
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    c.queue, c.visible, c.in_flight, c.delayed, c.sent,
    clock_timestamp() - c.oldest_sent_at,
    clock_timestamp() - c.newest_sent_at
  from penstock.count_queues(
    penstock.current_tenant(),
    case when metrics.queue is not null then array[metrics.queue] end,
    clock_timestamp()
  ) as c;
$$;

-- All of them, or an error and none.
create or replace function penstock.send_batch(
  queue text,
  bodies text[],
  headers jsonb[] default null,
  delay_s integer default null,
  priority integer default null,
  group_id text default null,
  dedup_ids text[] default null,
  retention_s integer default null,
  is_json boolean default false
)
returns bigint[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer := coalesce(array_length(bodies, 1), 0);
  v_sent record;
  v_code text;
begin
  if v_count = 0 then
    return '{}';
  end if;
  perform penstock.check_messages(bodies, array[delay_s], array[priority], array[group_id], dedup_ids);
  perform penstock.check_range('retention_s', retention_s, 60, 1209600);
  perform penstock.check_that('headers', cardinality(headers) = v_count, 'be one for each body');
  perform penstock.check_that('dedup_ids', cardinality(dedup_ids) = v_count, 'be one for each body');
  v_sent := penstock.send_many(
    array_fill(penstock.current_tenant(), array[v_count]),
    array_fill(queue, array[v_count]),
    bodies,
    array_fill(is_json, array[v_count]),
    array_fill(delay_s, array[v_count]),
    array_fill(priority, array[v_count]),
    array_fill(group_id, array[v_count]),
    dedup_ids,
    null,
    array_fill(retention_s, array[v_count]),
    null,
    headers::text[],
    null,
    null,
    clock_timestamp()
  );
  foreach v_code in array v_sent.codes loop
    if v_code is not null then
      perform penstock.raise_code(v_code, queue);
    end if;
  end loop;
  return v_sent.ids;
end;
$$;

create or replace function penstock.send(
  queue text,
  body text,
  headers jsonb default null,
  delay_s integer default null,
  priority integer default null,
  group_id text default null,
  dedup_id text default null,
  retention_s integer default null
)
returns bigint
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select (penstock.send_batch(
    queue, array[body], case when headers is not null then array[headers] end, delay_s, priority, group_id,
    case when dedup_id is not null then array[dedup_id] end, retention_s, false
  ))[1];
$$;

create or replace function penstock.send(
  queue text,
  message jsonb,
  headers jsonb default null,
  delay_s integer default null,
  priority integer default null,
  group_id text default null,
  dedup_id text default null,
  retention_s integer default null
)
returns bigint
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select (penstock.send_batch(
    queue, array[message::text], case when headers is not null then array[headers] end, delay_s, priority, group_id,
    case when dedup_id is not null then array[dedup_id] end, retention_s, true
  ))[1];
$$;

-- Up to max_messages, hidden for visibility_timeout_s (the queue's when null). id and lease name the delivery.
create or replace function penstock.receive(
  queue text,
  visibility_timeout_s integer default null,
  max_messages integer default 1
)
returns table (
  id bigint,
  lease bigint,
  body text,
  headers jsonb,
  attributes jsonb,
  receives integer,
  priority smallint,
  group_id text,
  sent_at timestamptz,
  visible_at timestamptz
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  perform penstock.check_range('visibility_timeout_s', receive.visibility_timeout_s, 0, 43200);
  perform penstock.check_range('max_messages', receive.max_messages, 1, 1000);
  perform penstock.find_queue(penstock.current_tenant(), receive.queue);
  return query
  select
    r.id, r.lease, r.body, r.headers::jsonb, r.attributes::jsonb, r.receives, r.priority, r.group_id, r.sent_at,
    r.visible_at
  from penstock.receive_many(
    array[penstock.current_tenant()],
    array[receive.queue],
    array[receive.max_messages],
    array[receive.visibility_timeout_s],
    null,
    null,
    null,
    null,
    null,
    clock_timestamp()
  ) as r
  where r.id is not null;
end;
$$;

-- Receive and delete at once: at most once, for those who can afford it.
create or replace function penstock.pop(queue text, max_messages integer default 1)
returns table (id bigint, body text, headers jsonb, attributes jsonb, sent_at timestamptz)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_message record;
begin
  for v_message in select r.* from penstock.receive(pop.queue, null, pop.max_messages) as r loop
    perform penstock.delete(pop.queue, v_message.id, v_message.lease);
    id := v_message.id;
    body := v_message.body;
    headers := v_message.headers;
    attributes := v_message.attributes;
    sent_at := v_message.sent_at;
    return next;
  end loop;
end;
$$;

-- True when it was there. With a lease, only as long as that delivery is the current one.
create or replace function penstock.delete(queue text, id bigint, lease bigint default null)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.find_queue(penstock.current_tenant(), queue);
  return (penstock.finish_many(
    array[penstock.current_tenant()], array[queue], array[id], array[lease], false, clock_timestamp()
  ))[1] = 'done';
end;
$$;

create or replace function penstock.archive(queue text, id bigint, lease bigint default null)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.find_queue(penstock.current_tenant(), queue);
  return (penstock.finish_many(
    array[penstock.current_tenant()], array[queue], array[id], array[lease], true, clock_timestamp()
  ))[1] = 'done';
end;
$$;

-- When the message comes back; null when it is not there, or no longer this delivery's.
create or replace function penstock.change_visibility(
  queue text,
  id bigint,
  visibility_timeout_s integer,
  lease bigint default null
)
returns timestamptz
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.check_range('visibility_timeout_s', visibility_timeout_s, -43200, 43200);
  perform penstock.find_queue(penstock.current_tenant(), queue);
  return (penstock.change_visibility_many(
    array[penstock.current_tenant()], array[queue], array[id], array[lease], array[visibility_timeout_s],
    clock_timestamp()
  )).visible_at[1];
end;
$$;

create or replace function penstock.peek(queue text, max_messages integer default 1)
returns table (id bigint, body text, headers jsonb, attributes jsonb, receives integer, sent_at timestamptz)
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select penstock.check_range('max_messages', peek.max_messages, 1, 1000);
  select m.id, m.body, m.headers::jsonb, m.attributes::jsonb, m.receives, m.sent_at
  from penstock.peek_many(penstock.current_tenant(), peek.queue, peek.max_messages, false, clock_timestamp()) as m;
$$;
