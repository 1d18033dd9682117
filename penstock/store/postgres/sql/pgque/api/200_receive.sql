-- Receiving: a batch is delivered in portions of about i_max_return events. The same portion is returned until it is
-- acknowledged; the next call then returns the rest, as a batch with a new number. So events that were not delivered
-- are never acknowledged.

-- Finishes batches that have no event for this consumer on the way: no caller would do it. After the first such batch,
-- ticks without events in between are skipped at once.
create or replace function pgque.receive(i_queue text, i_consumer text, i_max_return integer default 100)
returns setof pgque.message
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_batch bigint;
begin
  if i_max_return is null or i_max_return < 1 then
    raise exception 'max_return must be at least 1' using errcode = 'invalid_parameter_value';
  end if;
  for i in 1 .. 100 loop
    v_batch := null;
    if i > 1 then
      v_batch := (pgque.next_batch_custom(i_queue, i_consumer, null, 1, null)).batch_id;
    end if;
    v_batch := coalesce(v_batch, pgque.next_batch(i_queue, i_consumer));
    exit when v_batch is null;
    return query
    select
      e.ev_id, v_batch, e.ev_type, e.ev_data, e.ev_retry, e.ev_time,
      e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
    from pgque.batch_hand_out(v_batch, i_max_return) as e;
    exit when found;
    perform pgque.finish_batch(v_batch);
  end loop;
end;
$$;

-- The same with a bound on the bytes: the portion ends with the event that reaches it.
create or replace function pgque.receive_within(i_queue text, i_consumer text, i_max_return integer, i_max_bytes bigint)
returns setof pgque.message
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_event pgque.message;
  v_last bigint;
  v_count integer := 0;
  v_bytes bigint := 0;
begin
  for v_event in select m.* from pgque.receive(i_queue, i_consumer, i_max_return) as m loop
    -- An event and its retry may have the same id: they stay together, as in every portion.
    if v_bytes >= i_max_bytes and v_event.msg_id <> v_last then
      -- Only what is returned here counts as delivered.
      perform from pgque.batch_hand_out(v_event.batch_id, v_count);
      return;
    end if;
    return next v_event;
    v_last := v_event.msg_id;
    v_count := v_count + 1;
    v_bytes := v_bytes + octet_length(coalesce(v_event.payload, ''))
      + octet_length(concat(v_event.extra1, v_event.extra2, v_event.extra3, v_event.extra4));
  end loop;
end;
$$;

-- For one of several workers that share a position, each with a batch of its own. A worker that was not active for
-- i_dead_interval loses its batch to another, which gets it under a new number.
create or replace function pgque.receive_coop(
  i_queue text,
  i_consumer text,
  i_subconsumer text,
  i_max_return integer default 100,
  i_dead_interval interval default null
)
returns setof pgque.message
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_batch bigint;
begin
  if i_max_return is null or i_max_return < 1 then
    raise exception 'max_return must be at least 1' using errcode = 'invalid_parameter_value';
  end if;
  for i in 1 .. 100 loop
    v_batch := pgque.next_batch(i_queue, i_consumer, i_subconsumer, i_dead_interval);
    exit when v_batch is null;
    return query
    select
      e.ev_id, v_batch, e.ev_type, e.ev_data, e.ev_retry, e.ev_time,
      e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
    from pgque.batch_hand_out(v_batch, i_max_return) as e;
    exit when found;
    perform pgque.finish_batch(v_batch);
  end loop;
end;
$$;

-- 1, or 0 when the batch is not open: it was finished before, or another worker has taken it over. With i_through, only
-- events up to that one are acknowledged; the rest is delivered again.
create or replace function pgque.ack(i_batch_id bigint, i_through bigint)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if (pgque.lock_batch(i_batch_id)).sub_member is null then
    return 0;
  end if;
  return pgque.batch_acknowledge(i_batch_id, i_through);
end;
$$;

create or replace function pgque.ack(i_batch_id bigint)
returns integer
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select pgque.ack(i_batch_id, null);
$$;

-- The event is delivered again after i_retry_after, or becomes a dead letter when its retries are used up. 0 when this
-- was called before. Only the id of the message is used; everything else is read from the queue.
create or replace function pgque.nack(
  i_batch_id bigint,
  i_msg pgque.message,
  i_retry_after interval default '60 seconds',
  i_reason text default null
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_batch pgque.batch := pgque.locked_batch(i_batch_id);
  v_event pgque.event := pgque.stored_event(i_batch_id, i_msg.msg_id);
  v_most integer := (select coalesce(q.queue_max_retries, 5) from pgque.queue as q where q.queue_id = v_batch.sub_queue);
begin
  if i_retry_after is null or i_retry_after not between interval '0' and interval '365 days' then
    raise exception 'retry_after must be between 0 and 365 days' using errcode = 'invalid_parameter_value';
  elsif coalesce(v_event.ev_retry, 0) >= v_most then
    return pgque.event_dead(i_batch_id, v_event.ev_id, coalesce(i_reason, 'max retries exceeded'));
  elsif pgque.event_retry(i_batch_id, v_event.ev_id, clock_timestamp() + i_retry_after) = 0 then
    return 0;
  end if;
  perform pgque.note_failure(v_batch.sub_queue, (pgque.consumer_of(v_batch)).co_id, false);
  return 1;
end;
$$;
