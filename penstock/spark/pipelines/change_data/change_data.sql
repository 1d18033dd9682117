-- What the change data pipeline asks about tracked tables.

-- name: columns
-- A domain has the type below it; the innermost modifier counts.
with recursive typed as (
  select a.attname, a.attnum, a.atttypid as type, a.atttypmod as modifier
  from pg_catalog.pg_attribute as a
  join pg_catalog.pg_class as c on c.oid = a.attrelid
  join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
  where n.nspname = $1
    and c.relname = $2
    and a.attnum > 0
    and not a.attisdropped
    -- A virtual column is computed when it is read: no trigger is told its value.
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

-- name: tracked
-- Tables with a JSON trigger for their rows. Arguments come with a zero byte after each.
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

-- name: track
-- By the name that the pipeline shows, which quotes nothing. No row when there is no such table.
select pgque.track_table(c.oid::regclass, $2)
from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname || '.' || c.relname = $1;

-- name: make_stream
select pgque.create_queue($1);

-- name: lock_copy
select pg_try_advisory_xact_lock(penstock.claim_key($1));
