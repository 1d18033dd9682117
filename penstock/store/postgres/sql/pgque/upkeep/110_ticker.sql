-- Ticks. The snapshot of a tick must be newer than that of the tick before. Tickers of one queue therefore take a lock,
-- and the snapshot is taken after that.

create or replace function pgque.last_tick(i_queue_id integer)
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
  select * into v_tick
  from pgque.tick as t
  where t.tick_queue = i_queue_id
  order by t.tick_queue desc, t.tick_id desc
  limit 1;
  return v_tick;
end;
$$;

create or replace function pgque.event_seq(i_queue pgque.queue)
returns bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return coalesce(pg_sequence_last_value(i_queue.queue_event_seq::regclass), 0);
end;
$$;

-- Event ids or transaction ids that are behind those of the last tick: a sequence was set back, or the queue was restored
-- on a server with lower transaction ids. Consumers then wait until the ids have caught up.
create or replace function pgque.log_odd_tick(i_queue pgque.queue, i_last pgque.tick)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if pgque.event_seq(i_queue) < i_last.tick_event_seq then
    perform pgque.log_event(
      'warning', 'ticker', 'negative event count',
      jsonb_build_object(
        'queue', i_queue.queue_name, 'tick', i_last.tick_id, 'events', pgque.event_seq(i_queue) - i_last.tick_event_seq
      )
    );
  end if;
  if pg_snapshot_xmax(pg_current_snapshot()) < pg_snapshot_xmax(i_last.tick_snapshot) then
    perform pgque.log_event(
      'warning', 'ticker', 'stale snapshot',
      jsonb_build_object(
        'queue', i_queue.queue_name, 'tick', i_last.tick_id,
        'behind', pg_snapshot_xmax(i_last.tick_snapshot)::text::bigint
          - pg_snapshot_xmax(pg_current_snapshot())::text::bigint
      )
    );
  end if;
end;
$$;

create or replace function pgque.make_tick(i_queue pgque.queue)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_last pgque.tick := pgque.last_tick(i_queue.queue_id);
  v_tick bigint;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'a tick needs a transaction that is read committed' using errcode = '25001';
  end if;
  perform pgque.log_odd_tick(i_queue, v_last);
  insert into pgque.tick (tick_queue, tick_id, tick_time, tick_snapshot, tick_event_seq)
  values (
    i_queue.queue_id, nextval(i_queue.queue_tick_seq::regclass), clock_timestamp(), pg_current_snapshot(),
    pgque.event_seq(i_queue)
  )
  returning tick_id into v_tick;
  perform pg_notify('pgque_' || i_queue.queue_name, v_tick::text);
  return v_tick;
end;
$$;

-- Takes the lock of the ticker of this queue until the end of the transaction; false when another session has it.
create or replace function pgque.take_ticker(i_queue_id integer, i_wait boolean)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if i_wait then
    perform pg_advisory_xact_lock(1885826421, i_queue_id);
    return true;
  end if;
  return pg_try_advisory_xact_lock(1885826421, i_queue_id);
end;
$$;

-- Whether there are events after the last tick: ids were drawn since, or a transaction that was running at the tick has
-- inserted events. The second check reads event tables, so it is made only when the first finds nothing.
create or replace function pgque.has_waiting(i_queue pgque.queue, i_last pgque.tick)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return coalesce(pg_sequence_last_value(i_queue.queue_event_seq::regclass), 0) > i_last.tick_event_seq
    or (
      pg_snapshot_xmax(pg_current_snapshot()) <> pg_snapshot_xmax(i_last.tick_snapshot)
      and pgque.has_late(i_queue, i_last.tick_snapshot)
    );
end;
$$;

create or replace function pgque.has_late(i_queue pgque.queue, i_snapshot pg_snapshot)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_running xid8[] := array(select pg_snapshot_xip(i_snapshot));
  v_table text;
  v_found boolean;
begin
  if pgque.batch_loads(i_queue.queue_id, i_snapshot, pg_current_snapshot()) <> '{}' then
    return true;
  end if;
  foreach v_table in array pgque.batch_tables(i_queue, i_snapshot, pg_current_snapshot()) loop
    execute 'select true from ' || v_table || ' as e where e.ev_txid >= pg_snapshot_xmax($1) limit 1'
    into v_found
    using i_snapshot;
    if v_found is null and v_running <> '{}' then
      execute 'select true from ' || v_table || ' as e where e.ev_txid = any ($1) limit 1'
      into v_found
      using v_running;
    end if;
    exit when v_found;
  end loop;
  return coalesce(v_found, false);
end;
$$;

create or replace function pgque.ticker(i_queue_name text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue;
begin
  select * into v_queue from pgque.queue as q where q.queue_name = i_queue_name;
  if v_queue.queue_id is null then
    raise exception 'no such queue (queue not found: %)', i_queue_name using errcode = 'PS029';
  elsif v_queue.queue_external_ticker then
    raise exception 'This queue has external tick source.' using errcode = 'PS030';
  elsif v_queue.queue_ticker_paused then
    raise exception 'Ticker has been paused for this queue' using errcode = 'PS030';
  end if;
  perform pgque.take_ticker(v_queue.queue_id, true);
  if pgque.tick_is_due(v_queue) then
    return pgque.make_tick(v_queue);
  end if;
  return null;
end;
$$;

-- With new events: when there are enough of them, or the last tick is old enough. Without: after intervals that double
-- up to the idle period, so that consumers see time pass.
create or replace function pgque.tick_is_due(i_queue pgque.queue)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_last pgque.tick := pgque.last_tick(i_queue.queue_id);
  v_lag interval := clock_timestamp() - v_last.tick_time;
  v_new bigint := pgque.event_seq(i_queue) - v_last.tick_event_seq;
  v_before timestamptz;
begin
  if v_last.tick_id is null then
    return true;
  elsif v_new > 0 then
    return v_new >= i_queue.queue_ticker_max_count or v_lag >= i_queue.queue_ticker_max_lag;
  elsif v_lag >= i_queue.queue_ticker_max_lag and pgque.has_waiting(i_queue, v_last) then
    return true;
  end if;
  select t.tick_time into v_before
  from pgque.tick as t
  where t.tick_queue = i_queue.queue_id
    and t.tick_id < v_last.tick_id
    and t.tick_id >= i_queue.queue_first_tick
  order by t.tick_queue desc, t.tick_id desc
  limit 1;
  return v_before is null
    or v_lag >= i_queue.queue_ticker_idle_period
    or v_lag >= i_queue.queue_ticker_max_lag / 2 and v_lag >= 2 * (v_last.tick_time - v_before);
end;
$$;

create or replace function pgque.ticker()
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue;
  v_ticked bigint := 0;
begin
  for v_queue in
    select * from pgque.queue as q where not q.queue_external_ticker and not q.queue_ticker_paused order by q.queue_id
  loop
    if pgque.take_ticker(v_queue.queue_id, false) and pgque.tick_is_due(v_queue) then
      perform pgque.make_tick(v_queue);
      v_ticked := v_ticked + 1;
    end if;
  end loop;
  return v_ticked;
end;
$$;

-- For queues with events and ticks that are copied from another database.
create or replace function pgque.ticker(
  i_queue_name text,
  i_tick_id bigint,
  i_orig_timestamp timestamptz,
  i_event_seq bigint
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue;
begin
  select * into v_queue
  from pgque.queue as q
  where q.queue_name = i_queue_name
    and q.queue_external_ticker
    and not q.queue_ticker_paused;
  if v_queue.queue_id is null then
    raise exception 'queue not found or ticker disabled: %', i_queue_name using errcode = 'PS029';
  elsif current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'a tick needs a transaction that is read committed' using errcode = '25001';
  end if;
  perform pgque.take_ticker(v_queue.queue_id, true);
  if i_tick_id <= (pgque.last_tick(v_queue.queue_id)).tick_id then
    raise exception 'tick % is not newer than the last one', i_tick_id using errcode = 'PS010';
  end if;
  insert into pgque.tick (tick_queue, tick_id, tick_time, tick_snapshot, tick_event_seq)
  values (v_queue.queue_id, i_tick_id, i_orig_timestamp, pg_current_snapshot(), i_event_seq);
  perform pgque.seq_setval(v_queue.queue_tick_seq, i_tick_id), pgque.seq_setval(v_queue.queue_event_seq, i_event_seq);
  perform pg_notify('pgque_' || v_queue.queue_name, i_tick_id::text);
  return i_tick_id;
end;
$$;

-- Makes a tick at once when there are events after the last one, regardless of the periods of the queue; null
-- otherwise. When another session makes a tick at this moment, nothing is done and the lock is not waited for: waiting
-- consumers call this often.
create or replace function pgque.tick_if_waiting(i_queue_name text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue;
begin
  select * into v_queue from pgque.queue as q where q.queue_name = i_queue_name;
  if v_queue.queue_id is null then
    raise exception 'queue not found: %', i_queue_name using errcode = 'PS029';
  elsif v_queue.queue_external_ticker or v_queue.queue_ticker_paused then
    return null;
  elsif not pgque.has_waiting(v_queue, pgque.last_tick(v_queue.queue_id)) then
    return null;
  elsif not pgque.take_ticker(v_queue.queue_id, false) then
    return null;
  elsif not pgque.has_waiting(v_queue, pgque.last_tick(v_queue.queue_id)) then
    return null;
  end if;
  return pgque.make_tick(v_queue);
end;
$$;

-- The same for callers that need a tick: it waits for a session that makes one. That tick may not cover what was
-- committed after it began, so another one is made if needed. When the lock is not free within seconds, the caller gets
-- an error and can try again.
create or replace function pgque.tick_now(i_queue_name text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_queue pgque.queue;
begin
  select * into v_queue from pgque.queue as q where q.queue_name = i_queue_name;
  if v_queue.queue_id is not null and pgque.has_waiting(v_queue, pgque.last_tick(v_queue.queue_id)) then
    perform pgque.take_ticker(v_queue.queue_id, true);
  end if;
  return pgque.tick_if_waiting(i_queue_name);
end;
$$;

-- The same as tick_if_waiting for every queue, by sequences alone: cheap enough for ten calls a second with many
-- queues. Late commits are noticed by consumers that wait, or by the ticker. Returns the number of queues with a new
-- tick.
create or replace function pgque.tick_waiting()
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name text;
  v_ticked integer := 0;
begin
  for v_name in
    select q.queue_name
    from pgque.queue as q
    cross join lateral pgque.last_tick(q.queue_id) as t
    where not q.queue_external_ticker
      and not q.queue_ticker_paused
      and pg_sequence_last_value(to_regclass(q.queue_event_seq)) > t.tick_event_seq
    order by q.queue_id
  loop
    v_ticked := v_ticked + (pgque.tick_if_waiting(v_name) is not null)::integer;
  end loop;
  return v_ticked;
end;
$$;

-- Uses up so many event ids that the next call of the ticker makes a tick; the number of the last tick so far. The ids
-- skipped are as many as in PgQ.
create or replace function pgque.force_next_tick(i_queue_name text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue;
begin
  select * into v_queue
  from pgque.queue as q
  where q.queue_name = i_queue_name
    and not q.queue_external_ticker
    and not q.queue_ticker_paused;
  if v_queue.queue_id is null then
    return (pgque.last_tick(pgque.queue_id(i_queue_name))).tick_id;
  end if;
  -- Drawn one by one: setting the sequence could set it back behind ids that senders draw at the same time.
  perform nextval(v_queue.queue_event_seq::regclass)
  from generate_series(1, 2 * v_queue.queue_ticker_max_count::bigint + 1001);
  return (pgque.last_tick(v_queue.queue_id)).tick_id;
end;
$$;

create or replace function pgque.force_tick(i_queue_name text)
returns bigint
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select pgque.force_next_tick(i_queue_name)
$$;

-- The two functions below run with the rights of the caller, and find a name without a schema by the search_path of the
-- caller. They therefore have no search_path of their own, and name everything else with its schema.

-- The last value of a sequence; a sequence that was never used has its first value.
create or replace function pgque.seq_getval(i_seq_name text)
returns bigint
language plpgsql
volatile
strict
as $$
declare
  v_sequence pg_catalog.regclass := i_seq_name::pg_catalog.regclass;
  v_value bigint;
begin
  execute pg_catalog.format('select s.last_value from %s as s', v_sequence) into v_value;
  return v_value;
end;
$$;

-- Sets a sequence, but never back; its last value afterwards.
create or replace function pgque.seq_setval(i_seq_name text, i_new_value bigint)
returns bigint
language plpgsql
volatile
strict
as $$
declare
  v_sequence pg_catalog.regclass := i_seq_name::pg_catalog.regclass;
  v_value bigint := pgque.seq_getval(i_seq_name);
begin
  if v_value operator(pg_catalog.<) i_new_value
    or (v_value operator(pg_catalog.=) i_new_value and pg_catalog.pg_sequence_last_value(v_sequence) is null)
  then
    return pg_catalog.setval(v_sequence, i_new_value);
  end if;
  return v_value;
end;
$$;
