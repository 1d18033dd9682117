-- Names, storage and privileges of the tables of a queue: functions that scripts written for PgQ call.

-- Quotes a name. The first dot separates the schema, which is public when there is no dot.
create or replace function pgque.quote_fqname(i_name text)
returns text
language sql
immutable
strict
set search_path = pg_catalog, pg_temp
as $$
  select case position('.' in i_name)
    when 0 then 'public.' || quote_ident(i_name)
    else quote_ident(split_part(i_name, '.', 1)) || '.' || quote_ident(substr(i_name, position('.' in i_name) + 1))
  end
$$;

-- Sets the storage parameters of the event tables: full pages, and no autovacuum. 1, or 0 when there is no such queue.
-- A new queue has them already.
create or replace function pgque.tune_storage(i_queue_name text)
returns integer
language plpgsql
strict
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue;
begin
  select * into v_queue from pgque.queue as q where q.queue_name = i_queue_name;
  if v_queue.queue_id is null then
    return 0;
  end if;
  for v_number in 0 .. v_queue.queue_ntables - 1 loop
    execute format(
      'alter table %s set (fillfactor = 100, autovacuum_enabled = off, toast.autovacuum_enabled = off)',
      pgque.event_table(v_queue.queue_id, v_number)
    );
  end loop;
  return 1;
end;
$$;

-- Gives the event tables of the queue the privileges of pgque.event_template, makes its sequences readable and lets
-- administrators draw event ids; 1. Nothing calls this: without it, streams are used through functions only.
create or replace function pgque.grant_perms(x_queue_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue;
  v_grant record;
begin
  select * into v_queue from pgque.queue as q where q.queue_name = x_queue_name;
  if v_queue.queue_id is null then
    raise exception 'queue not found: %', x_queue_name using errcode = 'PS029';
  end if;
  execute format('grant select on sequence %s, %s to public', v_queue.queue_tick_seq, v_queue.queue_event_seq);
  execute format('grant usage on sequence %s to pgque_admin', v_queue.queue_event_seq);
  for v_grant in
    select
      a.privilege_type as privilege,
      case a.grantee when 0 then 'public' else a.grantee::regrole::text end as grantee,
      case when a.is_grantable then ' with grant option' else '' end as option
    from pg_class as c
    cross join lateral aclexplode(c.relacl) as a
    where c.oid = 'pgque.event_template'::regclass
      and a.grantee <> c.relowner
  loop
    execute format(
      'grant %s on pgque.%I to %s%s',
      v_grant.privilege, 'event_' || v_queue.queue_id, v_grant.grantee, v_grant.option
    );
    for v_number in 0 .. v_queue.queue_ntables - 1 loop
      execute format(
        'grant %s on %s to %s%s',
        v_grant.privilege, pgque.event_table(v_queue.queue_id, v_number), v_grant.grantee, v_grant.option
      );
    end loop;
  end loop;
  return 1;
end;
$$;
