-- Batches: opened between two ticks and finished.

create or replace function pgque.next_batch_custom(
  in i_queue_name text,
  in i_consumer_name text,
  in i_min_lag interval,
  in i_min_count integer,
  in i_min_interval interval,
  out batch_id bigint,
  out cur_tick_id bigint,
  out prev_tick_id bigint,
  out cur_tick_time timestamptz,
  out prev_tick_time timestamptz,
  out cur_tick_event_seq bigint,
  out prev_tick_event_seq bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_subscriber pgque.subscriber := pgque.lock_subscription(i_queue_name, i_consumer_name);
  v_now pgque.progress_0 := pgque.read_progress(v_subscriber.sub_member);
  v_previous pgque.tick;
  v_next pgque.tick;
begin
  if v_subscriber.sub_role <> 'normal' then
    raise exception 'consumer % on queue % is cooperative: name the subconsumer', i_consumer_name, i_queue_name
      using errcode = 'PS030';
  end if;
  v_previous := pgque.tick_of(v_subscriber.sub_queue, v_now.sub_last_tick);
  if v_now.sub_batch is not null then
    v_next := pgque.tick_of(v_subscriber.sub_queue, v_now.sub_next_tick);
  else
    v_next := pgque.find_next_tick(v_previous, i_min_lag, i_min_count, i_min_interval);
    if v_next.tick_id is null then
      return;
    end if;
    v_now.sub_step := v_now.sub_step + 1;
    v_now.sub_active := now();
    v_now.sub_batch := nextval('pgque.batch_id_seq');
    v_now.sub_next_tick := v_next.tick_id;
    perform pgque.write_progress(v_now);
  end if;
  batch_id := v_now.sub_batch;
  cur_tick_id := v_next.tick_id;
  cur_tick_time := v_next.tick_time;
  cur_tick_event_seq := v_next.tick_event_seq;
  prev_tick_id := v_previous.tick_id;
  prev_tick_time := v_previous.tick_time;
  prev_tick_event_seq := v_previous.tick_event_seq;
end;
$$;

create or replace function pgque.next_batch(i_queue_name text, i_consumer_name text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return (select b.batch_id from pgque.next_batch_custom(i_queue_name, i_consumer_name, null, null, null) as b);
end;
$$;

create or replace function pgque.next_batch_info(
  in i_queue_name text,
  in i_consumer_name text,
  out batch_id bigint,
  out cur_tick_id bigint,
  out prev_tick_id bigint,
  out cur_tick_time timestamptz,
  out prev_tick_time timestamptz,
  out cur_tick_event_seq bigint,
  out prev_tick_event_seq bigint
)
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select * from pgque.next_batch_custom(i_queue_name, i_consumer_name, null, null, null)
$$;

create or replace function pgque.tick_of(i_queue_id integer, i_tick_id bigint)
returns pgque.tick
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_tick pgque.tick;
begin
  select * into v_tick from pgque.tick as t where t.tick_queue = i_queue_id and t.tick_id = i_tick_id;
  if v_tick.tick_id is null then
    raise exception 'queue % has lost tick %', i_queue_id, i_tick_id using errcode = 'XX001';
  end if;
  return v_tick;
end;
$$;

-- The tick that ends a batch: the next one, or the one that find_tick_helper chooses. The search starts at a tick that
-- exists, so it does not read index entries of deleted ticks.
create or replace function pgque.find_next_tick(
  i_previous pgque.tick,
  i_min_lag interval,
  i_min_count integer,
  i_min_interval interval
)
returns pgque.tick
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_tick pgque.tick;
begin
  if i_min_count is null and i_min_interval is null then
    select * into v_tick
    from pgque.tick as t
    where t.tick_queue = i_previous.tick_queue
      and t.tick_id > i_previous.tick_id
    order by t.tick_queue, t.tick_id
    limit 1;
  else
    select t.* into v_tick
    from pgque.find_tick_helper(
      i_previous.tick_queue, i_previous.tick_id, i_previous.tick_time, i_previous.tick_event_seq, i_min_count,
      i_min_interval
    ) as f
    join pgque.tick as t on t.tick_queue = i_previous.tick_queue and t.tick_id = f.next_tick_id;
  end if;
  if now() - v_tick.tick_time < i_min_lag then
    return null;
  end if;
  return v_tick;
end;
$$;

-- The tick after i_prev_tick_id that ends a batch of at least so many events or so much time; no tick when there is not
-- enough yet. The last tick of the queue is taken as long as the batch stays below twice what was asked for, otherwise
-- the first tick that is far enough.
create or replace function pgque.find_tick_helper(
  in i_queue_id integer,
  in i_prev_tick_id bigint,
  in i_prev_tick_time timestamptz,
  in i_prev_tick_seq bigint,
  in i_min_count bigint,
  in i_min_interval interval,
  out next_tick_id bigint,
  out next_tick_time timestamptz,
  out next_tick_seq bigint
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_last pgque.tick := pgque.last_tick(i_queue_id);
  v_events bigint := v_last.tick_event_seq - i_prev_tick_seq;
  v_time interval := v_last.tick_time - i_prev_tick_time;
begin
  if v_last.tick_id is null or v_last.tick_id <= i_prev_tick_id then
    return;
  elsif v_events > 2 * i_min_count or v_time > 2 * i_min_interval then
    select t.tick_id, t.tick_time, t.tick_event_seq into next_tick_id, next_tick_time, next_tick_seq
    from pgque.tick as t
    where t.tick_queue = i_queue_id
      and t.tick_id > i_prev_tick_id
      and (t.tick_event_seq - i_prev_tick_seq >= i_min_count or t.tick_time - i_prev_tick_time >= i_min_interval)
    order by t.tick_queue, t.tick_id
    limit 1;
  elsif v_events >= i_min_count or v_time >= i_min_interval then
    next_tick_id := v_last.tick_id;
    next_tick_time := v_last.tick_time;
    next_tick_seq := v_last.tick_event_seq;
  end if;
end;
$$;

-- The progress of the subscription that has this batch open, locked; all null when the batch is not open.
create or replace function pgque.lock_batch(i_batch_id bigint)
returns pgque.progress_0
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_subscriber pgque.subscriber := pgque.lock_member(pgque.member_of_batch(i_batch_id));
  v_now pgque.progress_0;
begin
  if v_subscriber.sub_member is null then
    return null;
  end if;
  v_now := pgque.read_progress(v_subscriber.sub_member);
  if v_now.sub_batch is distinct from i_batch_id then
    return null;
  end if;
  if (select q.queue_restricted from pgque.queue as q where q.queue_id = v_subscriber.sub_queue) then
    perform pgque.check_access(v_subscriber.sub_queue, 'consume');
  end if;
  return v_now;
end;
$$;

create or replace function pgque.finish_batch(x_batch_id bigint)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now pgque.progress_0 := pgque.lock_batch(x_batch_id);
begin
  if v_now.sub_member is null then
    raise warning 'finish_batch: batch % not found', x_batch_id;
    return 0;
  end if;
  perform pgque.finish(v_now);
  return 1;
end;
$$;

create or replace function pgque.finish(i_now pgque.progress_0)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  -- A member of a group has no position of its own; the main subscription keeps it.
  i_now.sub_last_tick := (
    select case s.sub_role when 'member' then null else i_now.sub_next_tick end
    from pgque.subscriber as s
    where s.sub_member = i_now.sub_member
  );
  perform pgque.write_progress(
    row(
      i_now.sub_member, i_now.sub_step + 1, i_now.sub_last_tick, now(), null, null, null, null, null
    )::pgque.progress_0
  );
end;
$$;
