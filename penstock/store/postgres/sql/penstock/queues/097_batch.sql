-- Batches of one queue, for SQL users. Deletes and archives do what finish_many does, without its work for many queues.

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
  if priority is not null then
    -- The messages may come before those that a receive of this session starts at.
    perform set_config('penstock.receive_hint', '', false);
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

-- Remembers for this session where the ready messages of a queue start, when it takes long to find out: a long transaction
-- elsewhere keeps vacuum from removing dead ones, and every receive walks over them. As on a node, such walks may take one
-- part in twenty of the time, and a hint only decides where to look first. It consists of the bin, the place, and, in
-- microseconds since 1970, the time up to which hidden messages were released and the time at which it ends.
create or replace function penstock.remember_start(p_bin bigint, p_now timestamptz)
returns void
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
  v_began timestamptz;
  v_place bigint;
begin
  -- The second time counts: the first may have waited for a plan, or for the disk.
  for v_time in 1 .. 2 loop
    v_began := clock_timestamp();
    -- hot: start
    select m.place
    into v_place
    from penstock.messages as m
    where m.bin_id = p_bin
      and m.state = 0
    order by m.place
    limit 1;
    -- end
  end loop;
  if clock_timestamp() < v_began + interval '1 ms'
    or not exists (select from penstock.queues as q where q.bin_id = p_bin and not q.fifo and not q.lifo)
  then
    return;
  end if;
  -- In a queue that is empty now, messages of the usual priority will start behind the last id.
  v_place := coalesce(v_place, penstock.place_of(100, pg_sequence_last_value('penstock.message_ids'), false));
  perform set_config(
    'penstock.receive_hint',
    array[
      p_bin, v_place, penstock.next_lease(0, p_now),
      penstock.next_lease(0, clock_timestamp() + 20 * (clock_timestamp() - p_now))
    ]::text,
    false
  );
end;
$$;

-- The hint of this session for a bin, null if there is none. Forgets one that has ended.
create or replace function penstock.recall_start(p_bin bigint, p_now timestamptz)
returns bigint[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_hint bigint[] := nullif(current_setting('penstock.receive_hint', true), '')::bigint[];
begin
  if v_hint[4] <= penstock.next_lease(0, p_now) then
    perform set_config('penstock.receive_hint', '', false);
    return null;
  end if;
  return case when v_hint[1] = p_bin then v_hint end;
end;
$$;

-- Receives from any queue, and checks all arguments.
create or replace function penstock.receive_from_any(queue text, timeout_s integer, max_messages integer, now timestamptz)
returns table (
  id bigint, lease bigint, body text, headers jsonb, attributes jsonb, receives integer, priority smallint, group_id text,
  sent_at timestamptz, visible_at timestamptz
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_tenant bigint := penstock.current_tenant();
  v_bin bigint;
  v_hint bigint[];
begin
  perform penstock.check_range('visibility_timeout_s', receive_from_any.timeout_s, 0, 43200);
  perform penstock.check_range('max_messages', receive_from_any.max_messages, 1, 1000);
  v_bin := (penstock.find_queue(v_tenant, receive_from_any.queue)).bin_id;
  v_hint := penstock.recall_start(v_bin, receive_from_any.now);
  return query
  select
    r.id, r.lease, r.body, r.headers::jsonb, r.attributes::jsonb, r.receives, r.priority, r.group_id, r.sent_at,
    r.visible_at
  from penstock.receive_many(
    array[v_tenant], array[receive_from_any.queue], array[receive_from_any.max_messages],
    array[receive_from_any.timeout_s], null, null, null, array[v_hint[2]],
    array[timestamptz 'epoch' + v_hint[3] * interval '1 microsecond'], receive_from_any.now
  ) as r
  where r.id is not null;
  if found and v_hint is null and clock_timestamp() > receive_from_any.now + interval '2 ms' then
    perform penstock.remember_start(v_bin, receive_from_any.now);
  end if;
end;
$$;

drop function if exists penstock.archive_tids(bigint, text, tid[], timestamptz);

-- Moves messages of a standard queue to the archive. Returns their ids, null if there are none.
create or replace function penstock.archive_these(
  p_tenant bigint, p_queue text, p_bin bigint, p_ids bigint[], p_leases bigint[], p_now timestamptz
)
returns bigint[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_done bigint[];
begin
  -- hot: archive
  with gone as (
    delete from penstock.messages as m
    where m.ctid = any (
      array(
        select n.ctid
        from unnest(p_ids, p_leases) as e (id, lease)
        cross join lateral (
          select o.ctid
          from penstock.messages as o
          where o.bin_id = p_bin
            and o.id = e.id
            and (e.lease is null or o.lease = e.lease)
          limit 1
        ) as n
      )
    )
    returning m.*
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
  select array_agg(k.id)
  into v_done
  from kept as k;
  -- end
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
as $$
declare
  v_tenant bigint := 1;
  v_now timestamptz := clock_timestamp();
  v_bin bigint;
  v_archive boolean;
  v_done bigint[];
begin
  if coalesce(current_setting('penstock.tenant', true), '') <> '' then
    v_tenant := penstock.current_tenant();
  end if;
  if cardinality(p_leases) <> cardinality(p_ids) then
    perform penstock.check_that('leases', false, 'be one for each id');
  end if;
  select q.bin_id, q.archive or p_archive
  into v_bin, v_archive
  from penstock.queues as q
  where q.tenant_id = v_tenant
    and q.name = p_queue
    and not q.fifo;
  if v_bin is null then
    perform penstock.find_queue(v_tenant, p_queue);
  elsif v_archive then
    v_done := penstock.archive_these(v_tenant, p_queue, v_bin, p_ids, p_leases, v_now);
  else
    -- hot: finish
    with gone as (
      delete from penstock.messages as m
      where m.ctid = any (
        array(
          -- Looks up each message by its key. The limit keeps the planner from a join that reads the whole queue.
          select n.ctid
          from unnest(p_ids, p_leases) as e (id, lease)
          cross join lateral (
            select o.ctid
            from penstock.messages as o
            where o.bin_id = v_bin
              and o.id = e.id
              and (e.lease is null or o.lease = e.lease)
            limit 1
          ) as n
        )
      )
      returning m.id
    )
    select array_agg(g.id)
    into v_done
    from gone as g;
    -- end
  end if;
  if v_done is null then
    v_done := '{}';
  else
    insert into penstock.bin_changes (bin_id, departed) values (v_bin, cardinality(v_done));
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
