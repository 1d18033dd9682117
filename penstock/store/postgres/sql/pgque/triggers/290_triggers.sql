-- Triggers that write the changes of a table to a queue:
--
--   create trigger changes after insert or update or delete on shop.orders
--   for each row execute function pgque.jsontriga('orders');
--
-- They run with the rights of the role that changes the table, which must be allowed to send to the queue.

create or replace function pgque.key_changes(i_change pgque.change)
returns boolean
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(bool_or(u.old_value is distinct from u.new_value), false)
  from unnest(i_change.column_names, i_change.old_values, i_change.new_values) as u (name, old_value, new_value)
  where u.name = any (i_change.key_columns);
$$;

-- Whether an update makes an event. An update of hidden columns alone makes none; an update that changes nothing makes
-- one. An update of the key is refused: a reader could not tell which row changed.
create or replace function pgque.change_matters(i_change pgque.change)
returns boolean
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_shown boolean := false;
  v_hidden boolean := false;
begin
  for i in 1 .. cardinality(i_change.column_names) loop
    continue when i_change.old_values[i] is not distinct from i_change.new_values[i];
    if i_change.column_names[i] = any (i_change.key_columns) then
      raise exception 'primary key update not allowed';
    end if;
    v_hidden := v_hidden or i_change.hidden[i];
    v_shown := v_shown or not i_change.hidden[i];
  end loop;
  return v_shown or not v_hidden;
end;
$$;

-- A field of the event: the argument ev_…=expression, otherwise the column _pgq_ev_…, otherwise the default.
create or replace function pgque.event_field(
  i_field text,
  i_fields jsonb,
  i_change pgque.change,
  i_row anyelement,
  i_default text
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_place integer := array_position(i_change.column_names, '_pgq_' || i_field);
begin
  if coalesce(i_change.new_values, i_change.old_values) is null then
    return i_default;
  elsif i_fields ? i_field then
    return pgque.row_expression(i_row, i_fields ->> i_field);
  elsif v_place is not null then
    return (coalesce(i_change.new_values, i_change.old_values))[v_place];
  end if;
  return i_default;
end;
$$;

-- i_arguments is tg_argv, which counts from zero: the first argument is the queue.
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

-- What changed, with the values of the rows as texts.
create or replace function pgque.describe_change(
  i_form text,
  i_operation text,
  i_relation oid,
  i_table text[],
  i_key text[],
  i_ignored text[],
  i_old anyelement,
  i_new anyelement
)
returns pgque.change
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_columns record := pgque.trigger_columns(i_relation, i_ignored);
  v_change pgque.change;
begin
  v_change.form := i_form;
  v_change.operation := i_operation;
  v_change.table_name := i_table;
  v_change.key_columns := coalesce(i_key, v_columns.key);
  v_change.column_names := v_columns.names;
  v_change.column_types := v_columns.types;
  v_change.hidden := v_columns.hidden;
  if not v_change.key_columns <@ v_change.column_names then
    raise exception 'pkey names a column that is not in table ''%''', array_to_string(i_table, '.');
  end if;
  if i_operation in ('UPDATE', 'DELETE') then
    if cardinality(v_change.key_columns) = 0 then
      raise exception 'Update/Delete on table without pkey';
    end if;
    v_change.old_values := pgque.row_values(i_old, v_columns.names);
  end if;
  if i_operation in ('INSERT', 'UPDATE') then
    v_change.new_values := pgque.row_values(i_new, v_columns.names);
  end if;
  return v_change;
end;
$$;

-- Writes the event of a change. i_row is the row that expressions in the arguments of the trigger refer to.
create or replace function pgque.write_change(
  i_queue text,
  i_fields jsonb,
  i_backs_up boolean,
  i_change pgque.change,
  i_row anyelement
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_event record := pgque.encode_change(i_change);
  v_name text := array_to_string(i_change.table_name, '.');
  v_backup text := case when i_backs_up and i_change.operation = 'UPDATE' then v_event.old_row end;
begin
  perform pgque.insert_event(
    i_queue,
    pgque.event_field('ev_type', i_fields, i_change, i_row, v_event.ev_type),
    pgque.event_field('ev_data', i_fields, i_change, i_row, v_event.ev_data),
    pgque.event_field('ev_extra1', i_fields, i_change, i_row, v_name),
    pgque.event_field('ev_extra2', i_fields, i_change, i_row, v_backup),
    pgque.event_field('ev_extra3', i_fields, i_change, i_row, null),
    pgque.event_field('ev_extra4', i_fields, i_change, i_row, null)
  );
end;
$$;

-- Writes the event of a change, if there is one; true when the change itself must be skipped.
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
-- Values have the same text in every session.
set datestyle = 'ISO, YMD'
set intervalstyle = 'postgres'
set bytea_output = 'hex'
set extra_float_digits = 1
set timezone = 'UTC'
as $$
declare
  v_options record := pgque.trigger_options(i_arguments);
  v_change pgque.change;
begin
  if current_setting('session_replication_role') = 'local' then
    return false;
  elsif v_options.denies then
    raise exception 'Table ''%'' to queue ''%'': change not allowed (%)',
      array_to_string(i_table, '.'), v_options.queue, i_operation;
  end if;
  v_change := pgque.describe_change(
    i_form, i_operation, i_relation, i_table, v_options.key, v_options.ignored, i_old, i_new
  );
  if i_operation = 'UPDATE' and v_options.rekeys and pgque.key_changes(v_change) then
    -- In this order: ids rise, so a reader removes the old key before it adds the new one.
    perform pgque.log_change(i_form, 'DELETE', i_relation, i_table, i_arguments, i_old, i_old);
    return pgque.log_change(i_form, 'INSERT', i_relation, i_table, i_arguments, i_new, i_new);
  elsif i_operation = 'UPDATE' and not pgque.change_matters(v_change) then
    return v_options.skips;
  end if;
  if i_operation not in ('INSERT', 'UPDATE') then
    i_new := i_old;
  end if;
  if v_options.condition is null or i_operation = 'TRUNCATE'
    or pgque.row_expression(i_new, v_options.condition) = 'true'
  then
    perform pgque.write_change(v_options.queue, v_options.fields, v_options.backs_up, v_change, i_new);
  end if;
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
