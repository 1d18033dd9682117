-- Batches of one queue, for SQL users. Deletes and archives do what finish_many does, without its work for many queues.
-- Functions here and in 100_api.sql that run large statements plan them like the server does: once per session.

-- Sends messages to any queue, and checks all arguments.
create or replace function penstock.send_checked(
  queue text,
  bodies text[],
  headers jsonb[],
  delay_s integer,
  priority integer,
  group_id text,
  dedup_ids text[],
  retention_s integer,
  is_json boolean
)
returns bigint[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_count integer := coalesce(cardinality(bodies), 0);
  v_sent record;
  v_code text;
begin
  if v_count = 0 then
    return '{}';
  end if;
  -- The functions below count positions from 1; arrays of users may begin elsewhere, or have more dimensions.
  if array_lower(bodies, 1) <> 1 or array_ndims(bodies) > 1 then
    bodies := array(select b from unnest(bodies) as b);
  end if;
  if array_lower(headers, 1) <> 1 or array_ndims(headers) > 1 then
    headers := array(select h from unnest(headers) as h);
  end if;
  if array_lower(dedup_ids, 1) <> 1 or array_ndims(dedup_ids) > 1 then
    dedup_ids := array(select d from unnest(dedup_ids) as d);
  end if;
  perform penstock.check_messages(bodies, array[delay_s], array[priority], array[group_id], dedup_ids);
  perform penstock.check_range('retention_s', retention_s, 60, 1209600);
  perform penstock.check_that('headers', cardinality(headers) = v_count, 'be one for each body');
  perform penstock.check_that('dedup_ids', cardinality(dedup_ids) = v_count, 'be one for each body');
  v_sent := penstock.send_many(
    array_fill(penstock.current_tenant(), array[v_count]),
    array_fill(queue, array[v_count]),
    bodies,
    case when is_json then array_fill(true, array[v_count]) end,
    case when delay_s is not null then array_fill(delay_s, array[v_count]) end,
    case when priority is not null then array_fill(priority, array[v_count]) end,
    case when group_id is not null then array_fill(group_id, array[v_count]) end,
    dedup_ids,
    null,
    case when retention_s is not null then array_fill(retention_s, array[v_count]) end,
    null,
    headers::text[],
    null,
    null,
    clock_timestamp()
  );
  if num_nonnulls(variadic v_sent.codes) > 0 then
    v_code := (select c from unnest(v_sent.codes) with ordinality as e (c, n) where c is not null order by n limit 1);
    perform penstock.raise_code(v_code, queue);
  end if;
  return v_sent.ids;
end;
$$;

-- Moves messages to the archive. Returns their ids.
create or replace function penstock.archive_tids(p_tenant bigint, p_queue text, p_tids tid[], p_now timestamptz)
returns bigint[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_done bigint[];
begin
  with gone as (
    delete from penstock.messages as m where m.ctid = any (p_tids) returning m.*
  ),
  kept as (
    insert into penstock.archive (
      id, tenant_id, queue, sent_at, first_received_at, archived_at, receives, priority, is_json, group_id, dedup_id,
      trace, attributes, headers, body
    )
    select
      g.id, p_tenant, p_queue, g.sent_at, g.first_received_at, p_now, g.receives, g.priority, g.is_json, g.group_id,
      g.dedup_id, g.trace, g.attributes, g.headers, g.body
    from gone as g
    returning id
  )
  select array_agg(k.id) into v_done from kept as k;
  return v_done;
end;
$$;

-- Deletes or archives messages. Returns the ids of those that were there, with a lease only if that delivery is the
-- latest.
create or replace function penstock.finish_batch(p_queue text, p_ids bigint[], p_leases bigint[], p_archive boolean)
returns bigint[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_tenant bigint := penstock.current_tenant();
  v_now timestamptz := clock_timestamp();
  v_queue record;
  v_tids tid[];
  v_done bigint[] := '{}';
begin
  perform penstock.check_that('leases', cardinality(p_leases) = cardinality(p_ids), 'be one for each id');
  select q.bin_id, q.fifo, q.archive or p_archive as archive
  into v_queue
  from penstock.queues as q
  where q.tenant_id = v_tenant
    and q.name = p_queue;
  if not found then
    perform penstock.find_queue(v_tenant, p_queue);
  end if;
  if not v_queue.fifo then
    v_tids := array(
      -- hot: finish
      select n.ctid
      from unnest(p_ids, p_leases) as e (id, lease)
      cross join lateral (
        -- By its key. The limit keeps the planner from a join that reads the whole queue.
        select m.ctid
        from penstock.messages as m
        where m.bin_id = v_queue.bin_id
          and m.id = e.id
          and (e.lease is null or m.lease = e.lease)
        limit 1
      ) as n
      -- end
    );
    if v_queue.archive then
      v_done := penstock.archive_tids(v_tenant, p_queue, v_tids, v_now);
    else
      with gone as (
        delete from penstock.messages as m where m.ctid = any (v_tids) returning m.id
      )
      select array_agg(g.id) into v_done from gone as g;
    end if;
  end if;
  v_done := coalesce(v_done, '{}');
  if cardinality(v_done) > 0 then
    insert into penstock.bin_changes (bin_id, departed) values (v_queue.bin_id, cardinality(v_done));
  end if;
  if cardinality(v_done) < cardinality(p_ids) then
    v_done := v_done || penstock.finish_others(v_tenant, p_queue, p_ids, p_leases, v_done, p_archive, v_now);
  end if;
  return v_done;
end;
$$;

-- Finishes the messages that are not yet done: those of FIFO queues, and those that another session changed meanwhile.
create or replace function penstock.finish_others(
  p_tenant bigint,
  p_queue text,
  p_ids bigint[],
  p_leases bigint[],
  p_done bigint[],
  p_archive boolean,
  p_now timestamptz
)
returns bigint[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer;
  v_ids bigint[];
  v_leases bigint[];
  v_answers text[];
begin
  -- Of equal ids the first counts.
  select array_agg(e.id order by e.position), array_agg(e.lease order by e.position), count(*)
  into v_ids, v_leases, v_count
  from (
    select distinct on (d.id) d.id, d.lease, d.position
    from unnest(p_ids, p_leases) with ordinality as d (id, lease, position)
    where d.id <> all (p_done)
    order by d.id, d.position
  ) as e;
  if v_count = 0 then
    return '{}';
  end if;
  v_answers := penstock.finish_many(
    array_fill(p_tenant, array[v_count]), array_fill(p_queue, array[v_count]), v_ids, v_leases, p_archive, p_now
  );
  return array(
    select e.id
    from unnest(v_ids, v_answers) with ordinality as e (id, answer, position)
    where e.answer = 'done'
    order by e.position
  );
end;
$$;
