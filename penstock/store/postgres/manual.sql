-- What the reference of the SQL functions is made from.

-- name: functions
select
  n.nspname as schema,
  p.proname as name,
  pg_get_function_arguments(p.oid) as arguments,
  pg_get_function_result(p.oid) as result,
  obj_description(p.oid, 'pg_proc') as comment,
  case
    when has_function_privilege(n.nspname || '_reader', p.oid, 'execute') then 'reader'
    when has_function_privilege(n.nspname || '_writer', p.oid, 'execute') then 'writer'
    else 'admin'
  end as role
from pg_proc as p
join pg_namespace as n on n.oid = p.pronamespace
where n.nspname in ('penstock', 'pgque')
  and obj_description(p.oid, 'pg_proc') is not null
order by n.nspname, p.proname collate "C", p.pronargs, pg_get_function_arguments(p.oid) collate "C";
