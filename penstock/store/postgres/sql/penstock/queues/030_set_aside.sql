-- Moving and removing messages: their leases end, and their FIFO groups stay in order.

-- The lease of the next delivery. Leases always increase, also after a crash that loses the last claims, which do not
-- wait for the disk. A counter could repeat the number of a lost claim and make its receipt valid again; time does not.
create or replace function penstock.next_lease(p_lease bigint, p_now timestamptz)
returns bigint
language sql
immutable
parallel safe
as $$
  select greatest(p_lease + 1, (extract(epoch from p_now) * 1000000)::bigint);
$$;

-- The ctids of messages, each looked up by its key. The limit matters: with a condition on an array of ids, and old
-- statistics, the planner may read the whole bin instead.
create or replace function penstock.tids_of(p_bin bigint, p_ids bigint[])
returns setof tid
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
  -- hot: tids
  select n.ctid
  from unnest(p_ids) as i (id)
  cross join lateral (
    select m.ctid
    from penstock.messages as m
    where m.bin_id = p_bin
      and m.id = i.id
    limit 1
  ) as n;
  -- end
end;
$$;

-- Updates the states of a FIFO group whose messages changed: the oldest message is ready, delayed or in flight; of the
-- others only those in flight are not blocked. While any is in flight, the oldest is unblocked only if it was received
-- before: then it belongs to the same batch and came back early. The caller holds the group's lock.
create or replace function penstock.settle_group(p_bin bigint, p_group text, p_now timestamptz)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_placed integer;
  v_busy boolean;
  v_head bigint;
  v_follower bigint;
begin
  -- A receiver may be claiming the head: wait for it before reading the states.
  perform
  from penstock.messages as m
  where m.bin_id = p_bin
    and m.group_id = p_group
    and m.state <> 3
  for update;
  select count(*), bool_or(m.state = 1), min(m.id)
  into v_placed, v_busy, v_head
  from penstock.messages as m
  where m.bin_id = p_bin
    and m.group_id = p_group
    and m.state <> 3;
  select m.id
  into v_follower
  from penstock.messages as m
  where m.bin_id = p_bin
    and m.group_id = p_group
    and m.state = 3
  order by m.id
  limit 1;
  if v_placed > 1 or v_follower < v_head then
    update penstock.messages as m
    set state = 3
    where m.bin_id = p_bin
      and m.group_id = p_group
      and m.state <> 3
      and m.state <> 1
      and m.id <> least(v_head, v_follower);
  end if;
  if v_head is null or v_follower < v_head then
    update penstock.messages as m
    set state = case when m.visible_at > p_now then 2 else 0 end
    where m.bin_id = p_bin
      and m.id = v_follower
      and m.state = 3
      and (not coalesce(v_busy, false) or m.receives > 0);
  end if;
end;
$$;

-- Moves messages to another queue; they keep their ids. p_source is the queue they come from, null when they return to
-- it. Returns how many moved: messages of a FIFO group that another session holds stay until the next time.
create or replace function penstock.move_messages(
  p_bin bigint,
  p_ids bigint[],
  p_target penstock.queues,
  p_source bigint,
  p_reset boolean,
  p_now timestamptz
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer;
  v_groups text[];
  v_group text;
begin
  if cardinality(p_ids) = 0 then
    return 0;
  end if;
  if p_target.fifo then
    select array_agg(g.group_id)
    into v_groups
    from (
      select distinct m.group_id
      from penstock.messages as m
      where m.ctid = any (array(select penstock.tids_of(p_bin, p_ids)))
    ) as g
    where penstock.try_hold_group(p_target.bin_id, g.group_id);
  end if;

  update penstock.messages as m
  set bin_id = p_target.bin_id,
      state = case when p_target.fifo then 3 else 0 end,
      place = penstock.place_of(m.priority, m.id, p_target.lifo),
      visible_at = p_now,
      receives = case when p_reset then 0 else m.receives end,
      receives_before = case when p_reset then 0 else m.receives end,
      -- The old delivery ends: its receipt must not apply to the message in its new queue.
      lease = penstock.next_lease(m.lease, p_now),
      dead_letter_source = p_source
  where m.ctid = any (array(select penstock.tids_of(p_bin, p_ids)))
    and (not p_target.fifo or m.group_id = any (v_groups));
  get diagnostics v_count = row_count;
  if v_count = 0 then
    return 0;
  end if;

  insert into penstock.bin_changes (bin_id, arrived, departed)
  values (p_bin, 0, v_count), (p_target.bin_id, v_count, 0);
  if p_target.fifo then
    foreach v_group in array v_groups loop
      perform penstock.settle_group(p_target.bin_id, v_group, p_now);
    end loop;
  end if;
  perform penstock.announce(array[p_target.id], p_now);
  return v_count;
end;
$$;

create or replace function penstock.remove_messages(p_bin bigint, p_ids bigint[])
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer;
begin
  if cardinality(p_ids) = 0 then
    return 0;
  end if;
  delete from penstock.messages as m
  where m.ctid = any (array(select penstock.tids_of(p_bin, p_ids)));
  get diagnostics v_count = row_count;
  if v_count > 0 then
    insert into penstock.bin_changes (bin_id, departed) values (p_bin, v_count);
  end if;
  return v_count;
end;
$$;

-- Moves messages that reached the receive limit to the dead-letter queue, or removes them if there is none. A dead-letter
-- queue named by a request takes only what it has room for, and the rest is removed; that of the queue takes everything.
create or replace function penstock.set_aside(
  p_queue penstock.queues,
  p_ids bigint[],
  p_target penstock.queues,
  p_by_request boolean,
  p_now timestamptz
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_room bigint := array_length(p_ids, 1);
begin
  if p_target.id is null then
    v_room := 0;
  elsif p_by_request and p_target.max_length is not null then
    v_room := least(v_room, greatest(p_target.max_length - penstock.bin_total(p_target.bin_id), 0));
    if v_room < array_length(p_ids, 1) then
      raise warning 'Dead-letter queue ''%'' is full: messages of queue ''%'' that were received too often are deleted',
        p_target.name, p_queue.name;
    end if;
  end if;
  return
    penstock.move_messages(p_queue.bin_id, p_ids[:v_room], p_target, p_queue.id, p_by_request, p_now)
    + penstock.remove_messages(p_queue.bin_id, p_ids[v_room + 1:]);
end;
$$;
