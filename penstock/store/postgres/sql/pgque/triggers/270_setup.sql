-- The arguments of a change trigger, and the columns of its table. The arguments are those of PgQ: first the queue, then
-- any of
--
--   ignore=a,b   columns that are left out; an update of nothing else makes no event
--   pkey=a,b     the key, instead of the primary key
--   backup       the old row of an update goes to ev_extra2
--   rekey        an update of the key makes two events: a delete of the old row and an insert of the new one
--   deny         the change is an error
--   SKIP         in a before trigger: the event is made, the table stays as it is
--   when=…       an expression over the row; no event unless it is true
--   ev_type=…    an expression for ev_type, ev_data, ev_extra1, …, ev_extra4
--
-- The trigger functions and all they call run with the rights of the role that changes the table, never with those of
-- their owner: the expressions are SQL of the table's owner and must not give more rights.

create or replace function pgque.trigger_options(
  i_arguments text[],
  out queue text,
  out skips boolean,
  out backs_up boolean,
  out rekeys boolean,
  out denies boolean,
  out ignored text[],
  out key text[],
  out condition text,
  out fields jsonb
)
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  -- tg_argv counts from zero.
  v_arguments text[] := array(select unnest(i_arguments));
  v_argument text;
  v_name text;
  v_rest text;
begin
  queue := v_arguments[1];
  skips := false;
  backs_up := false;
  rekeys := false;
  denies := false;
  ignored := '{}';
  fields := '{}';
  foreach v_argument in array v_arguments[2:] loop
    v_name := split_part(v_argument, '=', 1);
    v_rest := substr(v_argument, length(v_name) + 2);
    case
      when v_argument = 'SKIP' then skips := true;
      when v_argument = 'backup' then backs_up := true;
      when v_argument = 'rekey' then rekeys := true;
      when v_argument = 'deny' then denies := true;
      when v_name = 'ignore' then ignored := string_to_array(v_rest, ',');
      when v_name = 'pkey' then key := string_to_array(v_rest, ',');
      when v_name = 'when' then condition := v_rest;
      when v_name ~ '^ev_(type|data|extra[1-4])$' then fields := fields || jsonb_build_object(v_name, v_rest);
      else raise exception 'unknown trigger argument: %', v_argument;
    end case;
  end loop;
  if coalesce(queue, '') = '' then
    raise exception 'a change trigger needs the name of a queue';
  end if;
end;
$$;

-- The columns in their order. A column whose name begins with _pgq_ev_ carries a field of the event, no data. A virtual
-- column is computed when it is read, so a trigger finds nothing in it: it is no column to us.
create or replace function pgque.trigger_columns(
  i_relation oid,
  i_ignored text[],
  out names text[],
  out types oid[],
  out hidden boolean[],
  out key text[]
)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select
    coalesce(array_agg(a.attname::text order by a.attnum), '{}'),
    coalesce(array_agg(a.atttypid order by a.attnum), '{}'),
    coalesce(array_agg(a.attname = any (i_ignored) or starts_with(a.attname, '_pgq_ev_') order by a.attnum), '{}'),
    coalesce(
      array_agg(a.attname::text order by array_position(k.columns, a.attnum))
        filter (where a.attnum = any (k.columns)),
      '{}'
    )
  from pg_attribute as a
  left join (
    select i.indrelid, string_to_array(i.indkey::text, ' ')::smallint[] as columns
    from pg_index as i
    where i.indrelid = i_relation
      and i.indisprimary
  ) as k on k.indrelid = a.attrelid
  where a.attrelid = i_relation
    and a.attnum > 0
    and not a.attisdropped
    and a.attgenerated <> 'v';
$$;

-- The values of a row as their types print them. A cast to text would differ: it writes true for t, and trims char(n).
create or replace function pgque.row_values(i_row anyelement, i_names text[])
returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_values text[];
begin
  execute (
    select format(
      'select array[%s]::text[]',
      string_agg(
        format('case when ($1).%1$I is distinct from null then format(''%%s'', ($1).%1$I) end', u.name),
        ', ' order by u.place
      )
    )
    from unnest(i_names) with ordinality as u (name, place)
  ) into v_values using i_row;
  return v_values;
end;
$$;

-- An expression over the columns of a row, as text.
create or replace function pgque.row_expression(i_row anyelement, i_expression text)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_value text;
begin
  execute format('select (%s)::text from (select ($1).*) as r', i_expression) into v_value using i_row;
  return v_value;
end;
$$;

-- The triggers of a table that feed a queue. tgargs is text with a zero byte after each argument.
create or replace function pgque.change_triggers(i_table regclass, i_queue_name text)
returns setof name
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select t.tgname
  from pg_trigger as t
  join pg_proc as p on p.oid = t.tgfoid
  where t.tgrelid = i_table
    and not t.tgisinternal
    and p.pronamespace = 'pgque'::regnamespace
    and p.proname in ('jsontriga', 'logutriga', 'sqltriga')
    and starts_with(encode(t.tgargs, 'hex'), encode(convert_to(i_queue_name, getdatabaseencoding()), 'hex') || '00');
$$;
