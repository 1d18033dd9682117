-- Consumers: a name, and its subscriptions to queues.

create or replace function pgque.register_consumer_at(x_queue_name text, x_consumer_name text, x_tick_pos bigint)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer := pgque.queue_to_subscribe(x_queue_name);
  v_tick bigint := pgque.tick_to_start_at(v_queue, x_tick_pos);
  v_member integer;
  v_now pgque.progress_0;
begin
  v_member := pgque.add_subscriber(v_queue, x_consumer_name, 'normal', v_tick);
  if v_member is not null then
    return 1;
  elsif x_tick_pos is not null then
    v_now := pgque.read_progress((pgque.lock_subscription(x_queue_name, x_consumer_name)).sub_member);
    v_now.sub_last_tick := x_tick_pos;
    perform pgque.write_progress(pgque.without_batch(v_now));
  end if;
  return 0;
end;
$$;

create or replace function pgque.register_consumer(x_queue_name text, x_consumer_id text)
returns integer
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select pgque.register_consumer_at(x_queue_name, x_consumer_id, null)
$$;

-- Locks the row of the queue: a rotation must not truncate the events that a new subscriber starts with.
create or replace function pgque.queue_to_subscribe(i_queue_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue;
begin
  select * into v_queue from pgque.queue as q where q.queue_name = i_queue_name for share;
  if v_queue.queue_id is null then
    raise exception 'Event queue not created yet (queue not found: %)', i_queue_name using errcode = 'PS029';
  elsif v_queue.queue_restricted then
    perform pgque.check_access(v_queue.queue_id, 'consume');
  end if;
  return v_queue.queue_id;
end;
$$;

create or replace function pgque.tick_to_start_at(i_queue_id integer, i_tick bigint)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tick bigint;
begin
  select t.tick_id into v_tick
  from pgque.tick as t
  where t.tick_queue = i_queue_id
    and (i_tick is null or t.tick_id = i_tick)
  order by t.tick_id desc
  limit 1;
  if v_tick is null and i_tick is not null then
    raise exception 'cannot reposition, tick not found: %', i_tick using errcode = 'PS010';
  elsif v_tick is null then
    raise exception 'No ticks for this queue.  Please run ticker on database.' using errcode = 'PS030';
  end if;
  return v_tick;
end;
$$;

-- The new member, or null when the consumer is subscribed already.
create or replace function pgque.add_subscriber(
  i_queue_id integer,
  i_consumer_name text,
  i_role text,
  i_tick bigint,
  i_sub_id integer default null,
  i_part integer default 0,
  i_parts integer default 1
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_consumer integer;
  v_member integer;
begin
  if i_consumer_name is null or octet_length(i_consumer_name) not between 1 and 500 then
    raise exception 'a consumer name has 1 to 500 bytes' using errcode = 'PS011';
  end if;
  insert into pgque.consumer (co_name) values (i_consumer_name) on conflict do nothing;
  -- The lock prevents its removal by a session that deletes the last of its subscriptions at this moment.
  select c.co_id into v_consumer from pgque.consumer as c where c.co_name = i_consumer_name for key share;
  if v_consumer is null then
    raise exception 'could not serialize access: consumer % is being removed', i_consumer_name using errcode = '40001';
  end if;
  insert into pgque.subscriber (sub_id, sub_queue, sub_consumer, sub_role, sub_part, sub_parts)
  values (
    coalesce(i_sub_id, nextval('pgque.subscription_sub_id_seq')), i_queue_id, v_consumer, i_role, i_part, i_parts
  )
  on conflict (sub_queue, sub_consumer) do nothing
  returning sub_member into v_member;
  if v_member is not null then
    perform pgque.write_progress(row(v_member, 1, i_tick, now(), null, null, null, null, null)::pgque.progress_0);
    perform pgque.log_event(
      'info', 'consumer', 'registered',
      jsonb_build_object(
        'queue', (select q.queue_name from pgque.queue as q where q.queue_id = i_queue_id),
        'consumer', i_consumer_name, 'tick', i_tick
      )
    );
  end if;
  return v_member;
end;
$$;

create or replace function pgque.without_batch(i_progress pgque.progress_0)
returns pgque.progress_0
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select row(
    i_progress.sub_member, i_progress.sub_step + 1, i_progress.sub_last_tick, now(), null, null, null, null, null
  )::pgque.progress_0
$$;

-- The subscription of that name, locked and allowed.
create or replace function pgque.lock_subscription(i_queue_name text, i_consumer_name text)
returns pgque.subscriber
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_found pgque.subscriber;
begin
  select s.* into v_found
  from pgque.queue as q
  join pgque.consumer as c on c.co_name = i_consumer_name
  join pgque.subscriber as s on s.sub_queue = q.queue_id and s.sub_consumer = c.co_id
  where q.queue_name = i_queue_name
  for update of s;
  if v_found.sub_member is null then
    perform pgque.queue_id(i_queue_name);
    raise exception 'Not subscriber to queue: %/%', i_queue_name, i_consumer_name using errcode = 'PS026';
  end if;
  if (select q.queue_restricted from pgque.queue as q where q.queue_id = v_found.sub_queue) then
    perform pgque.check_access(v_found.sub_queue, 'consume');
  end if;
  return v_found;
end;
$$;

create or replace function pgque.unregister_consumer(x_queue_name text, x_consumer_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer := pgque.check_consume(x_queue_name);
  v_found pgque.subscriber;
  v_gone integer;
begin
  select s.* into v_found
  from pgque.consumer as c
  join pgque.subscriber as s on s.sub_consumer = c.co_id
  where c.co_name = x_consumer_name
    and s.sub_queue = v_queue
  for update of s;
  if v_found.sub_member is null then
    return 0;
  end if;
  if v_found.sub_role = 'member' then
    -- The events of its open batch are delivered to the other members.
    perform pgque.give_back(v_found.sub_member);
    return pgque.remove_subscribers(array[v_found.sub_member]);
  end if;
  perform from pgque.subscriber as s where s.sub_id = v_found.sub_id order by s.sub_member for update;
  v_gone := pgque.remove_subscribers(
    array(select s.sub_member from pgque.subscriber as s where s.sub_id = v_found.sub_id)
  );
  delete from pgque.retry_queue as r where r.ev_owner = v_found.sub_id;
  return v_gone;
end;
$$;

create or replace function pgque.remove_subscribers(i_members integer[])
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer;
  v_consumer integer;
  v_consumers integer[] := '{}';
begin
  for v_queue, v_consumer in
    delete from pgque.subscriber as s where s.sub_member = any (i_members) returning s.sub_queue, s.sub_consumer
  loop
    v_consumers := v_consumers || v_consumer;
    perform pgque.log_event(
      'info', 'consumer', 'unregistered',
      jsonb_build_object(
        'queue', (select q.queue_name from pgque.queue as q where q.queue_id = v_queue),
        'consumer', (select c.co_name from pgque.consumer as c where c.co_id = v_consumer)
      )
    );
  end loop;
  -- Wait for sessions that register one of them elsewhere: the next statement sees the registration.
  perform from pgque.consumer as c where c.co_id = any (v_consumers) order by c.co_id for update;
  delete from pgque.consumer as c
  where c.co_id = any (v_consumers)
    and not exists (select from pgque.subscriber as s where s.sub_consumer = c.co_id);
  return cardinality(v_consumers);
end;
$$;
