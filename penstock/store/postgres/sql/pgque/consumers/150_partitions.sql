-- Partitions: a consumer is split into parts. Each part is a subscription of its own that receives the events whose
-- partition key (ev_extra4) belongs to it. A key always belongs to the same part, and a part has one batch at a time,
-- so the events of a key are handled in order by any number of workers.

create or replace function pgque.subscribe_partitioned(i_queue_name text, i_consumer_name text, i_parts integer)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer := pgque.queue_to_subscribe(i_queue_name);
  v_tick bigint := pgque.tick_to_start_at(v_queue, null);
  v_new integer := 0;
begin
  if i_parts is null or i_parts not between 1 and 1000 then
    raise exception 'a consumer has 1 to 1000 parts' using errcode = 'PS010';
  end if;
  -- With another number of parts, keys would belong to other parts than before, and some events to none.
  if (
    select true
    from pgque.subscriber as s
    join pgque.consumer as c on c.co_id = s.sub_consumer
    where s.sub_queue = v_queue
      and c.co_name = pgque.part_name(i_consumer_name, 0)
      and s.sub_parts <> i_parts
  ) then
    raise exception 'consumer % has another number of parts already', i_consumer_name using errcode = 'PS030';
  end if;
  for v_part in 0 .. i_parts - 1 loop
    if pgque.add_subscriber(
      v_queue, pgque.part_name(i_consumer_name, v_part), 'normal', v_tick, null, v_part, i_parts
    ) is not null then
      v_new := 1;
    end if;
  end loop;
  return v_new;
end;
$$;

create or replace function pgque.part_name(i_consumer_name text, i_part integer)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select i_consumer_name || '#' || i_part
$$;

create or replace function pgque.unsubscribe_partitioned(i_queue_name text, i_consumer_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer := pgque.check_consume(i_queue_name);
  v_parts integer;
begin
  select s.sub_parts into v_parts
  from pgque.subscriber as s
  join pgque.consumer as c on c.co_id = s.sub_consumer
  where s.sub_queue = v_queue
    and c.co_name = pgque.part_name(i_consumer_name, 0);
  for v_part in 0 .. coalesce(v_parts, 0) - 1 loop
    perform pgque.unregister_consumer(i_queue_name, pgque.part_name(i_consumer_name, v_part));
  end loop;
  return (v_parts is not null)::integer;
end;
$$;

-- Locks a part that has events and that no other worker has locked, until the end of the transaction. Returns its name,
-- which is used like the name of a consumer; null when there is none.
create or replace function pgque.claim_part(i_queue_name text, i_consumer_name text)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer := pgque.check_consume(i_queue_name);
  v_last bigint := (pgque.last_tick(v_queue)).tick_id;
  v_member integer;
  v_name text;
  v_now pgque.progress_0;
begin
  for v_member, v_name in
    select s.sub_member, c.co_name
    from pgque.subscriber as s
    join pgque.consumer as c on c.co_id = s.sub_consumer
    where s.sub_queue = v_queue
      and c.co_name = pgque.part_name(i_consumer_name, s.sub_part)
    order by random()
  loop
    if (select true from pgque.subscriber as s where s.sub_member = v_member for update skip locked) then
      v_now := pgque.read_progress(v_member);
      if v_now.sub_batch is not null or v_now.sub_last_tick < v_last then
        return v_name;
      end if;
    end if;
  end loop;
  return null;
end;
$$;
