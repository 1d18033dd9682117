-- Change triggers installed and removed in one call. Both functions run with the rights of the caller, which must own
-- the table: they do nothing that the caller could not do by hand.

-- Sends every change of the table to the queue as JSON; the queue is created when it does not exist. Calling it again
-- changes the arguments. Returns 1 when the table was not tracked before.
create or replace function pgque.track_table(
  i_table regclass,
  i_queue_name text,
  variadic i_arguments text[] default '{rekey}'
)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_kind "char" := (select c.relkind from pg_class as c where c.oid = i_table);
  v_row name := 'changes_to_' || i_queue_name;
  v_empty name := 'emptied_to_' || i_queue_name;
  v_before name[] := array(select pgque.change_triggers(i_table, i_queue_name));
  v_list text;
begin
  if v_kind is distinct from 'r' then
    raise exception 'only plain tables can be tracked, and % is none; of a partitioned table, track the partitions',
      i_table using errcode = '42809';
  elsif not v_before <@ array[v_row, v_empty] then
    raise exception 'table % has a change trigger to queue % already', i_table, i_queue_name
      using errcode = '42710', hint = 'Drop it first: every change would be told twice.';
  end if;
  -- Checked now: otherwise a mistake would show at the next change of the table.
  perform pgque.trigger_options(i_queue_name || i_arguments);
  if (select true from pgque.get_queue_info(i_queue_name) limit 1) is null then
    perform pgque.create_queue(i_queue_name);
  end if;
  v_list := (
    select string_agg(quote_literal(u.argument), ', ' order by u.place)
    from unnest(i_queue_name || i_arguments) with ordinality as u (argument, place)
  );
  execute format(
    'create or replace trigger %I after insert or update or delete on %s for each row'
    || ' execute function pgque.jsontriga(%s)',
    v_row, i_table, v_list
  );
  execute format(
    'create or replace trigger %I after truncate on %s for each statement execute function pgque.jsontriga(%s)',
    v_empty, i_table, v_list
  );
  return (cardinality(v_before) = 0)::integer;
end;
$$;

-- The queue stays, with what it holds. Returns 1 when the table was tracked.
create or replace function pgque.untrack_table(i_table regclass, i_queue_name text)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name name;
  v_gone integer := 0;
begin
  foreach v_name in array array['changes_to_' || i_queue_name, 'emptied_to_' || i_queue_name] loop
    continue when not v_name in (select pgque.change_triggers(i_table, i_queue_name));
    execute format('drop trigger %I on %s', v_name, i_table);
    v_gone := 1;
  end loop;
  return v_gone;
end;
$$;
