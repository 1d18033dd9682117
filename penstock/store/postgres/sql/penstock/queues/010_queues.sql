-- Queues: looking them up, making, changing, counting and dropping them.

-- The visibility timeout of queues that have none of their own. The server sets it on its connections; a SQL user may
-- set it for a session, a role or a database.
create or replace function penstock.default_visibility_timeout_s()
returns integer
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(nullif(current_setting('penstock.default_visibility_timeout_s', true), '')::integer, 30);
$$;

-- The queue as the server reads it: the dead-letter queue by its name, and the visibility timeout that applies.
drop view if exists penstock.queue_list;
create view penstock.queue_list as
select
  q.*,
  d.name as dead_letter_queue,
  coalesce(q.visibility_timeout_s, penstock.default_visibility_timeout_s()) as applied_visibility_timeout_s
from penstock.queues as q
left join penstock.queues as d on d.id = q.dead_letter_queue_id;

create or replace function penstock.current_tenant()
returns bigint
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name text := current_setting('penstock.tenant', true);
  v_id bigint := 1;
begin
  if v_name <> '' then
    select t.id into v_id from penstock.tenants as t where t.name = v_name;
    if not found then
      raise exception using errcode = 'PS020', message = format('Tenant ''%s'' does not exist', v_name);
    end if;
  end if;
  return v_id;
end;
$$;

create or replace function penstock.find_queue(p_tenant bigint, p_queue text)
returns penstock.queues
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue penstock.queues;
begin
  select q.*
  into v_queue
  from penstock.queues as q
  where q.tenant_id = p_tenant
    and q.name = p_queue;
  if not found then
    raise exception using errcode = 'PS021', message = format('Queue ''%s'' does not exist', p_queue);
  end if;
  return v_queue;
end;
$$;

-- Messages present in a bin, from the counters.
create or replace function penstock.bin_total(p_bin bigint)
returns bigint
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    coalesce((select c.arrived - c.departed from penstock.bin_counts as c where c.bin_id = p_bin), 0)
    + coalesce((select sum(d.arrived - d.departed) from penstock.bin_changes as d where d.bin_id = p_bin), 0)::bigint;
$$;

create or replace function penstock.create_queue_row(
  p_tenant bigint,
  p_name text,
  p_settings jsonb,
  p_now timestamptz
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_name is null or p_name !~ '^[A-Za-z0-9_-]+(\.fifo)?$' or length(p_name) > 80 then
    raise exception using errcode = 'PS011',
      message = 'A queue name has 1 to 80 letters, digits, hyphens and underscores, and may end in .fifo.';
  end if;
  insert into penstock.queues (tenant_id, name, created_at, updated_at)
  values (p_tenant, p_name, p_now, p_now)
  on conflict (tenant_id, name) do nothing;
  if not found then
    return false;
  end if;
  perform penstock.update_queue_row(p_tenant, p_name, p_settings, p_now);
  return true;
end;
$$;

-- A queue that its first use creates: it numbers its messages from 1 on.
create or replace function penstock.create_implicit_queue_row(
  p_tenant bigint,
  p_name text,
  p_settings jsonb,
  p_now timestamptz
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id bigint;
begin
  if not penstock.create_queue_row(p_tenant, p_name, p_settings, p_now) then
    return false;
  end if;
  update penstock.queues as q
  set implicit = true
  where q.tenant_id = p_tenant
    and q.name = p_name
  returning q.id into v_queue_id;
  insert into penstock.queue_sequences (queue_id, last) values (v_queue_id, 0);
  return true;
end;
$$;

-- Only the settings that are keys of p_settings change.
create or replace function penstock.update_queue_row(
  p_tenant bigint,
  p_name text,
  p_settings jsonb,
  p_now timestamptz
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue penstock.queues := penstock.find_queue(p_tenant, p_name);
  v_unknown text;
  v_missing text;
begin
  -- Wait for concurrent changes of other settings, and keep them.
  select q.* into v_queue from penstock.queues as q where q.id = v_queue.id for update;
  if jsonb_typeof(p_settings) <> 'object' then
    raise exception using errcode = 'PS010', message = 'settings must be an object', detail = 'settings';
  end if;
  select k
  into v_unknown
  from jsonb_object_keys(p_settings) as k
  where k not in (
    'visibility_timeout_s', 'delay_s', 'retention_s', 'receive_wait_s', 'max_message_bytes', 'max_length',
    'max_receives', 'dead_letter_queue', 'lifo', 'archive', 'content_dedup', 'dedup_window_s', 'dedup_scope',
    'throughput_limit', 'tags', 'labels'
  )
  limit 1;
  if v_unknown is not null then
    raise exception using errcode = 'PS010', message = format('unknown setting %s', v_unknown), detail = v_unknown;
  end if;
  select s.key
  into v_missing
  from jsonb_each(p_settings) as s
  where s.value = 'null'
    and s.key not in ('max_length', 'max_receives', 'dead_letter_queue')
  limit 1;
  if v_missing is not null then
    raise exception using errcode = 'PS010', message = format('%s must not be null', v_missing), detail = v_missing;
  end if;
  if p_settings ? 'dead_letter_queue' then
    v_queue.dead_letter_queue_id := case
      when p_settings ->> 'dead_letter_queue' is not null
      then (penstock.find_queue(p_tenant, p_settings ->> 'dead_letter_queue')).id
    end;
  end if;
  begin
    v_queue := jsonb_populate_record(v_queue, p_settings - 'dead_letter_queue');
  exception
    when data_exception then
      raise exception using errcode = 'PS010', message = sqlerrm, detail = 'settings';
  end;
  perform penstock.check_settings(v_queue);
  update penstock.queues as q
  set visibility_timeout_s = v_queue.visibility_timeout_s,
      delay_s = v_queue.delay_s,
      retention_s = v_queue.retention_s,
      receive_wait_s = v_queue.receive_wait_s,
      max_message_bytes = v_queue.max_message_bytes,
      max_length = v_queue.max_length,
      max_receives = v_queue.max_receives,
      dead_letter_queue_id = v_queue.dead_letter_queue_id,
      lifo = v_queue.lifo,
      archive = v_queue.archive,
      content_dedup = v_queue.content_dedup,
      dedup_window_s = v_queue.dedup_window_s,
      dedup_scope = v_queue.dedup_scope,
      throughput_limit = v_queue.throughput_limit,
      tags = v_queue.tags,
      labels = v_queue.labels,
      updated_at = p_now
  where q.id = v_queue.id;
end;
$$;

-- SQL users pass no engine, so the bounds of penstock/limits.py are kept here too; a test compares them.
create or replace function penstock.check_settings(p_queue penstock.queues)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.check_range('visibility_timeout_s', p_queue.visibility_timeout_s, 0, 43200);
  perform penstock.check_range('delay_s', p_queue.delay_s, 0, 43200);
  perform penstock.check_range('retention_s', p_queue.retention_s, 60, 1209600);
  perform penstock.check_range('receive_wait_s', p_queue.receive_wait_s, 0, 20);
  perform penstock.check_range('max_message_bytes', p_queue.max_message_bytes, 1, 10485760);
  perform penstock.check_range('max_length', p_queue.max_length, 1, 1000000000);
  perform penstock.check_range('max_receives', p_queue.max_receives, 1, 1000);
  perform penstock.check_range('dedup_window_s', p_queue.dedup_window_s, 1, 43200);
  perform penstock.check_that('dedup_scope', p_queue.dedup_scope in ('queue', 'group'), 'be queue or group');
  perform penstock.check_that('throughput_limit', p_queue.throughput_limit in ('queue', 'group'), 'be queue or group');
  perform penstock.check_that('tags', jsonb_typeof(p_queue.tags) = 'object', 'be an object');
  perform penstock.check_that('labels', jsonb_typeof(p_queue.labels) = 'object', 'be an object');
end;
$$;

create or replace function penstock.drop_queue_row(p_tenant bigint, p_name text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bin bigint;
begin
  delete from penstock.queues as q
  where q.tenant_id = p_tenant
    and q.name = p_name
  returning q.bin_id into v_bin;
  if not found then
    return false;
  end if;
  insert into penstock.abandoned_bins (bin_id) values (v_bin);
  return true;
end;
$$;

create or replace function penstock.purge_queue_row(p_tenant bigint, p_name text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_old bigint;
  v_new bigint := nextval('penstock.bin_ids');
  v_total bigint;
begin
  select q.bin_id
  into v_old
  from penstock.queues as q
  where q.tenant_id = p_tenant
    and q.name = p_name
  for update;
  if not found then
    raise exception using errcode = 'PS021', message = format('Queue ''%s'' does not exist', p_name);
  end if;
  v_total := penstock.bin_total(v_old);
  -- The new bin starts with the old one's arrivals, so that "ever sent" survives the purge.
  insert into penstock.bin_counts (bin_id, arrived, departed)
  select v_new, s.arrived, s.arrived
  from (
    select coalesce(sum(c.arrived), 0) as arrived
    from (
      select b.arrived from penstock.bin_counts as b where b.bin_id = v_old
      union all
      select d.arrived from penstock.bin_changes as d where d.bin_id = v_old
    ) as c
  ) as s;
  update penstock.queues as q
  set bin_id = v_new
  where q.tenant_id = p_tenant
    and q.name = p_name;
  insert into penstock.abandoned_bins (bin_id) values (v_old);
  return v_total;
end;
$$;

-- p_tenant null: every tenant's; p_names null: every queue's. Costs the hidden messages, not the waiting ones.
create or replace function penstock.count_queues(p_tenant bigint, p_names text[], p_now timestamptz)
returns table (
  tenant_id bigint,
  queue text,
  visible bigint,
  in_flight bigint,
  delayed bigint,
  sent bigint,
  oldest_sent_at timestamptz,
  newest_sent_at timestamptz
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    q.tenant_id,
    q.name,
    greatest(c.total - h.in_flight - h.delayed - b.delayed, 0),
    h.in_flight,
    h.delayed + b.delayed,
    c.arrived,
    (
      select m.sent_at
      from penstock.messages as m
      where m.bin_id = q.bin_id
      order by m.id
      limit 1
    ),
    (
      select m.sent_at
      from penstock.messages as m
      where m.bin_id = q.bin_id
      order by m.id desc
      limit 1
    )
  from penstock.queues as q
  cross join lateral (
    select
      coalesce(sum(n.arrived), 0)::bigint as arrived,
      coalesce(sum(n.arrived - n.departed), 0)::bigint as total
    from (
      select b.arrived, b.departed from penstock.bin_counts as b where b.bin_id = q.bin_id
      union all
      select d.arrived, d.departed from penstock.bin_changes as d where d.bin_id = q.bin_id
    ) as n
  ) as c
  cross join lateral (
    select
      count(*) filter (where m.state = 1) as in_flight,
      count(*) filter (where m.state = 2) as delayed
    from penstock.messages as m
    where m.bin_id = q.bin_id
      and m.state in (1, 2)
      and m.visible_at > p_now
  ) as h
  cross join lateral (
    select count(*) as delayed
    from penstock.messages as m
    where q.fifo
      and m.bin_id = q.bin_id
      and m.state = 3
      and m.visible_at > m.sent_at
      and m.visible_at > p_now
  ) as b
  where (p_tenant is null or q.tenant_id = p_tenant)
    and (p_names is null or q.name = any (p_names))
  order by q.tenant_id, q.name;
$$;
