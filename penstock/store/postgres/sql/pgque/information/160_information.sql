-- What there is to know about queues, consumers and batches.

create or replace function pgque.version()
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  -- Of the compatible interface; the release of the software is another number.
  select '3.5.0'
$$;

create or replace function pgque.upgrade()
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  -- Loading the newer file is the upgrade: it changes what differs and keeps what is stored.
  select 'up to date: ' || pgque.version()
$$;

create or replace function pgque.get_queue_info(
  in i_queue_name text,
  out queue_name text,
  out queue_ntables integer,
  out queue_cur_table integer,
  out queue_rotation_period interval,
  out queue_switch_time timestamptz,
  out queue_external_ticker boolean,
  out queue_ticker_paused boolean,
  out queue_ticker_max_count integer,
  out queue_ticker_max_lag interval,
  out queue_ticker_idle_period interval,
  out ticker_lag interval,
  out ev_per_sec double precision,
  out ev_new bigint,
  out last_tick_id bigint
)
returns setof record
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    q.queue_name, q.queue_ntables, q.queue_cur_table, q.queue_rotation_period, q.queue_switch_time,
    q.queue_external_ticker, q.queue_ticker_paused, q.queue_ticker_max_count, q.queue_ticker_max_lag,
    q.queue_ticker_idle_period,
    clock_timestamp() - last.tick_time,
    (
      select (last.tick_event_seq - earlier.tick_event_seq)
        / nullif(extract(epoch from last.tick_time - earlier.tick_time), 0)::double precision
      from pgque.tick as earlier
      where earlier.tick_queue = q.queue_id
        and earlier.tick_id >= greatest(last.tick_id - 20, q.queue_first_tick)
      order by earlier.tick_queue, earlier.tick_id
      limit 1
    ),
    pgque.event_seq(q) - last.tick_event_seq,
    last.tick_id
  from pgque.queue as q
  left join lateral pgque.last_tick(q.queue_id) as last on true
  where i_queue_name is null
    or q.queue_name = i_queue_name
  order by q.queue_name
$$;

create or replace function pgque.get_queue_info(
  out queue_name text,
  out queue_ntables integer,
  out queue_cur_table integer,
  out queue_rotation_period interval,
  out queue_switch_time timestamptz,
  out queue_external_ticker boolean,
  out queue_ticker_paused boolean,
  out queue_ticker_max_count integer,
  out queue_ticker_max_lag interval,
  out queue_ticker_idle_period interval,
  out ticker_lag interval,
  out ev_per_sec double precision,
  out ev_new bigint,
  out last_tick_id bigint
)
returns setof record
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
  select * from pgque.get_queue_info(null)
$$;

create or replace function pgque.get_consumer_info(
  in i_queue_name text,
  in i_consumer_name text,
  out queue_name text,
  out consumer_name text,
  out lag interval,
  out last_seen interval,
  out last_tick bigint,
  out current_batch bigint,
  out next_tick bigint,
  out pending_events bigint
)
returns setof record
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    q.queue_name, c.co_name, clock_timestamp() - t.tick_time, clock_timestamp() - s.sub_active, s.sub_last_tick,
    s.sub_batch, s.sub_next_tick, last.tick_event_seq - t.tick_event_seq
  from pgque.queue as q
  join pgque.subscription as s on s.sub_queue = q.queue_id
  join pgque.consumer as c on c.co_id = s.sub_consumer
  left join pgque.tick as t on t.tick_queue = q.queue_id and t.tick_id = s.sub_last_tick
  left join lateral pgque.last_tick(q.queue_id) as last on true
  where (i_queue_name is null or q.queue_name = i_queue_name)
    and (i_consumer_name is null or c.co_name = i_consumer_name)
  order by 1, 2
$$;

create or replace function pgque.get_consumer_info(
  in i_queue_name text,
  out queue_name text,
  out consumer_name text,
  out lag interval,
  out last_seen interval,
  out last_tick bigint,
  out current_batch bigint,
  out next_tick bigint,
  out pending_events bigint
)
returns setof record
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
  select * from pgque.get_consumer_info(i_queue_name, null)
$$;

create or replace function pgque.get_consumer_info(
  out queue_name text,
  out consumer_name text,
  out lag interval,
  out last_seen interval,
  out last_tick bigint,
  out current_batch bigint,
  out next_tick bigint,
  out pending_events bigint
)
returns setof record
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
  select * from pgque.get_consumer_info(null, null)
$$;

create or replace function pgque.get_batch_info(
  in x_batch_id bigint,
  out queue_name text,
  out consumer_name text,
  out batch_start timestamptz,
  out batch_end timestamptz,
  out prev_tick_id bigint,
  out tick_id bigint,
  out lag interval,
  out seq_start bigint,
  out seq_end bigint
)
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    q.queue_name, c.co_name, prev.tick_time, cur.tick_time, s.sub_last_tick, s.sub_next_tick,
    clock_timestamp() - cur.tick_time, prev.tick_event_seq, cur.tick_event_seq
  from pgque.subscription as s
  join pgque.queue as q on q.queue_id = s.sub_queue
  join pgque.consumer as c on c.co_id = s.sub_consumer
  join pgque.tick as prev on prev.tick_queue = s.sub_queue and prev.tick_id = s.sub_last_tick
  join pgque.tick as cur on cur.tick_queue = s.sub_queue and cur.tick_id = s.sub_next_tick
  where s.sub_member = pgque.member_of_batch(x_batch_id)
    and s.sub_batch = x_batch_id
$$;

-- Opens a cursor, for batches too large to fetch at once. The condition is SQL from the caller, so this function runs
-- with the rights of its caller.
create or replace function pgque.get_batch_cursor(
  i_batch_id bigint,
  i_cursor_name text,
  i_quick_limit integer,
  i_extra_where text
)
returns setof pgque.event
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if i_batch_id is null or i_cursor_name is null or i_quick_limit is null then
    return;
  end if;
  execute format('declare %I no scroll cursor for select * from pgque.get_batch_events(%L)', i_cursor_name, i_batch_id)
    || coalesce(' as _evs where ' || i_extra_where, '');
  if i_quick_limit > 0 then
    return query execute format('fetch %s from %I', i_quick_limit, i_cursor_name);
  end if;
end;
$$;

create or replace function pgque.get_batch_cursor(i_batch_id bigint, i_cursor_name text, i_quick_limit integer)
returns setof pgque.event
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  return query select * from pgque.get_batch_cursor(i_batch_id, i_cursor_name, i_quick_limit, null);
end;
$$;
