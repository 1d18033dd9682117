-- Where a subscription stands: the newest of its rows in three tables that take turns.
--
-- Every change is a new row with the next step, never an update, so nothing dies and a snapshot held elsewhere slows
-- nothing down. Whoever changes a subscription has its row of `subscriber` locked, reads after that, and writes to
-- the table whose turn it is. The newest row of a subscription is therefore in that table or, when it has not moved
-- since the turn passed on, in another. Maintenance carries such rows over and empties the tables that are left.
--
-- A session plans a statement once, perhaps while the table is empty and reading all of it looks cheap. The functions
-- that look rows up are therefore told to walk the indexes.

create or replace function pgque.turn()
returns integer
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
  select (coalesce(pg_sequence_last_value('pgque.progress_turn'), 0) % 3)::integer
$$;

-- The table in turn is asked first and mostly alone: a table nobody asks can be emptied without waiting.
create or replace function pgque.read_progress(i_member integer)
returns pgque.progress_0
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_turn integer := coalesce(pg_sequence_last_value('pgque.progress_turn'), 0) % 3;
  v_found pgque.progress_0;
begin
  if v_turn = 0 then
    select * into v_found from pgque.progress_0 as p where p.sub_member = i_member order by p.sub_step desc limit 1;
  elsif v_turn = 1 then
    select * into v_found from pgque.progress_1 as p where p.sub_member = i_member order by p.sub_step desc limit 1;
  else
    select * into v_found from pgque.progress_2 as p where p.sub_member = i_member order by p.sub_step desc limit 1;
  end if;
  if v_found.sub_member is not null then
    return v_found;
  end if;
  select s.sub_member, n.sub_step, n.sub_last_tick, n.sub_active, n.sub_batch, n.sub_next_tick, n.sub_done,
    n.sub_seen, n.sub_end
  into v_found
  from (select i_member as sub_member) as s
  cross join lateral (
    (select * from pgque.progress_0 as a where a.sub_member = s.sub_member order by a.sub_step desc limit 1)
    union all
    (select * from pgque.progress_1 as b where b.sub_member = s.sub_member order by b.sub_step desc limit 1)
    union all
    (select * from pgque.progress_2 as c where c.sub_member = s.sub_member order by c.sub_step desc limit 1)
  ) as n
  order by n.sub_step desc
  limit 1;
  if v_found.sub_member is null then
    -- There is always a row, so this transaction looks through a snapshot from before the tables took turns.
    raise exception 'could not serialize access: the subscription has moved on' using errcode = '40001';
  end if;
  return v_found;
end;
$$;

create or replace function pgque.write_progress(i_new pgque.progress_0)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_turn integer := coalesce(pg_sequence_last_value('pgque.progress_turn'), 0) % 3;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform pgque.write_progress_everywhere(i_new);
  elsif v_turn = 0 then
    insert into pgque.progress_0 select i_new.*;
  elsif v_turn = 1 then
    insert into pgque.progress_1 select i_new.*;
  else
    insert into pgque.progress_2 select i_new.*;
  end if;
end;
$$;

-- A transaction with an old snapshot may have read a row that is no longer the newest; then the next step exists
-- already, in one of the tables. Writing the step to all of them finds out, as keys know no snapshots.
create or replace function pgque.write_progress_everywhere(i_new pgque.progress_0)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into pgque.progress_0 select i_new.*;
  insert into pgque.progress_1 select i_new.*;
  insert into pgque.progress_2 select i_new.*;
exception
  when unique_violation then
    raise exception 'could not serialize access: the subscription has moved on' using errcode = '40001';
end;
$$;

-- Whose batch it is or was; null when nobody has heard of it for a while.
create or replace function pgque.member_of_batch(i_batch_id bigint)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_turn integer := coalesce(pg_sequence_last_value('pgque.progress_turn'), 0) % 3;
  v_member integer;
begin
  if v_turn = 0 then
    select p.sub_member into v_member from pgque.progress_0 as p where p.sub_batch = i_batch_id limit 1;
  elsif v_turn = 1 then
    select p.sub_member into v_member from pgque.progress_1 as p where p.sub_batch = i_batch_id limit 1;
  else
    select p.sub_member into v_member from pgque.progress_2 as p where p.sub_batch = i_batch_id limit 1;
  end if;
  if v_member is null then
    select p.sub_member into v_member from pgque.progress as p where p.sub_batch = i_batch_id limit 1;
  end if;
  return v_member;
end;
$$;

-- Locks the subscription; its row stays as it is.
create or replace function pgque.lock_member(i_member integer)
returns pgque.subscriber
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_found pgque.subscriber;
begin
  select * into v_found from pgque.subscriber as s where s.sub_member = i_member for update;
  return v_found;
end;
$$;
