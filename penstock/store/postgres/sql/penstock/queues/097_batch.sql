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

drop function if exists penstock.remember_start(bigint, timestamptz);
drop function if exists penstock.recall_start(bigint, timestamptz);

-- Remembers for this session where a look at a queue may start, when a look at everything takes long: a long transaction
-- elsewhere keeps vacuum from removing dead entries, and every receive walks over them. Looks at everything may then take
-- one part in twenty of the time. After one that found nothing, no look goes below the start for that long, but for at most
-- a second.
--
-- Where messages began at one look becomes the start at a look 20 ms later, so that those committed late are not passed
-- over. The hint consists of the bin, the start, and as microseconds since 1970 the time before which no hidden message
-- is due, the time until which nothing is looked for below the start, and the time at which the hint ends; then of where
-- messages began, and when that was.
create or replace function penstock.remember_start(
  p_hint bigint[], p_queue text, p_start bigint, p_since timestamptz, p_walked bigint, p_found boolean, p_now timestamptz
)
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
  v_now bigint := penstock.next_lease(0, p_now);
  v_queue penstock.queues := penstock.find_queue(penstock.current_tenant(), p_queue);
  v_bin bigint := v_queue.bin_id;
  v_first bigint;
  v_is_due boolean := false;
  v_time bigint;
begin
  if v_queue.fifo or v_queue.lifo or (p_start = 0 and not penstock.was_long(p_walked)) then
    perform set_config('penstock.receive_hint', '', false);
    return;
  end if;
  if p_found then
    -- hot: start
    select m.place
    into v_first
    from penstock.messages as m
    where m.bin_id = v_bin
      and m.state = 0
      and m.place >= p_start
    order by m.place
    limit 1;
    -- end
    v_is_due := exists (
      select from penstock.messages as m
      where m.bin_id = v_bin and m.state in (1, 2) and m.visible_at >= p_since and m.visible_at <= p_now
    );
  end if;
  v_first := coalesce(v_first, penstock.end_place(v_queue));
  v_time := penstock.next_lease(0, clock_timestamp());
  if p_hint is null then
    p_hint := array[v_bin, 0, 0, 0, 0, v_first, v_time];
  end if;
  if p_start = 0 then
    p_hint[5] := v_time + 20 * (v_time - v_now);
    p_hint[4] := case when p_found then 0 else least(v_time + 1000000, p_hint[5]) end;
  end if;
  if p_hint[7] + 20000 <= v_now then
    p_hint[2:3] := array[p_hint[6], case when v_is_due then p_hint[3] else p_hint[7] end];
    p_hint[6:7] := array[v_first, v_time];
  end if;
  if v_is_due and p_start = 0 then
    p_hint[3] := 0;
  end if;
  p_hint[2] := least(p_hint[2], v_first);
  p_hint[6] := least(p_hint[6], v_first);
  perform set_config('penstock.receive_hint', p_hint::text, false);
end;
$$;

-- Where a receive may start, by the hint of the session: everywhere when that has ended.
create or replace function penstock.hint_start(p_hint bigint[], p_now timestamptz)
returns bigint
language sql
immutable
begin atomic
  select case when p_hint[5] > penstock.next_lease(0, p_now) then p_hint[2] else 0 end;
end;

create or replace function penstock.hint_since(p_hint bigint[], p_now timestamptz)
returns timestamptz
language sql
immutable
begin atomic
  select case
    when p_hint[5] > penstock.next_lease(0, p_now) then timestamptz 'epoch' + p_hint[3] * interval '1 microsecond'
    else '-infinity'
  end;
end;

-- Whether a receive that began at p_now has something to remember.
create or replace function penstock.saw_start(p_hint bigint[], p_due boolean, p_walked bigint, p_now timestamptz)
returns boolean
language sql
stable
begin atomic
  select case
    when p_hint is not null then p_due or least(p_hint[5], p_hint[7] + 20000) <= penstock.next_lease(0, p_now)
    else clock_timestamp() > p_now + interval '1 ms' and penstock.was_long(p_walked)
  end;
end;

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
  v_hint bigint[] := nullif(current_setting('penstock.receive_hint', true), '')::bigint[];
  v_now bigint := penstock.next_lease(0, receive_from_any.now);
  v_start bigint := 0;
  v_since timestamptz := '-infinity';
  v_floor bigint;
  v_walked bigint := penstock.entries_walked();
begin
  perform penstock.check_range('visibility_timeout_s', receive_from_any.timeout_s, 0, 43200);
  perform penstock.check_range('max_messages', receive_from_any.max_messages, 1, 1000);
  v_bin := (penstock.find_queue(v_tenant, receive_from_any.queue)).bin_id;
  if v_hint[1] <> v_bin then
    if v_hint[5] <= v_now then
      perform set_config('penstock.receive_hint', '', false);
    end if;
    v_hint := null;
  elsif v_hint[5] > v_now then
    v_start := v_hint[2];
    v_since := timestamptz 'epoch' + v_hint[3] * interval '1 microsecond';
    v_floor := case when v_hint[4] > v_now then v_start end;
  end if;
  return query
  select
    r.id, r.lease, r.body, r.headers::jsonb, r.attributes::jsonb, r.receives, r.priority, r.group_id, r.sent_at,
    r.visible_at
  from penstock.receive_many(
    array[v_tenant], array[receive_from_any.queue], array[receive_from_any.max_messages],
    array[receive_from_any.timeout_s], null, null, null, array[v_start], array[v_since], receive_from_any.now, null,
    array[v_floor], array[v_since]
  ) as r
  where r.id is not null;
  if not found and v_floor is null then
    v_start := 0;
    v_since := '-infinity';
  end if;
  if v_hint is not null
    or clock_timestamp() > receive_from_any.now + interval '1 ms' and penstock.was_long(v_walked)
  then
    perform penstock.remember_start(v_hint, receive_from_any.queue, v_start, v_since, v_walked, found, receive_from_any.now);
  end if;
end;
$$;

-- Receives from any queue and deletes what it received.
create or replace function penstock.pop_from_any(queue text, max_messages integer)
returns table (id bigint, body text, headers jsonb, attributes jsonb, sent_at timestamptz)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_message record;
begin
  for v_message in
    select r.* from penstock.receive(pop_from_any.queue, null, pop_from_any.max_messages) as r
  loop
    perform penstock.delete(pop_from_any.queue, v_message.id, v_message.lease);
    id := v_message.id;
    body := v_message.body;
    headers := v_message.headers;
    attributes := v_message.attributes;
    sent_at := v_message.sent_at;
    return next;
  end loop;
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
