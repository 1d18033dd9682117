-- Functions for the tests of programs that use queues. They read whole event tables: not for queues with traffic.

-- The id of the event. It can be consumed once this transaction has committed.
create or replace function pgque.test_send(i_queue text, i_payload jsonb)
returns bigint
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select pgque.send(i_queue, 'test', i_payload);
$$;

-- Ticks, receives one event and acknowledges it; an error when there is none, or one of another type.
create or replace function pgque.test_consume(i_queue text, i_consumer text, i_expected_type text)
returns pgque.message
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_message pgque.message;
begin
  perform pgque.force_next_tick(i_queue);
  perform pgque.ticker(i_queue);
  select r.* into v_message from pgque.receive(i_queue, i_consumer, 1) as r;
  if v_message.msg_id is null then
    raise exception 'queue % has no event for %', i_queue, i_consumer using errcode = 'assert_failure';
  elsif v_message.type is distinct from i_expected_type then
    raise exception 'expected an event of type %, got %', i_expected_type, v_message.type
      using errcode = 'assert_failure';
  end if;
  perform pgque.ack(v_message.batch_id);
  return v_message;
end;
$$;

-- True, or an error that names a consumer with something to come: ticked or not, or waiting to be tried again.
create or replace function pgque.assert_empty(i_queue text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue;
  v_place record;
  v_source text;
  v_found bigint;
  v_pending bigint;
begin
  select q.* into v_queue from pgque.queue as q where q.queue_id = pgque.check_consume(i_queue);
  for v_place in
    select c.co_name, s.sub_id, s.sub_done, s.sub_part, s.sub_parts, t.tick_snapshot
    from pgque.subscription as s
    join pgque.consumer as c on c.co_id = s.sub_consumer
    join pgque.tick as t on t.tick_queue = s.sub_queue and t.tick_id = s.sub_last_tick
    where s.sub_queue = v_queue.queue_id
    order by c.co_name
  loop
    v_pending := 0;
    for v_source in
      select v_queue.queue_data_pfx::regclass::text
      union all
      select pgque.load_source(l)
      from pgque.load as l
      where l.load_queue = v_queue.queue_id
        and not pg_visible_in_snapshot(l.load_txid, v_place.tick_snapshot)
    loop
      execute format(
        'select count(*) from %s as e
         where not pg_visible_in_snapshot(e.ev_txid, $1) and (e.ev_owner is null or e.ev_owner = $2)
           and e.ev_id > coalesce($3, 0) and ($5 = 1 or pgque.part_of(e.ev_extra4, $5) = $4)',
        v_source
      ) into v_found
        using v_place.tick_snapshot, v_place.sub_id, v_place.sub_done, v_place.sub_part, v_place.sub_parts;
      v_pending := v_pending + v_found;
    end loop;
    v_pending := v_pending + (select count(*) from pgque.retry_queue as r where r.ev_owner = v_place.sub_id);
    if v_pending > 0 then
      raise exception 'queue % is not empty: % events for %', i_queue, v_pending, v_place.co_name
        using errcode = 'assert_failure';
    end if;
  end loop;
  return true;
end;
$$;

create or replace function pgque.assert_dlq_empty(i_queue text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_found bigint := pgque.count_dead_letters(pgque.check_consume(i_queue));
begin
  if v_found > 0 then
    raise exception 'queue % has % dead letters', i_queue, v_found using errcode = 'assert_failure';
  end if;
  return true;
end;
$$;
