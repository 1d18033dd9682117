-- Triggers that write the changes of a table to a queue:
--
--   create trigger changes after insert or update or delete on shop.orders
--   for each row execute function pgque.jsontriga('orders');
--
-- They run with the rights of whoever changes the table, who therefore needs to be allowed to send to the queue.

create or replace function pgque.key_changes(i_key text[], i_names text[], i_old text[], i_new text[])
returns boolean
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(bool_or(u.stale is distinct from u.fresh), false)
  from unnest(i_names, i_old, i_new) as u (name, stale, fresh)
  where u.name = any (i_key);
$$;

-- An update may not move a row to another key: a reader could not tell which row it was. True when there is something
-- to tell: columns that are left out may change in silence, while an update of nothing at all is told.
create or replace function pgque.change_matters(
  i_key text[],
  i_names text[],
  i_hidden boolean[],
  i_old text[],
  i_new text[]
)
returns boolean
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_shown boolean := false;
  v_hidden boolean := false;
begin
  for i in 1 .. cardinality(i_names) loop
    continue when i_old[i] is not distinct from i_new[i];
    if i_names[i] = any (i_key) then
      raise exception 'primary key update not allowed';
    end if;
    v_hidden := v_hidden or i_hidden[i];
    v_shown := v_shown or not i_hidden[i];
  end loop;
  return v_shown or not v_hidden;
end;
$$;

-- What the argument ev_…=expression says, else what the column _pgq_ev_… holds, else what the encoding made.
create or replace function pgque.event_field(
  i_field text,
  i_fields jsonb,
  i_row anyelement,
  i_names text[],
  i_values text[],
  i_default text
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if i_values is null then
    return i_default;
  elsif i_fields ? i_field then
    return pgque.row_expression(i_row, i_fields ->> i_field);
  elsif '_pgq_' || i_field = any (i_names) then
    return i_values[array_position(i_names, '_pgq_' || i_field)];
  end if;
  return i_default;
end;
$$;

-- The arguments as tg_argv has them: the queue is number 0.
create or replace function pgque.check_trigger(i_when text, i_level text, i_operation text, i_arguments text[])
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  if i_level <> 'ROW' and i_operation <> 'TRUNCATE' then
    raise exception 'a change trigger must be for each row, except on truncate';
  elsif i_when <> 'BEFORE' and 'SKIP' = any (i_arguments[1:]) then
    raise exception 'SKIP works in a before trigger only';
  end if;
end;
$$;

-- Writes the event, if there is one to write; true when the change itself is to be skipped.
create or replace function pgque.log_change(
  i_form text,
  i_operation text,
  i_relation oid,
  i_table text[],
  i_arguments text[],
  i_old anyelement,
  i_new anyelement
)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
-- A value is written the same whoever changes the table.
set datestyle = 'ISO, YMD'
set intervalstyle = 'postgres'
set bytea_output = 'hex'
set extra_float_digits = 1
set timezone = 'UTC'
as $$
declare
  v_name text := array_to_string(i_table, '.');
  v_options record := pgque.trigger_options(i_arguments);
  v_columns record;
  v_key text[];
  v_old text[];
  v_new text[];
  v_values text[];
  v_event record;
begin
  if current_setting('session_replication_role') = 'local' then
    return false;
  elsif v_options.denies then
    raise exception 'Table ''%'' to queue ''%'': change not allowed (%)',
      v_name, v_options.queue, case i_operation when 'TRUNCATE' then 'R' else left(i_operation, 1) end;
  end if;
  v_columns := pgque.trigger_columns(i_relation, v_options.ignored);
  v_key := coalesce(v_options.key, v_columns.key);
  if not v_key <@ v_columns.names then
    raise exception 'pkey names a column that is not in table ''%''', v_name;
  end if;
  if i_operation in ('UPDATE', 'DELETE') then
    if cardinality(v_key) = 0 then
      raise exception 'Update/Delete on table without pkey';
    end if;
    v_old := pgque.row_values(i_old, v_columns.names);
  end if;
  if i_operation in ('INSERT', 'UPDATE') then
    v_new := pgque.row_values(i_new, v_columns.names);
  else
    -- The row that expressions are about.
    i_new := i_old;
  end if;
  v_values := coalesce(v_new, v_old);
  if i_operation = 'UPDATE' and v_options.rekeys and pgque.key_changes(v_key, v_columns.names, v_old, v_new) then
    -- In this order: ids rise, so a reader forgets the old key before it meets the new one.
    perform pgque.log_change(i_form, 'DELETE', i_relation, i_table, i_arguments, i_old, i_old);
    return pgque.log_change(i_form, 'INSERT', i_relation, i_table, i_arguments, i_new, i_new);
  elsif i_operation = 'UPDATE' and not pgque.change_matters(v_key, v_columns.names, v_columns.hidden, v_old, v_new) then
    return v_options.skips;
  elsif v_options.condition is not null and v_values is not null
    and pgque.row_expression(i_new, v_options.condition) is distinct from 'true' then
    return v_options.skips;
  end if;
  v_event := pgque.encode_change(
    i_form, i_operation, i_table, v_key, v_columns.names, v_columns.types, v_columns.hidden, v_old, v_new
  );
  perform pgque.insert_event(
    v_options.queue,
    pgque.event_field('ev_type', v_options.fields, i_new, v_columns.names, v_values, v_event.ev_type),
    pgque.event_field('ev_data', v_options.fields, i_new, v_columns.names, v_values, v_event.ev_data),
    pgque.event_field('ev_extra1', v_options.fields, i_new, v_columns.names, v_values, v_name),
    pgque.event_field(
      'ev_extra2', v_options.fields, i_new, v_columns.names, v_values,
      case when v_options.backs_up and i_operation = 'UPDATE' then v_event.old_row end
    ),
    pgque.event_field('ev_extra3', v_options.fields, i_new, v_columns.names, v_values, null),
    pgque.event_field('ev_extra4', v_options.fields, i_new, v_columns.names, v_values, null)
  );
  return v_options.skips;
end;
$$;

-- ev_type {"op":"INSERT","table":[schema, table],"pkey":[columns]}, ev_data the row as JSON, ev_extra1 schema.table.
create or replace function pgque.jsontriga()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pgque.check_trigger(tg_when, tg_level, tg_op, tg_argv);
  if pgque.log_change('json', tg_op, tg_relid, array[tg_table_schema, tg_table_name]::text[], tg_argv, old, new) then
    return null;
  end if;
  if tg_op = 'DELETE' then
    return old;
  end if;
  return new;
end;
$$;

-- ev_type I:key, U:key, D:key or R, ev_data the row URL-encoded, ev_extra1 schema.table.
create or replace function pgque.logutriga()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pgque.check_trigger(tg_when, tg_level, tg_op, tg_argv);
  if pgque.log_change('url', tg_op, tg_relid, array[tg_table_schema, tg_table_name]::text[], tg_argv, old, new) then
    return null;
  end if;
  if tg_op = 'DELETE' then
    return old;
  end if;
  return new;
end;
$$;

-- ev_type I, U, D or R, ev_data what follows "insert into t", "update t set" or "delete from t where", ev_extra1 schema.table.
create or replace function pgque.sqltriga()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pgque.check_trigger(tg_when, tg_level, tg_op, tg_argv);
  if pgque.log_change('sql', tg_op, tg_relid, array[tg_table_schema, tg_table_name]::text[], tg_argv, old, new) then
    return null;
  end if;
  if tg_op = 'DELETE' then
    return old;
  end if;
  return new;
end;
$$;
