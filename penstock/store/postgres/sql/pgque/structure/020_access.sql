-- Access to queues. Every role that may call the functions may use a queue, until a right to it is granted. From then
-- on only the roles with a grant may use it, and administrators.

create or replace function pgque.caller()
returns name
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  -- In a security definer function, current_user is the owner. The setting still has the role that SET ROLE chose.
  select case current_setting('role') when 'none' then session_user else current_setting('role')::name end
$$;

create or replace function pgque.check_access(i_queue_id integer, i_right text)
returns void
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_caller name := pgque.caller();
begin
  if v_caller = current_user
    or (select r.rolsuper from pg_roles as r where r.rolname = v_caller)
    or (select true
        from pgque.queue_grant as g
        join pg_roles as r on r.rolname = g.grantee
        where g.queue_id = i_queue_id
          and g.queue_right = i_right
          and pg_has_role(v_caller, r.oid, 'member')
        limit 1)
    or (select pg_has_role(v_caller, r.oid, 'member') from pg_roles as r where r.rolname = 'pgque_admin')
  then
    return;
  end if;
  raise exception 'permission denied: role % may not % on this queue', v_caller, i_right using errcode = '42501';
end;
$$;

create or replace function pgque.grant_queue(i_queue_name text, i_role name, i_right text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer := pgque.queue_id(i_queue_name);
begin
  if not (select true from pg_roles as r where r.rolname = i_role) is true then
    raise exception 'role % does not exist', i_role using errcode = '42704';
  end if;
  update pgque.queue as q set queue_restricted = true where q.queue_id = v_queue and not q.queue_restricted;
  insert into pgque.queue_grant (queue_id, grantee, queue_right)
  values (v_queue, i_role, i_right)
  on conflict do nothing;
end;
$$;

create or replace function pgque.revoke_queue(i_queue_name text, i_role name, i_right text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer := pgque.queue_id(i_queue_name);
begin
  -- The queue stays restricted when its last grant is revoked: revoking must not give access to other roles.
  delete from pgque.queue_grant as g
  where g.queue_id = v_queue
    and g.grantee = i_role
    and g.queue_right = i_right;
end;
$$;

create or replace function pgque.open_queue(i_queue_name text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer := pgque.queue_id(i_queue_name);
begin
  delete from pgque.queue_grant as g where g.queue_id = v_queue;
  update pgque.queue as q set queue_restricted = false where q.queue_id = v_queue;
end;
$$;

create or replace function pgque.queue_id(i_queue_name text)
returns integer
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_id integer;
begin
  select q.queue_id into v_id from pgque.queue as q where q.queue_name = i_queue_name;
  if v_id is null then
    raise exception 'queue not found: %', i_queue_name using errcode = 'PS029';
  end if;
  return v_id;
end;
$$;

create or replace function pgque.check_consume(i_queue_name text)
returns integer
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue;
begin
  select * into v_queue from pgque.queue as q where q.queue_name = i_queue_name;
  if v_queue.queue_id is null then
    raise exception 'queue not found: %', i_queue_name using errcode = 'PS029';
  elsif v_queue.queue_restricted then
    perform pgque.check_access(v_queue.queue_id, 'consume');
  end if;
  return v_queue.queue_id;
end;
$$;
