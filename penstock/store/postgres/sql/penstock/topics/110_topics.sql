-- Topics and subscriptions: making, changing and removing them. Every change raises the version of the tenant's routes.

create or replace function penstock.raise_version(p_tenant bigint)
returns bigint
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  insert into penstock.topic_versions as v (tenant_id, version)
  values (p_tenant, 1)
  on conflict (tenant_id) do update
  set version = v.version + 1
  returning v.version;
$$;

create or replace function penstock.find_topic(p_tenant bigint, p_topic text)
returns penstock.topics
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_topic penstock.topics;
begin
  select t.*
  into v_topic
  from penstock.topics as t
  where t.tenant_id = p_tenant
    and t.name = p_topic;
  if not found then
    raise exception using errcode = 'PS025', message = format('Topic ''%s'' does not exist', p_topic);
  end if;
  return v_topic;
end;
$$;

-- True when the topic is new.
create or replace function penstock.create_topic_row(
  p_tenant bigint,
  p_name text,
  p_attributes jsonb,
  p_tags jsonb,
  p_now timestamptz
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_name is null or p_name !~ '^[A-Za-z0-9_-]+(\.fifo)?$' or length(p_name) > 256 then
    raise exception using errcode = 'PS011',
      message = 'A topic name has 1 to 256 letters, digits, hyphens and underscores, and may end in .fifo.';
  end if;
  perform from penstock.topics as t where t.tenant_id = p_tenant and t.name = p_name;
  if found then
    return false;
  end if;
  insert into penstock.topics (tenant_id, name, attributes, tags, version, created_at)
  values (p_tenant, p_name, p_attributes, p_tags, penstock.raise_version(p_tenant), p_now)
  on conflict (tenant_id, name) do nothing;
  return found;
end;
$$;

-- A value of null removes its name.
create or replace function penstock.update_topic_row(p_tenant bigint, p_name text, p_attributes jsonb, p_tags jsonb)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_version bigint := penstock.raise_version(p_tenant);
begin
  update penstock.topics as t
  set attributes = jsonb_strip_nulls(t.attributes || p_attributes),
      tags = jsonb_strip_nulls(t.tags || p_tags),
      version = v_version
  where t.tenant_id = p_tenant
    and t.name = p_name;
  if not found then
    perform penstock.find_topic(p_tenant, p_name);
  end if;
end;
$$;

create or replace function penstock.drop_topic_row(p_tenant bigint, p_name text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_version bigint := penstock.raise_version(p_tenant);
  v_topic bigint;
begin
  select t.id
  into v_topic
  from penstock.topics as t
  where t.tenant_id = p_tenant
    and t.name = p_name
  for update;
  if not found then
    return false;
  end if;
  insert into penstock.route_removals (tenant_id, version, topic_id) values (p_tenant, v_version, v_topic);
  with gone as (
    delete from penstock.subscriptions as s
    where s.topic_id = v_topic
    returning s.id
  )
  insert into penstock.route_removals (tenant_id, version, subscription_id)
  select p_tenant, v_version, g.id
  from gone as g;
  delete from penstock.topic_dedup as d where d.topic_id = v_topic;
  delete from penstock.topics as t where t.id = v_topic;
  return true;
end;
$$;

-- The id of the subscription, and whether it is new.
create or replace function penstock.subscribe_row(
  p_tenant bigint,
  p_topic text,
  p_pattern text,
  p_protocol text,
  p_endpoint text,
  p_target text,
  p_target_tenant bigint,
  p_attributes jsonb,
  p_confirmed boolean,
  p_token text,
  p_owner text,
  p_secret text,
  p_now timestamptz,
  out subscription_key text,
  out created boolean
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  -- First of all, so that two who subscribe the same endpoint take turns.
  v_version bigint := penstock.raise_version(p_tenant);
  v_topic bigint := case when p_topic is not null then (penstock.find_topic(p_tenant, p_topic)).id end;
begin
  select s.key
  into subscription_key
  from penstock.subscriptions as s
  where s.tenant_id = p_tenant
    and s.topic_id is not distinct from v_topic
    and s.pattern is not distinct from p_pattern
    and s.protocol = p_protocol
    and s.endpoint = p_endpoint;
  created := not found;
  if created then
    insert into penstock.subscriptions as s (
      tenant_id, topic_id, pattern, first_segment, protocol, endpoint, target, target_tenant_id, attributes, confirmed,
      token_sha256, owner, secret, version, created_at
    )
    values (
      p_tenant, v_topic, p_pattern,
      case when split_part(p_pattern, '.', 1) not in ('*', '#') then split_part(p_pattern, '.', 1) end,
      p_protocol, p_endpoint, p_target, p_target_tenant, p_attributes, p_confirmed, p_token, p_owner, p_secret,
      v_version, p_now
    )
    returning s.key into subscription_key;
  elsif p_token is not null then
    update penstock.subscriptions as s
    set token_sha256 = p_token
    where s.key = subscription_key::uuid
      and not s.confirmed;
  end if;
end;
$$;

create or replace function penstock.update_subscription_row(p_tenant bigint, p_key uuid, p_attributes jsonb)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_version bigint := penstock.raise_version(p_tenant);
begin
  update penstock.subscriptions as s
  set attributes = jsonb_strip_nulls(s.attributes || p_attributes),
      version = v_version
  where s.tenant_id = p_tenant
    and s.key = p_key;
  return found;
end;
$$;

-- The subscription that this token confirms, or has confirmed; without a tenant the token alone decides.
create or replace function penstock.confirm_subscription_row(p_tenant bigint, p_token text)
returns setof penstock.subscriptions
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_found penstock.subscriptions;
begin
  select s.*
  into v_found
  from penstock.subscriptions as s
  where s.token_sha256 = p_token
    and s.tenant_id = coalesce(p_tenant, s.tenant_id);
  if found then
    return query
    update penstock.subscriptions as s
    set confirmed = true,
        version = penstock.raise_version(v_found.tenant_id)
    where s.id = v_found.id
    returning s.*;
  end if;
end;
$$;

-- The subscription that is no more.
create or replace function penstock.unsubscribe_row(p_tenant bigint, p_key uuid)
returns setof penstock.subscriptions
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_gone penstock.subscriptions;
  v_version bigint;
begin
  select s.*
  into v_gone
  from penstock.subscriptions as s
  where s.key = p_key
    and s.tenant_id = coalesce(p_tenant, s.tenant_id);
  if not found then
    return;
  end if;
  v_version := penstock.raise_version(v_gone.tenant_id);
  delete from penstock.subscriptions as s where s.id = v_gone.id;
  if not found then
    return;
  end if;
  insert into penstock.route_removals (tenant_id, version, subscription_id)
  values (v_gone.tenant_id, v_version, v_gone.id);
  update penstock.topics as t
  set subscriptions_deleted = t.subscriptions_deleted + 1
  where t.id = v_gone.topic_id;
  return next v_gone;
end;
$$;

-- Forget old deliveries, deduplication ids and removals, a bounded piece per call.
create or replace function penstock.sweep_topics(
  p_now timestamptz,
  p_delivered_before timestamptz,
  p_exhausted_before timestamptz,
  p_limit integer
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_removed integer;
  v_tenant bigint;
  v_version bigint;
begin
  if not pg_try_advisory_xact_lock(1885695604, 5) then
    return 0;
  end if;
  delete from penstock.deliveries as d
  where d.id = any (
    array(
      select e.id
      from penstock.deliveries as e
      where e.state = 2
        and e.finished_at < p_delivered_before
      limit p_limit
      for update skip locked
    )
    || array(
      select e.id
      from penstock.deliveries as e
      where e.state = 3
        and e.finished_at < p_exhausted_before
      limit p_limit
      for update skip locked
    )
  );
  get diagnostics v_removed = row_count;
  delete from penstock.topic_dedup as d
  where d.ctid = any (
    array(select e.ctid from penstock.topic_dedup as e where e.expires_at <= p_now limit p_limit for update skip locked)
  );
  for v_tenant, v_version in
    select r.tenant_id, max(r.version)
    from penstock.route_removals as r
    where r.removed_at < clock_timestamp() - interval '1 hour'
    group by r.tenant_id
  loop
    update penstock.topic_versions as v set forgotten = v_version where v.tenant_id = v_tenant;
    delete from penstock.route_removals as r where r.tenant_id = v_tenant and r.version <= v_version;
  end loop;
  return v_removed;
end;
$$;
