-- How a change is written down: as JSON, as a URL-encoded row, or as a piece of SQL. The forms are those of PgQ, so
-- that its consumers can read them. Values come as texts; hidden columns are left out.

-- Whole numbers, booleans and moments have a form in JSON. Everything else is the text of its type: what a reader
-- would make of a numeric or an array is not ours to say, and the text goes back into a table unchanged.
create or replace function pgque.json_value(i_value text, i_type oid)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select case
    when i_value is null then 'null'
    when i_type in ('int2'::regtype, 'int4'::regtype, 'int8'::regtype) then i_value
    when i_type = 'bool'::regtype then (i_value::bool)::text
    when i_type = 'timestamp'::regtype then to_json(i_value::timestamp)::text
    when i_type = 'timestamptz'::regtype then to_json(i_value::timestamptz)::text
    else to_json(i_value)::text
  end;
$$;

create or replace function pgque.json_row(i_names text[], i_types oid[], i_hidden boolean[], i_values text[])
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select '{' || coalesce(
    string_agg(to_json(u.name)::text || ':' || pgque.json_value(u.value, u.type), ',' order by u.place), ''
  ) || '}'
  from unnest(i_names, i_types, i_hidden, i_values) with ordinality as u (name, type, hidden, value, place)
  where not u.hidden;
$$;

create or replace function pgque.url_text(i_text text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select case when i_text !~ '[^A-Za-z0-9_.-]' then i_text else (
    select string_agg(
      case
        when u.letter ~ '[A-Za-z0-9_.-]' then u.letter
        when u.letter = ' ' then '+'
        else regexp_replace(encode(convert_to(u.letter, 'UTF8'), 'hex'), '(..)', '%\1', 'g')
      end,
      '' order by u.place
    )
    from unnest(string_to_array(i_text, null)) with ordinality as u (letter, place)
  ) end;
$$;

-- A null is a name without a value.
create or replace function pgque.url_row(i_names text[], i_hidden boolean[], i_values text[])
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    string_agg(pgque.url_text(u.name) || coalesce('=' || pgque.url_text(u.value), ''), '&' order by u.place), ''
  )
  from unnest(i_names, i_hidden, i_values) with ordinality as u (name, hidden, value, place)
  where not u.hidden;
$$;

-- The end of "insert into t …".
create or replace function pgque.sql_insert(i_names text[], i_hidden boolean[], i_values text[])
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select format(
    '(%s) values (%s)',
    string_agg(quote_ident(u.name), ',' order by u.place),
    string_agg(coalesce(quote_literal(u.value), 'null'), ',' order by u.place)
  )
  from unnest(i_names, i_hidden, i_values) with ordinality as u (name, hidden, value, place)
  where not u.hidden;
$$;

-- The end of "delete from t where …".
create or replace function pgque.sql_key(i_key text[], i_names text[], i_values text[])
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select string_agg(
    quote_ident(k.name) || coalesce('=' || quote_literal(i_values[array_position(i_names, k.name)]), ' is null'),
    ' and ' order by k.place
  )
  from unnest(i_key) with ordinality as k (name, place);
$$;

-- The end of "update t set …": what changed, or the key set to itself when nothing did.
create or replace function pgque.sql_update(
  i_key text[],
  i_names text[],
  i_hidden boolean[],
  i_old text[],
  i_new text[]
)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    string_agg(quote_ident(u.name) || '=' || quote_nullable(u.fresh), ',' order by u.place)
      filter (where not u.hidden and u.fresh is distinct from u.stale),
    quote_ident(i_key[1]) || '=' || quote_nullable(i_new[array_position(i_names, i_key[1])])
  ) || ' where ' || pgque.sql_key(i_key, i_names, i_new)
  from unnest(i_names, i_hidden, i_old, i_new) with ordinality as u (name, hidden, stale, fresh, place);
$$;

-- One change of one row, or the truncation of a table, as the change triggers see it. The values of a row are texts, in
-- the order of the columns; there are none before an insert and none after a delete.
do $$
begin
  create type pgque.change as (
    form text,              -- json, url or sql
    operation text,         -- INSERT, UPDATE, DELETE or TRUNCATE
    table_name text[],      -- schema and table
    key_columns text[],
    column_names text[],
    column_types oid[],
    hidden boolean[],       -- columns that are left out of the event
    old_values text[],
    new_values text[]
  );
exception
  when duplicate_object then null;
end;
$$;

-- Type, data and backup of the event for one change. The truncation of a table has no row.
create or replace function pgque.encode_change(
  i_change pgque.change,
  out ev_type text,
  out ev_data text,
  out old_row text
)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  c pgque.change := i_change;
  v_row text[] := coalesce(c.new_values, c.old_values);
  v_letter text := case c.operation when 'TRUNCATE' then 'R' else left(c.operation, 1) end;
begin
  if c.form = 'json' then
    ev_type := format(
      '{"op":"%s","table":[%s,%s],"pkey":[%s]}',
      c.operation, to_json(c.table_name[1]), to_json(c.table_name[2]),
      (
        select string_agg(to_json(k.name)::text, ',' order by k.place)
        from unnest(c.key_columns) with ordinality as k (name, place)
      )
    );
    ev_data := case
      when v_row is null then '{}'
      else pgque.json_row(c.column_names, c.column_types, c.hidden, v_row)
    end;
    old_row := pgque.json_row(c.column_names, c.column_types, c.hidden, c.old_values);
    return;
  end if;
  old_row := pgque.url_row(c.column_names, c.hidden, c.old_values);
  if v_row is null then
    ev_type := v_letter;
    ev_data := '';
  elsif c.form = 'url' then
    ev_type := v_letter || ':' || array_to_string(c.key_columns, ',');
    ev_data := pgque.url_row(c.column_names, c.hidden, v_row);
  else
    ev_type := v_letter;
    ev_data := case v_letter
      when 'I' then pgque.sql_insert(c.column_names, c.hidden, c.new_values)
      when 'U' then pgque.sql_update(c.key_columns, c.column_names, c.hidden, c.old_values, c.new_values)
      else pgque.sql_key(c.key_columns, c.column_names, c.old_values)
    end;
  end if;
end;
$$;
