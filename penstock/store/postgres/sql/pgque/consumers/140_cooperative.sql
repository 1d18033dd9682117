-- Cooperative consumers: several workers share one position in the queue, and each has a batch of its own.
--
-- A group has a main subscription, which keeps the position, and one member per worker, which has the batch of that
-- worker. The main row is always locked before the row of a member. When a worker was not active for i_dead_interval,
-- another worker takes its batch over under a new id; the old id is then no longer valid.

create or replace function pgque.subscribe_subconsumer(i_queue_name text, i_consumer_name text, i_subconsumer_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer := pgque.queue_to_subscribe(i_queue_name);
  v_main pgque.subscriber;
begin
  perform pgque.add_subscriber(v_queue, i_consumer_name, 'main', pgque.tick_to_start_at(v_queue, null));
  v_main := pgque.lock_subscription(i_queue_name, i_consumer_name);
  if v_main.sub_role = 'member' or v_main.sub_parts > 1 then
    raise exception 'consumer % cannot have subconsumers', i_consumer_name using errcode = 'PS030';
  elsif v_main.sub_role = 'normal' then
    if (pgque.read_progress(v_main.sub_member)).sub_batch is not null then
      raise exception 'consumer % has an open batch: finish it before it becomes cooperative', i_consumer_name
        using errcode = 'PS030';
    end if;
    update pgque.subscriber as s set sub_role = 'main' where s.sub_member = v_main.sub_member;
  end if;
  return (
    pgque.add_subscriber(v_queue, pgque.member_name(i_consumer_name, i_subconsumer_name), 'member', null, v_main.sub_id)
    is not null
  )::integer;
end;
$$;

create or replace function pgque.member_name(i_consumer_name text, i_subconsumer_name text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select i_consumer_name || '.' || i_subconsumer_name
$$;

create or replace function pgque.unsubscribe_subconsumer(
  i_queue_name text,
  i_consumer_name text,
  i_subconsumer_name text,
  i_batch_handling integer default 0
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer := pgque.check_consume(i_queue_name);
  v_member pgque.subscriber := pgque.lock_subconsumer(v_queue, i_consumer_name, i_subconsumer_name);
  v_batch bigint;
begin
  if v_member.sub_member is null then
    return 0;
  end if;
  v_batch := (pgque.read_progress(v_member.sub_member)).sub_batch;
  if v_batch is not null and i_batch_handling = 0 then
    raise exception 'subconsumer % has an open batch: %', i_subconsumer_name, v_batch using errcode = 'PS030';
  elsif v_batch is not null then
    perform pgque.give_back(v_member.sub_member);
  end if;
  return pgque.remove_subscribers(array[v_member.sub_member]);
end;
$$;

create or replace function pgque.lock_subconsumer(i_queue_id integer, i_consumer_name text, i_subconsumer_name text)
returns pgque.subscriber
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_found pgque.subscriber;
begin
  select s.* into v_found
  from pgque.consumer as c
  join pgque.subscriber as s on s.sub_consumer = c.co_id
  where c.co_name = pgque.member_name(i_consumer_name, i_subconsumer_name)
    and s.sub_queue = i_queue_id
    and s.sub_role = 'member'
  for update of s;
  return v_found;
end;
$$;

-- The events of the member's open batch become retries, or dead letters when their retries are used up.
create or replace function pgque.give_back(i_member integer)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now pgque.progress_0 := pgque.read_progress(i_member);
  v_retries integer;
  v_event record;
begin
  if v_now.sub_batch is null then
    return;
  end if;
  select coalesce(q.queue_max_retries, 5) into v_retries
  from pgque.subscriber as s
  join pgque.queue as q on q.queue_id = s.sub_queue
  where s.sub_member = i_member;
  -- All events of the batch, including those not delivered yet.
  if v_now.sub_seen is not null then
    v_now.sub_step := v_now.sub_step + 1;
    v_now.sub_seen := null;
    perform pgque.write_progress(v_now);
  end if;
  for v_event in select * from pgque.get_batch_events(v_now.sub_batch) loop
    if coalesce(v_event.ev_retry, 0) >= v_retries then
      perform pgque.event_dead(v_now.sub_batch, v_event.ev_id, 'the subconsumer was removed');
    else
      perform pgque.event_retry(v_now.sub_batch, v_event.ev_id, 0);
    end if;
  end loop;
  perform pgque.finish(v_now);
end;
$$;

create or replace function pgque.touch_subconsumer(i_queue_name text, i_consumer_name text, i_subconsumer_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer := pgque.check_consume(i_queue_name);
  v_member pgque.subscriber := pgque.lock_subconsumer(v_queue, i_consumer_name, i_subconsumer_name);
  v_now pgque.progress_0;
begin
  if v_member.sub_member is null then
    return 0;
  end if;
  v_now := pgque.read_progress(v_member.sub_member);
  v_now.sub_step := v_now.sub_step + 1;
  v_now.sub_active := clock_timestamp();
  perform pgque.write_progress(v_now);
  return 1;
end;
$$;

-- The open batch of the member; otherwise one of a dead member; otherwise the next one of the queue; otherwise null.
create or replace function pgque.next_batch(
  i_queue_name text,
  i_consumer_name text,
  i_subconsumer_name text,
  i_dead_interval interval default null
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_main pgque.subscriber;
  v_member pgque.subscriber;
  v_now pgque.progress_0;
begin
  if not pgque.is_member(i_queue_name, i_consumer_name, i_subconsumer_name) then
    perform pgque.refuse_conversion(i_queue_name, i_consumer_name);
    perform pgque.subscribe_subconsumer(i_queue_name, i_consumer_name, i_subconsumer_name);
  end if;
  v_main := pgque.lock_subscription(i_queue_name, i_consumer_name);
  v_member := pgque.lock_subconsumer(v_main.sub_queue, i_consumer_name, i_subconsumer_name);
  v_now := pgque.read_progress(v_member.sub_member);
  if v_now.sub_batch is null and i_dead_interval is not null then
    v_now := pgque.take_over(v_main, v_now, i_dead_interval);
  end if;
  if v_now.sub_batch is null then
    v_now := pgque.take_next(v_main, v_now);
  end if;
  return v_now.sub_batch;
end;
$$;

create or replace function pgque.is_member(i_queue_name text, i_consumer_name text, i_subconsumer_name text)
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    (
      select true
      from pgque.consumer as c
      join pgque.subscriber as s on s.sub_consumer = c.co_id
      where c.co_name = pgque.member_name(i_consumer_name, i_subconsumer_name)
        and s.sub_queue = pgque.queue_id(i_queue_name)
        and s.sub_role = 'member'
      limit 1
    ),
    false
  )
$$;

-- Asking for a batch creates the group when there is none, but does not turn an existing consumer into a group.
create or replace function pgque.refuse_conversion(i_queue_name text, i_consumer_name text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if (
    select true
    from pgque.consumer as c
    join pgque.subscriber as s on s.sub_consumer = c.co_id
    where c.co_name = i_consumer_name
      and s.sub_queue = pgque.queue_id(i_queue_name)
      and s.sub_role <> 'main'
  ) then
    raise exception 'consumer % is not cooperative: subscribe_subconsumer makes it so', i_consumer_name
      using errcode = 'PS030';
  end if;
end;
$$;

create or replace function pgque.take_next(i_main pgque.subscriber, i_now pgque.progress_0)
returns pgque.progress_0
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_group pgque.progress_0 := pgque.read_progress(i_main.sub_member);
  v_next pgque.tick;
begin
  v_next := pgque.find_next_tick(pgque.tick_of(i_main.sub_queue, v_group.sub_last_tick), null, null, null);
  if v_next.tick_id is null then
    return i_now;
  end if;
  i_now.sub_step := i_now.sub_step + 1;
  i_now.sub_active := clock_timestamp();
  i_now.sub_batch := nextval('pgque.batch_id_seq');
  i_now.sub_last_tick := v_group.sub_last_tick;
  i_now.sub_next_tick := v_next.tick_id;
  perform pgque.write_progress(i_now);
  v_group.sub_step := v_group.sub_step + 1;
  v_group.sub_active := clock_timestamp();
  v_group.sub_last_tick := v_next.tick_id;
  perform pgque.write_progress(v_group);
  return i_now;
end;
$$;

-- A member whose row is locked is alive, regardless of the time of its last activity.
create or replace function pgque.take_over(i_main pgque.subscriber, i_now pgque.progress_0, i_dead_interval interval)
returns pgque.progress_0
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_member integer;
  v_dead pgque.progress_0;
begin
  for v_member in
    select s.sub_member
    from pgque.subscriber as s
    where s.sub_id = i_main.sub_id
      and s.sub_role = 'member'
      and s.sub_member <> i_now.sub_member
    order by s.sub_member
    for update skip locked
  loop
    v_dead := pgque.read_progress(v_member);
    if v_dead.sub_batch is not null and v_dead.sub_active < clock_timestamp() - i_dead_interval then
      perform pgque.write_progress(
        row(v_member, v_dead.sub_step + 1, null, v_dead.sub_active, null, null, null, null, null)::pgque.progress_0
      );
      v_dead.sub_member := i_now.sub_member;
      v_dead.sub_step := i_now.sub_step + 1;
      v_dead.sub_active := clock_timestamp();
      v_dead.sub_batch := nextval('pgque.batch_id_seq');
      perform pgque.write_progress(v_dead);
      return v_dead;
    end if;
  end loop;
  return i_now;
end;
$$;
