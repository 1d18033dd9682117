-- Queries about tracked tables.

-- name: columns
-- A domain has its base type; the innermost modifier applies.
with recursive typed as (
  select a.attname, a.attnum, a.atttypid as type, a.atttypmod as modifier
  from pg_catalog.pg_attribute as a
  join pg_catalog.pg_class as c on c.oid = a.attrelid
  join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
  where n.nspname = $1
    and c.relname = $2
    and a.attnum > 0
    and not a.attisdropped
    -- A virtual column is computed when it is read: triggers do not get its value.
    and a.attgenerated <> 'v'
  union all
  select y.attname, y.attnum, t.typbasetype, case when y.modifier >= 0 then y.modifier else t.typtypmod end
  from typed as y
  join pg_catalog.pg_type as t on t.oid = y.type
  where t.typtype = 'd'
)
select
  y.attname::text,
  case when t.typnamespace = 'pg_catalog'::regnamespace then t.typname::text else '' end,
  y.modifier
from typed as y
join pg_catalog.pg_type as t on t.oid = y.type
where t.typtype <> 'd'
order by y.attnum;

-- name: defaults
-- Columns with a default. A constant default of a column that was added later is the value of all rows that were there
-- before; PostgreSQL keeps it in the catalog until it rewrites the table. Null for other defaults.
select a.attname::text, case when a.atthasmissing then (a.attmissingval::text::text[])[1] end
from pg_catalog.pg_attribute as a
join pg_catalog.pg_class as c on c.oid = a.attrelid
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname = $1
  and c.relname = $2
  and a.attnum > 0
  and not a.attisdropped
  and (a.atthasmissing or a.atthasdef);

-- name: tracked
-- Tables with a JSON row trigger. Each argument is followed by a zero byte.
select n.nspname::text, c.relname::text, t.tgargs, c.relkind::text
from pg_catalog.pg_trigger as t
join pg_catalog.pg_proc as p on p.oid = t.tgfoid
join pg_catalog.pg_class as c on c.oid = t.tgrelid
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where p.pronamespace = 'pgque'::regnamespace
  and p.proname = 'jsontriga'
  and not t.tgisinternal
  -- For each row, and not disabled.
  and t.tgtype::integer & 1 = 1
  and t.tgenabled <> 'D'
order by n.nspname, c.relname;

-- name: key
select a.attname::text
from pg_catalog.pg_index as i
cross join lateral unnest(i.indkey) with ordinality as k (number, place)
join pg_catalog.pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.number
where i.indrelid = pg_catalog.format('%I.%I', $1::text, $2::text)::regclass
  and i.indisprimary
order by k.place;

-- name: pages
select (pg_catalog.pg_relation_size(c.oid) / pg_catalog.current_setting('block_size')::bigint)::bigint
from pg_catalog.pg_class as c
where c.oid = pg_catalog.format('%I.%I', $1::text, $2::text)::regclass;

-- name: has_table
select true
from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname || '.' || c.relname = $1;

-- name: track
-- By the name without quotes, as the pipeline shows it. No row when there is no such table.
select pgque.track_table(c.oid::regclass, $2)
from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname || '.' || c.relname = $1;

-- name: make_stream
select pgque.create_queue($1);

-- name: lock_copy
select pg_try_advisory_xact_lock(penstock.claim_key($1));

-- name: export_snapshot
-- Its name for other sessions, what it sees, and its moment in microseconds since 1970.
select pg_export_snapshot(), pg_current_snapshot()::text,
  (extract(epoch from clock_timestamp()) * 1000000)::bigint;

-- name: text_settings
-- Values get the same text as the change trigger gives them.
select
  set_config('datestyle', 'ISO, YMD', false),
  set_config('intervalstyle', 'postgres', false),
  set_config('bytea_output', 'hex', false),
  set_config('extra_float_digits', '1', false),
  set_config('timezone', 'UTC', false),
  set_config('search_path', 'pg_catalog, pg_temp', false);
