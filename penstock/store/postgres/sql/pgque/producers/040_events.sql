-- Events are inserted into the current event table of the queue.
--
-- The transaction takes its id before it looks up which table is current. A rotation relies on this order: a transaction
-- that saw the old table has an id below the one that step 2 stores, so later batches do not read the old table. A
-- transaction with an old snapshot could see the old table and still have a later id. It locks the row of the queue
-- instead, which fails when the row has changed since the snapshot.

-- The queue, when the caller may insert this many events now.
create or replace function pgque.queue_for_insert(i_queue_name text, i_events bigint default 1)
returns pgque.queue
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_id xid8 := pg_current_xact_id();
  v_queue pgque.queue;
begin
  if current_setting('transaction_isolation') = 'read committed' then
    select * into v_queue from pgque.queue as q where q.queue_name = i_queue_name;
  else
    select * into v_queue from pgque.queue as q where q.queue_name = i_queue_name for share;
  end if;
  if v_queue.queue_id is null then
    raise exception 'queue not found: %', i_queue_name using errcode = 'PS029';
  end if;
  if v_queue.queue_restricted then
    perform pgque.check_access(v_queue.queue_id, 'produce');
  end if;
  if v_queue.queue_disable_insert and current_setting('session_replication_role') <> 'replica' then
    -- A refused insert uses up an event id, as in PgQ.
    perform nextval(v_queue.queue_event_seq::regclass);
    raise exception 'Insert into queue disallowed' using errcode = 'PS030';
  end if;
  if v_queue.queue_per_tx_limit is not null then
    perform pgque.count_in_transaction(v_queue, i_events);
  end if;
  if pg_sequence_last_value((v_queue.queue_data_pfx || '_wait_seq')::regclass) > extract(epoch from now()) then
    perform pg_notify('pgque_wake_' || v_queue.queue_name, '');
  end if;
  return v_queue;
end;
$$;

-- Adds to the number of events that this transaction has inserted into the queue, and refuses more than
-- queue_per_tx_limit. The number is a setting that lasts until the end of the transaction; a rollback to a savepoint
-- restores it. The limit guards against mistakes: a caller could change the setting.
create or replace function pgque.count_in_transaction(i_queue pgque.queue, i_events bigint)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_setting text := 'pgque.events_of_' || i_queue.queue_id;
  v_count bigint := coalesce(nullif(current_setting(v_setting, true), '')::bigint, 0) + i_events;
begin
  if v_count > i_queue.queue_per_tx_limit then
    perform nextval(i_queue.queue_event_seq::regclass);
    raise exception 'Queue ''%'' allows max % events from one TX', i_queue.queue_name, i_queue.queue_per_tx_limit
      using errcode = 'PS030';
  end if;
  perform set_config(v_setting, v_count::text, true);
end;
$$;

-- For this long, senders announce on the channel pgque_wake_<queue> that they send, so that a waiting consumer can have
-- a tick made at once. The end of that time is stored in a sequence, which is cheap to read and leaves no dead rows.
create or replace function pgque.expect_events(i_queue text, i_for interval default '30 seconds')
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer := pgque.check_consume(i_queue);
  v_sequence regclass := 'pgque.event_' || v_queue || '_wait_seq';
  v_until bigint := ceil(extract(epoch from clock_timestamp() + least(i_for, '1 hour')));
begin
  if coalesce(pg_sequence_last_value(v_sequence), 0) < v_until then
    perform setval(v_sequence, v_until);
  end if;
end;
$$;

create or replace function pgque.insert_event(
  queue_name text,
  ev_type text,
  ev_data text,
  ev_extra1 text,
  ev_extra2 text,
  ev_extra3 text,
  ev_extra4 text
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue := pgque.queue_for_insert(queue_name);
  v_id bigint := nextval(v_queue.queue_event_seq::regclass);
begin
  execute 'insert into ' || v_queue.queue_data_pfx || '_' || v_queue.queue_cur_table
    || ' (ev_id, ev_time, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)'
    || ' values ($1, now(), $2, $3, $4, $5, $6, $7)'
  using v_id, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4;
  return v_id;
end;
$$;

create or replace function pgque.insert_event(queue_name text, ev_type text, ev_data text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue := pgque.queue_for_insert(queue_name);
  v_id bigint := nextval(v_queue.queue_event_seq::regclass);
begin
  -- Repeated rather than called: this runs for every event, and another function call costs measurable time.
  execute 'insert into ' || v_queue.queue_data_pfx || '_' || v_queue.queue_cur_table
    || ' (ev_id, ev_time, ev_type, ev_data) values ($1, now(), $2, $3)'
  using v_id, ev_type, ev_data;
  return v_id;
end;
$$;

create or replace function pgque.insert_event_raw(
  queue_name text,
  ev_id bigint,
  ev_time timestamptz,
  ev_owner integer,
  ev_retry integer,
  ev_type text,
  ev_data text,
  ev_extra1 text,
  ev_extra2 text,
  ev_extra3 text,
  ev_extra4 text
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue := pgque.queue_for_insert(queue_name);
  -- Drawn even when the event has an id, as in PgQ: the ticker sees by the sequence that there is something new.
  v_next bigint := nextval(v_queue.queue_event_seq::regclass);
  v_event pgque.event := row(
    coalesce(ev_id, v_next), coalesce(ev_time, now()), null, ev_retry, ev_type, ev_data,
    ev_extra1, ev_extra2, ev_extra3, ev_extra4
  );
begin
  perform pgque.put_event(v_queue, ev_owner, v_event);
  return v_event.ev_id;
end;
$$;

-- Inserts one event with the id and the time it has. Only the subscription i_owner receives it; null is all of them.
create or replace function pgque.put_event(i_queue pgque.queue, i_owner integer, i_event pgque.event)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  execute 'insert into ' || pgque.event_table(i_queue.queue_id, i_queue.queue_cur_table)
    || ' (ev_id, ev_time, ev_owner, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)'
    || ' select ($1).ev_id, ($1).ev_time, $2, ($1).ev_retry, ($1).ev_type, ($1).ev_data,'
    || ' ($1).ev_extra1, ($1).ev_extra2, ($1).ev_extra3, ($1).ev_extra4'
  using i_event, i_owner;
end;
$$;

-- Inserts many events in one statement. The ids are in the order of the data. An array of extras is null or as long as
-- the data.
create or replace function pgque.insert_events(
  i_queue_name text,
  i_types text[],
  i_data text[],
  i_extra1 text[] default null,
  i_extra2 text[] default null,
  i_extra3 text[] default null,
  i_extra4 text[] default null
)
returns bigint[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return pgque.put_events(
    pgque.queue_for_insert(i_queue_name, coalesce(cardinality(i_data), 0)),
    i_types, i_data, i_extra1, i_extra2, i_extra3, i_extra4
  );
end;
$$;

create or replace function pgque.put_events(
  i_queue pgque.queue,
  i_types text[],
  i_data text[],
  i_extra1 text[],
  i_extra2 text[],
  i_extra3 text[],
  i_extra4 text[]
)
returns bigint[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer := coalesce(cardinality(i_data), 0);
  v_sequence regclass := i_queue.queue_event_seq;
  v_table text := pgque.event_table(i_queue.queue_id, i_queue.queue_cur_table);
  v_ids bigint[];
begin
  if coalesce(cardinality(i_types), 0) not in (1, v_count)
    or coalesce(cardinality(i_extra1), v_count) <> v_count
    or coalesce(cardinality(i_extra2), v_count) <> v_count
    or coalesce(cardinality(i_extra3), v_count) <> v_count
    or coalesce(cardinality(i_extra4), v_count) <> v_count
  then
    raise exception 'types, data and extras must have the same length' using errcode = 'PS010';
  end if;
  v_ids := array(select nextval(v_sequence) from generate_series(1, v_count));
  if cardinality(i_types) = 1 and num_nulls(i_extra1, i_extra2, i_extra3, i_extra4) = 4 then
    execute 'insert into ' || v_table
      || ' (ev_id, ev_time, ev_type, ev_data) select u.id, now(), $1, u.data from unnest($2, $3) as u (id, data)'
    using i_types[1], v_ids, i_data;
  else
    execute 'insert into ' || v_table
      || ' (ev_id, ev_time, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)'
      || ' select u.id, now(), case when $9 then $8 else u.type end, u.data, u.extra1, u.extra2, u.extra3, u.extra4'
      || ' from unnest($1, $2, $3, $4, $5, $6, $7) as u (id, type, data, extra1, extra2, extra3, extra4)'
    using v_ids, i_types, i_data, i_extra1, i_extra2, i_extra3, i_extra4, i_types[1],
      cardinality(i_types) = 1;
  end if;
  return v_ids;
end;
$$;

create or replace function pgque.insert_events(i_queue_name text, i_type text, i_data text[])
returns bigint[]
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select pgque.insert_events(i_queue_name, array[i_type], i_data)
$$;

create or replace function pgque.current_event_table(x_queue_name text)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue := pgque.queue_for_insert(x_queue_name, 0);
begin
  -- Valid until the end of the transaction, which is what COPY needs. Writing to the table requires INSERT on it.
  return v_queue.queue_data_pfx || '_' || v_queue.queue_cur_table;
end;
$$;
