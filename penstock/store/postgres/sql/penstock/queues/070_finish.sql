-- The end of a delivery: delete, archive, or change the visibility timeout.
--
-- Answers come in the order of the entries: 'done', 'absent', 'stale' or 'expired', or an error code.
--
-- A lease that is not the current one never becomes current again. So entries that are stale or expired lock no
-- message, and two batches wait for each other only when both hold current leases of the same messages.

-- Locks the FIFO groups of these messages, before any message and in one order for all sessions.
create or replace function penstock.lock_groups_of(p_tenants bigint[], p_queues text[], p_ids bigint[])
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if array_to_string(p_queues, ' ') not like '%.fifo%' then
    return;
  end if;
  perform penstock.lock_group(g.bin_id, g.group_id)
  from (
    select n.bin_id, n.group_id
    from (
      -- hot: groups
      select
        q.bin_id,
        -- Not a join: that could read the whole queue.
        (select m.group_id from penstock.messages as m where m.bin_id = q.bin_id and m.id = e.id) as group_id
      from unnest(p_tenants, p_queues, p_ids) as e (tenant_id, queue, id)
      join penstock.queues as q on q.tenant_id = e.tenant_id and q.name = e.queue
      where q.fifo
      group by 1, 2
      -- end
    ) as n
    where n.group_id is not null
    order by penstock.group_key(n.bin_id, n.group_id)
  ) as g;
end;
$$;

-- Deletes or archives messages of many queues. Without a lease, a message is deleted whatever its state.
--
-- Usually all entries are for one standard queue that does not archive. Their messages are deleted here.
create or replace function penstock.finish_many(
  p_tenants bigint[],
  p_queues text[],
  p_ids bigint[],
  p_leases bigint[],
  p_archive boolean,
  p_now timestamptz
)
returns text[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answers text[];
  v_missed integer[];
  v_bin bigint;
  v_count integer;
begin
  if not p_archive and p_tenants[1] = all (p_tenants) and p_queues[1] = all (p_queues) then
    select q.bin_id
    into v_bin
    from penstock.queues as q
    where q.tenant_id = p_tenants[1]
      and q.name = p_queues[1]
      and not q.fifo
      and not q.archive;
  end if;
  if v_bin is null then
    return penstock.finish_in_queues(p_tenants, p_queues, p_ids, p_leases, p_archive, p_now);
  end if;

  -- hot: delete
  with gone as (
    -- A message that was received again meanwhile has another ctid; finish_missed looks at it again.
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
    returning m.id, m.lease
  )
  select
    array_agg(case when g.id is not null then 'done' end order by e.position),
    array_agg(e.position::integer) filter (where g.id is null),
    (select count(*) from gone)
  into v_answers, v_missed, v_count
  from unnest(p_ids, p_leases) with ordinality as e (id, lease, position)
  left join gone as g on g.id = e.id and (e.lease is null or e.lease = g.lease);
  -- end
  if v_count > 0 then
    insert into penstock.bin_changes (bin_id, departed) values (v_bin, v_count);
  end if;
  if v_missed is not null then
    v_answers := penstock.finish_missed(v_missed, v_answers, p_tenants, p_queues, p_ids, p_leases, p_archive, p_now);
  end if;
  return v_answers;
end;
$$;

-- Finishes messages of any queues.
create or replace function penstock.finish_in_queues(
  p_tenants bigint[],
  p_queues text[],
  p_ids bigint[],
  p_leases bigint[],
  p_archive boolean,
  p_now timestamptz
)
returns text[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answers text[];
  v_missed integer[];
begin
  perform penstock.lock_groups_of(p_tenants, p_queues, p_ids);

  -- hot: delete_in_queues
  with entry as materialized (
    select e.position::integer as position, e.id, e.lease, q.id as queue_id, q.bin_id, q.fifo, q.archive, q.tenant_id, q.name
    from unnest(p_tenants, p_queues, p_ids, p_leases) with ordinality as e (tenant_id, queue, id, lease, position)
    left join penstock.queues as q on q.tenant_id = e.tenant_id and q.name = e.queue
  ),
  hit as materialized (
    -- Looks up each message by its key. The limit keeps the planner from a join that reads the whole queue.
    select n.ctid as tid
    from entry as e
    cross join lateral (
      select m.ctid
      from penstock.messages as m
      where m.bin_id = e.bin_id
        and m.id = e.id
        and (e.lease is null or m.lease = e.lease)
      limit 1
    ) as n
    where not e.fifo
  ),
  gone as (
    -- A message that was received again meanwhile has another ctid; finish_missed looks at it again.
    delete from penstock.messages as m
    where m.ctid = any (array(select h.tid from hit as h))
    returning m.*
  ),
  kept as (
    insert into penstock.archive (
      id, tenant_id, queue, sent_at, first_received_at, archived_at, receives, priority, is_json, group_id, dedup_id,
      trace, attributes, headers, body
    )
    select
      g.id, q.tenant_id, q.name, g.sent_at, g.first_received_at, p_now, g.receives, g.priority, g.is_json, g.group_id,
      g.dedup_id, g.trace, g.attributes, g.headers, g.body
    from gone as g
    join (
      select distinct e.bin_id, e.tenant_id, e.name from entry as e where e.archive or p_archive
    ) as q on q.bin_id = g.bin_id
  ),
  counted as (
    insert into penstock.bin_changes (bin_id, departed)
    select g.bin_id, count(*)
    from gone as g
    group by g.bin_id
  )
  select
    array_agg(case when e.queue_id is null then 'PS021' when g.id is not null then 'done' end order by e.position),
    array_agg(e.position) filter (where e.queue_id is not null and g.id is null)
  into v_answers, v_missed
  from entry as e
  left join gone as g on g.bin_id = e.bin_id and g.id = e.id and (e.lease is null or e.lease = g.lease);
  -- end

  if v_missed is not null then
    v_answers := penstock.finish_missed(
      v_missed, v_answers, p_tenants, p_queues, p_ids, p_leases, p_archive, p_now
    );
  end if;
  return v_answers;
end;
$$;

-- Finishes the entries at p_positions one by one: messages of FIFO queues, and those that finish_many did not find.
create or replace function penstock.finish_missed(
  p_positions integer[],
  p_answers text[],
  p_tenants bigint[],
  p_queues text[],
  p_ids bigint[],
  p_leases bigint[],
  p_archive boolean,
  p_now timestamptz
)
returns text[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_position integer;
  v_queue penstock.queues;
begin
  foreach v_position in array p_positions loop
    select q.*
    into v_queue
    from penstock.queues as q
    where q.tenant_id = p_tenants[v_position]
      and q.name = p_queues[v_position];
    -- The queue may have been dropped meanwhile.
    p_answers[v_position] := case
      when not found then 'PS021'
      else penstock.finish_carefully(v_queue, p_ids[v_position], p_leases[v_position], p_archive, p_now)
    end;
  end loop;
  return p_answers;
end;
$$;

-- Finishes one message, with the checks of FIFO queues.
create or replace function penstock.finish_carefully(
  p_queue penstock.queues,
  p_id bigint,
  p_lease bigint,
  p_archive boolean,
  p_now timestamptz
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_message penstock.messages;
begin
  select m.* into v_message from penstock.messages as m where m.bin_id = p_queue.bin_id and m.id = p_id;
  if not found then
    return 'absent';
  elsif v_message.lease <> p_lease then
    return 'stale';
  elsif p_queue.fifo and p_lease is not null and (v_message.state <> 1 or v_message.visible_at <= p_now) then
    return 'expired';
  end if;
  if p_queue.fifo then
    perform penstock.lock_group(p_queue.bin_id, v_message.group_id);
    if p_lease is null then
      -- Any message of the group may be deleted: lock the head before its followers, in the order of a receiver.
      perform
      from penstock.messages as m
      where m.bin_id = p_queue.bin_id
        and m.group_id = v_message.group_id
        and m.state <> 3
      for update;
    end if;
  end if;
  select m.* into v_message from penstock.messages as m where m.bin_id = p_queue.bin_id and m.id = p_id for update;
  if not found then
    return 'absent';
  elsif v_message.lease <> p_lease then
    return 'stale';
  elsif p_queue.fifo and p_lease is not null and (v_message.state <> 1 or v_message.visible_at <= p_now) then
    return 'expired';
  end if;
  if p_queue.archive or p_archive then
    insert into penstock.archive (
      id, tenant_id, queue, sent_at, first_received_at, archived_at, receives, priority, is_json, group_id, dedup_id,
      trace, attributes, headers, body
    )
    values (
      v_message.id, p_queue.tenant_id, p_queue.name, v_message.sent_at, v_message.first_received_at, p_now,
      v_message.receives, v_message.priority, v_message.is_json, v_message.group_id, v_message.dedup_id,
      v_message.trace, v_message.attributes, v_message.headers, v_message.body
    );
  end if;
  perform penstock.remove_messages(p_queue.bin_id, array[p_id]);
  if p_queue.fifo then
    perform penstock.settle_group(p_queue.bin_id, v_message.group_id, p_now);
    perform penstock.announce(array[p_queue.id], p_now);
  end if;
  return 'done';
end;
$$;

-- Hides each message for p_seconds from now. A message that was never received cannot be hidden.
create or replace function penstock.change_visibility_many(
  p_tenants bigint[],
  p_queues text[],
  p_ids bigint[],
  p_leases bigint[],
  p_seconds integer[],
  p_now timestamptz,
  out answers text[],
  out visible_at timestamptz[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_position integer;
  v_queue penstock.queues;
  v_message penstock.messages;
begin
  perform penstock.lock_groups_of(p_tenants, p_queues, p_ids);
  for v_position in 1 .. array_length(p_queues, 1) loop
    select q.*
    into v_queue
    from penstock.queues as q
    where q.tenant_id = p_tenants[v_position]
      and q.name = p_queues[v_position];
    if not found then
      answers[v_position] := 'PS021';
      visible_at[v_position] := null;
      continue;
    end if;
    visible_at[v_position] := p_now + make_interval(secs => greatest(p_seconds[v_position], 0));
    update penstock.messages as m
    set state = 1,
        visible_at = change_visibility_many.visible_at[v_position]
    where m.bin_id = v_queue.bin_id
      and m.id = p_ids[v_position]
      and m.receives > 0
      and m.lease = coalesce(p_leases[v_position], m.lease)
      -- In a FIFO queue only while it is in flight: afterwards others of its group may come first.
      and (not v_queue.fifo or (m.state = 1 and m.visible_at > p_now));
    if found then
      answers[v_position] := 'done';
      if p_seconds[v_position] <= 0 then
        perform penstock.announce(array[v_queue.id], p_now);
      end if;
      continue;
    end if;
    visible_at[v_position] := null;
    select m.*
    into v_message
    from penstock.messages as m
    where m.bin_id = v_queue.bin_id
      and m.id = p_ids[v_position];
    answers[v_position] := case
      when not found or v_message.receives = 0 then 'absent'
      when v_message.lease <> p_leases[v_position] then 'stale'
      else 'expired'
    end;
  end loop;
end;
$$;

-- The messages that a receive would return. Due messages become ready, as in a receive; nothing else changes.
create or replace function penstock.peek_many(
  p_tenant bigint,
  p_queue text,
  p_limit integer,
  p_shuffle boolean,
  p_now timestamptz
)
returns setof penstock.messages
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue penstock.queues := penstock.find_queue(p_tenant, p_queue);
  v_picked bigint[];
begin
  perform penstock.release_due(v_queue, null, null, false, '-infinity', p_now);
  v_picked := case
    when v_queue.fifo then penstock.pick_fifo(v_queue.bin_id, p_limit, p_shuffle, 0, p_now)
    when p_shuffle then penstock.pick_any(v_queue.bin_id, p_limit, p_now)
    else array(
      select m.id
      from penstock.messages as m
      where m.bin_id = v_queue.bin_id
        and m.state = 0
        and m.expires_at > p_now
      order by m.place
      limit p_limit
    )
  end;
  return query
  select m.*
  from penstock.messages as m
  where m.ctid = any (array(select penstock.tids_of(v_queue.bin_id, v_picked)))
  order by array_position(v_picked, m.id);
end;
$$;
