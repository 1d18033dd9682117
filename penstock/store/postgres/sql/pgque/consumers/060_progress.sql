-- The position of a subscription is the newest of its rows in three tables that take turns.
--
-- Every change is a new row with the next step, never an update. So there are no dead rows, and an old snapshot in
-- another session slows nothing down. A function that changes a subscription first locks its row of `subscriber`, then
-- reads, and then writes to the table in turn. The newest row of a subscription is in that table or, when the
-- subscription has not moved since the turn passed on, in another. Maintenance copies such rows over and truncates the
-- other tables.
--
-- A session plans a statement once, perhaps while the table is empty and a sequential scan looks cheap. The functions
-- that look up rows therefore disable sequential and bitmap scans.

create or replace function pgque.turn()
returns integer
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
  select (coalesce(pg_sequence_last_value('pgque.progress_turn'), 0) % 3)::integer
$$;

-- The table in turn is read first, and usually no other: a table that no session reads can be truncated without
-- waiting.
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
    -- There is always a row, so the snapshot of this transaction is older than the last turn.
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

-- A transaction with an old snapshot may have read a row that is no longer the newest. Then a row with the next step
-- exists in one of the tables. Inserting the step into all three finds it, because unique indexes ignore snapshots.
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

-- The member that has or had this batch; null when its rows have been truncated.
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
