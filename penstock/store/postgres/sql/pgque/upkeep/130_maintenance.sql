-- Maintenance: event tables take turns, and so do the tables of progress. Several nodes may run all of it at the same
-- time, and none of it waits for a table that another session uses.

-- Step 1 truncates the oldest event table and makes it the current one. No subscription needs the oldest table when all
-- of them are past step 2 of the last rotation: then everything they have still to read is in the current table.
create or replace function pgque.maint_rotate_tables_step1(i_queue_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue;
  v_lowest pgque.tick;
  v_next integer;
begin
  -- An old snapshot does not show a subscription that was just moved back and needs the oldest table.
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'a rotation needs a transaction that is read committed' using errcode = '25001';
  end if;
  select * into v_queue
  from pgque.queue as q
  where q.queue_name = i_queue_name
    and q.queue_switch_step2 is not null
    and q.queue_switch_time + q.queue_rotation_period < now()
  for no key update skip locked;
  if v_queue.queue_id is null then
    return 0;
  end if;
  v_lowest := pgque.lowest_tick(v_queue.queue_id);
  if v_lowest.tick_id is not null and pg_snapshot_xmin(v_lowest.tick_snapshot) <= v_queue.queue_switch_step2 then
    return 0;
  end if;
  v_next := (v_queue.queue_cur_table + 1) % v_queue.queue_ntables;
  if not pgque.empty_event_table(v_queue.queue_id, v_next) then
    return 0;
  end if;
  perform pgque.loads_are_over(v_queue.queue_id, v_queue.queue_switch_step2);
  update pgque.queue as q
  set queue_cur_table = v_next,
    queue_switch_time = now(),
    queue_switch_step1 = pg_current_xact_id(),
    queue_switch_step2 = null,
    queue_first_tick = pgque.forget_ticks(v_queue)
  where q.queue_id = v_queue.queue_id;
  perform pgque.log_event(
    'info', 'rotation', 'step 1', jsonb_build_object('queue', i_queue_name, 'table', v_next)
  );
  return 0;
end;
$$;

-- Step 2 stores the id of a transaction that began after step 1 was visible to all sessions; hence it needs a
-- transaction of its own.
create or replace function pgque.maint_rotate_tables_step2()
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name text;
begin
  for v_name in
    update pgque.queue as q
    set queue_switch_step2 = pg_current_xact_id()
    where q.queue_id = any (
      array(select o.queue_id from pgque.queue as o where o.queue_switch_step2 is null for no key update skip locked)
    )
      -- In the transaction of step 1 itself, other sessions see nothing yet.
      and q.queue_switch_step1 < pg_current_xact_id()
    returning q.queue_name
  loop
    perform pgque.log_event('info', 'rotation', 'step 2', jsonb_build_object('queue', v_name));
  end loop;
  return 0;
end;
$$;

create or replace function pgque.lowest_tick(i_queue_id integer)
returns pgque.tick
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_lowest bigint;
begin
  select min(s.sub_last_tick) into v_lowest from pgque.subscription as s where s.sub_queue = i_queue_id;
  if v_lowest is null then
    return null;
  end if;
  return pgque.tick_of(i_queue_id, v_lowest);
end;
$$;

-- Truncates an event table unless a session uses it; whether it was truncated. The lock is held until the transaction
-- ends, so callers do this last.
create or replace function pgque.empty_event_table(i_queue_id integer, i_number integer)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_table text := pgque.event_table(i_queue_id, i_number);
begin
  execute format('lock table only %s in access exclusive mode nowait', v_table);
  execute format('truncate table only %s', v_table);
  return true;
exception
  when lock_not_available then
    return false;
end;
$$;

-- Deletes ticks older than the previous rotation: no subscription is there or can be moved there any more.
create or replace function pgque.forget_ticks(i_queue pgque.queue)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_first bigint;
begin
  select t.tick_id into v_first
  from pgque.tick as t
  where t.tick_queue = i_queue.queue_id
    and t.tick_id >= i_queue.queue_first_tick
    and pg_snapshot_xmin(t.tick_snapshot) >= i_queue.queue_switch_step2
  order by t.tick_queue, t.tick_id
  limit 1;
  -- A queue without a ticker keeps its last tick: subscriptions start from it.
  v_first := coalesce(v_first, (pgque.last_tick(i_queue.queue_id)).tick_id, i_queue.queue_first_tick);
  delete from pgque.tick as t
  where t.tick_queue = i_queue.queue_id
    and t.tick_id >= i_queue.queue_first_tick
    and t.tick_id < v_first;
  return v_first;
end;
$$;

-- Tables of progress: passes the turn on when the table in turn has grown and the next is empty, copies the rows of
-- subscriptions that have not moved since, and truncates the other tables, oldest first.
create or replace function pgque.maint_progress(i_rows bigint default null)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_turn integer;
  v_emptied integer := 0;
  v_rows bigint := coalesce(i_rows, pgque.rows_per_turn());
begin
  if current_setting('transaction_isolation') <> 'read committed' or not pg_try_advisory_xact_lock(1885826420, 1) then
    return 0;
  end if;
  v_turn := pgque.turn();
  if pgque.progress_rows(v_turn) >= v_rows and pgque.progress_rows((v_turn + 1) % 3) = 0 then
    v_turn := nextval('pgque.progress_turn') % 3;
  end if;
  perform pgque.carry_over(v_turn);
  if pgque.empty_progress((v_turn + 1) % 3) then
    v_emptied := 1 + pgque.empty_progress((v_turn + 2) % 3)::integer;
  end if;
  return v_emptied;
end;
$$;

-- The number of rows after which the turn passes on. Carrying over writes a row per subscription, so several times as
-- many should be left behind. And TRUNCATE makes all sessions reload the table from the catalogs, where it leaves dead
-- rows: it is not worth it for a few pages.
create or replace function pgque.rows_per_turn()
returns bigint
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
  select greatest(20000, 4 * (select count(*) from pgque.subscriber))
$$;

-- An estimate from the size of the file. An empty table is recognised for certain.
create or replace function pgque.progress_rows(i_number integer)
returns bigint
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
  select pg_relation_size('pgque.progress_' || i_number) / 100
$$;

-- Whether maint_progress would do anything: the table in turn is large enough, or another one has rows.
create or replace function pgque.progress_is_due()
returns boolean
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
  select pgque.progress_rows(t.turn) >= pgque.rows_per_turn()
    or pgque.progress_rows((t.turn + 1) % 3) > 0
    or pgque.progress_rows((t.turn + 2) % 3) > 0
  from pgque.turn() as t (turn)
$$;

-- Subscriptions that another session has locked are skipped: they move, or are copied next time.
create or replace function pgque.carry_over(i_turn integer)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_member integer;
  v_now pgque.progress_0;
begin
  for v_member in
    select s.sub_member
    from pgque.subscriber as s
    where not pgque.is_in_turn(s.sub_member, i_turn)
    order by s.sub_member
    for update skip locked
  loop
    v_now := pgque.read_progress(v_member);
    v_now.sub_step := v_now.sub_step + 1;
    perform pgque.write_progress(v_now);
  end loop;
end;
$$;

create or replace function pgque.is_in_turn(i_member integer, i_turn integer)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  return coalesce(
    case i_turn
      when 0 then (select true from pgque.progress_0 as p where p.sub_member = i_member limit 1)
      when 1 then (select true from pgque.progress_1 as p where p.sub_member = i_member limit 1)
      else (select true from pgque.progress_2 as p where p.sub_member = i_member limit 1)
    end,
    false
  );
end;
$$;

-- Truncates the table when no subscription has its newest row there; whether it is empty now. The exclusive lock
-- prevents new rows, and sessions that have read the table are finished, or the lock would not be free.
create or replace function pgque.empty_progress(i_number integer)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_newest text := '(select p.sub_step from pgque.%I as p where p.sub_member = m.sub_member'
    || ' order by p.sub_step desc limit 1)';
  v_table text := 'progress_' || i_number;
  v_needed boolean;
begin
  if pgque.progress_rows(i_number) = 0 then
    return true;
  end if;
  execute format('lock table pgque.%I in access exclusive mode nowait', v_table);
  execute 'select true from pgque.subscriber as m where ' || format(v_newest, v_table) || ' > greatest('
    || format(v_newest, 'progress_' || (i_number + 1) % 3) || ', '
    || format(v_newest, 'progress_' || (i_number + 2) % 3) || ', 0) limit 1'
  into v_needed;
  if v_needed then
    return false;
  end if;
  execute format('truncate table pgque.%I', v_table);
  return true;
exception
  when lock_not_available then
    return false;
end;
$$;

-- Tables in which rows are inserted and deleted. While an old snapshot is held, the deleted rows stay; when no live row
-- is left, the whole table can be truncated. A reader with an older snapshot then finds nothing, but those rows had been
-- deleted already.
create or replace function pgque.tables_to_empty()
returns regclass[]
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select array['pgque.retry_queue', 'pgque.delayed_events', 'pgque.send_keys']::regclass[]
$$;

create or replace function pgque.maint_empty_tables()
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_table regclass;
  v_emptied integer := 0;
begin
  foreach v_table in array pgque.tables_to_empty() loop
    if pg_relation_size(v_table) > 1048576 then
      v_emptied := v_emptied + pgque.truncated_if_empty(v_table)::integer;
    end if;
  end loop;
  return v_emptied;
end;
$$;

create or replace function pgque.truncated_if_empty(i_table regclass)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_used boolean;
begin
  execute format('lock table %s in access exclusive mode nowait', i_table);
  execute format('select true from %s limit 1', i_table) into v_used;
  if v_used then
    return false;
  end if;
  execute format('truncate table %s', i_table);
  return true;
exception
  when lock_not_available then
    return false;
end;
$$;

create or replace function pgque.maint_tables_to_vacuum()
returns setof text
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select t.name
  from unnest(array[
    'pgque.queue', 'pgque.consumer', 'pgque.subscriber', 'pgque.tick', 'pgque.retry_queue', 'pgque.delayed_events',
    'pgque.send_keys', 'pgque.dead_letter', 'pgque.load'
  ]) as t (name)
  where current_setting('autovacuum') <> 'on'
$$;
