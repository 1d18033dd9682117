-- Loads: many events inserted into a queue at once, through a table of their own.
--
-- Updating an index row by row costs more than inserting the rows; building it afterwards is cheap. A producer of a
-- hundred thousand events therefore opens a load, copies the events into its table, closes it and publishes it. The
-- transaction that publishes makes them events of the queue, all at once and without copying them again. Opening and
-- closing may be one transaction and publishing another, or all may be one.
--
-- A batch reads a load like an event table whose rows all have that transaction and its time. When no subscription is
-- before the load any more, a rotation records this; maintenance drops the table one rotation period later.
--
-- Order of locks: the row of the queue, the row of the load, its table.

create or replace function pgque.load_table(i_queue_id integer, i_load_id bigint)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select format('pgque.%I', 'event_' || i_queue_id || '_load_' || i_load_id)
$$;

-- The table takes ev_type, ev_data and the extras; ids and times are defaults. COPY into it requires INSERT on it,
-- which its owner has. Only the key of the queue's row is locked, so rotations go on.
create or replace function pgque.open_load(in i_queue_name text, out load_id bigint, out load_table text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue := pgque.queue_for_insert(i_queue_name, 0);
begin
  perform from pgque.queue as q where q.queue_id = v_queue.queue_id for key share;
  if not found then
    raise exception 'queue not found: %', i_queue_name using errcode = 'PS029';
  end if;
  insert into pgque.load as l (load_queue) values (v_queue.queue_id) returning l.load_id into load_id;
  load_table := pgque.load_table(v_queue.queue_id, load_id);
  execute format(
    'create table %s (like pgque.event_template including defaults) with (autovacuum_enabled = off)', load_table
  );
  execute format('alter table %s alter column ev_id set default nextval(%L)', load_table, v_queue.queue_event_seq);
end;
$$;

-- The number of rows. Nothing may be added from now on: a batch that was read would change.
create or replace function pgque.close_load(i_load_id bigint)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_load pgque.load;
  v_table text;
begin
  select * into v_load from pgque.load as l where l.load_id = i_load_id for update;
  if v_load.load_id is null or v_load.load_rows is not null then
    raise exception 'load % is not open', i_load_id using errcode = 'PS030';
  end if;
  v_table := pgque.load_table(v_load.load_queue, i_load_id);
  -- No more ids are needed, and a default that uses the sequence would prevent dropping the queue.
  execute format('alter table %s alter column ev_id drop default', v_table);
  -- All rows get the same transaction id, so only event ids are looked up.
  execute format('create index on %s (ev_id)', v_table);
  execute format('select min(e.ev_id), max(e.ev_id) from %s as e', v_table)
  into v_load.load_first, v_load.load_last;
  execute format('select count(*) from %s', v_table) into v_load.load_rows;
  -- The time to publish starts now, however long it took to fill the table.
  update pgque.load as l
  set load_time = clock_timestamp(),
    load_rows = v_load.load_rows,
    load_first = v_load.load_first,
    load_last = v_load.load_last
  where l.load_id = i_load_id;
  return v_load.load_rows;
end;
$$;

create or replace function pgque.publish_loads(i_queue_name text, i_loads bigint[])
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue := pgque.queue_for_insert(
    i_queue_name, (select coalesce(sum(l.load_rows), 0) from pgque.load as l where l.load_id = any (i_loads))::bigint
  );
  v_load bigint;
begin
  for v_load in select distinct l from unnest(i_loads) as l order by l loop
    update pgque.load as l
    set load_txid = pg_current_xact_id(),
      load_published = now()
    where l.load_id = v_load
      and l.load_queue = v_queue.queue_id
      and l.load_rows is not null
      and l.load_txid is null;
    if not found then
      raise exception 'load % of queue % cannot be published', v_load, i_queue_name
        using
          errcode = 'PS030',
          detail = 'It is open, or was published before, or was dropped because it was not published within a day.';
    end if;
  end loop;
end;
$$;

-- Drops those of these loads that are not published and that no session fills; the number of them.
create or replace function pgque.discard_loads(i_loads bigint[])
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_load pgque.load;
  v_count integer := 0;
begin
  for v_load in
    select *
    from pgque.load as l
    where l.load_id = any (i_loads)
      and l.load_txid is null
    order by l.load_id
    limit pgque.loads_at_once()
    for update skip locked
  loop
    v_count := v_count + pgque.load_dropped(v_load)::integer;
  end loop;
  return v_count;
end;
$$;

-- Called by a rotation: no subscription is before this transaction any more.
create or replace function pgque.loads_are_over(i_queue_id integer, i_before xid8)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update pgque.load as l
  set load_over = now()
  where l.load_queue = i_queue_id
    and l.load_txid < i_before
    and l.load_over is null
$$;

-- Drops loads that have been over for a rotation period (a reader without a subscription may still use them), loads
-- that were not published within a day, and loads of queues that were dropped.
create or replace function pgque.maint_drop_loads()
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_load pgque.load;
  v_count integer := 0;
begin
  for v_load in
    select l.*
    from pgque.load as l
    where l.load_over + (
        select q.queue_rotation_period from pgque.queue as q where q.queue_id = l.load_queue
      ) < now()
      or (l.load_txid is null and l.load_time < now() - interval '1 day')
      or (select true from pgque.queue as q where q.queue_id = l.load_queue) is null
    order by l.load_id
    limit pgque.loads_at_once()
    for update of l skip locked
  loop
    v_count := v_count + pgque.load_dropped(v_load)::integer;
  end loop;
  return v_count;
end;
$$;

-- Each drop takes locks until the transaction ends, and the lock table of a server has room for some thousands.
create or replace function pgque.loads_at_once()
returns integer
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select 100
$$;

-- Whether it was dropped: a table that a session uses is kept.
create or replace function pgque.load_dropped(i_load pgque.load)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_table text := pgque.load_table(i_load.load_queue, i_load.load_id);
begin
  if to_regclass(v_table) is not null then
    execute format('lock table only %s in access exclusive mode nowait', v_table);
    execute format('drop table %s', v_table);
  end if;
  delete from pgque.load as l where l.load_id = i_load.load_id;
  return true;
exception
  when lock_not_available then
    return false;
end;
$$;

-- The load as a query reads it: its rows, with the transaction that published them.
create or replace function pgque.load_source(i_load pgque.load)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select format(
    '(select l.ev_id, timestamptz %L as ev_time, %L::xid8 as ev_txid, l.ev_owner, l.ev_retry, l.ev_type, l.ev_data,'
      || ' l.ev_extra1, l.ev_extra2, l.ev_extra3, l.ev_extra4 from %s as l)',
    i_load.load_published, i_load.load_txid, pgque.load_table(i_load.load_queue, i_load.load_id)
  )
$$;
