-- Selects the messages that a receive takes from a FIFO queue, or in random order.

-- The place just before a random head: one of the first thousand ready messages.
create or replace function penstock.any_head(p_bin bigint)
returns bigint
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(min(r.place) - 1, 0)
  from (
    select h.place
    from (
      select m.place
      from penstock.messages as m
      where m.bin_id = p_bin
        and m.state = 0
      order by m.place
      limit 1000
    ) as h
    order by random()
    limit 1
  ) as r;
$$;

-- Removes an expired head, so that the next message of its group follows. Returns false when another session holds
-- the group.
create or replace function penstock.remove_expired_head(p_bin bigint, p_id bigint, p_group text, p_now timestamptz)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not penstock.try_lock_group(p_bin, p_group) then
    return false;
  end if;
  perform penstock.remove_messages(p_bin, array[p_id]);
  perform penstock.settle_group(p_bin, p_group, p_now);
  return true;
end;
$$;

-- The first message of a group that is in flight, null if none is. Later messages of the group must wait for it.
create or replace function penstock.first_in_flight(p_bin bigint, p_group text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return (
    -- hot: barrier
    select min(i.id)
    from (
      select m.id, m.state
      from penstock.messages as m
      where m.bin_id = p_bin
        and m.group_id = p_group
        and m.state <> 3
      -- Keeps the planner on the index of the group: any other index reads the other groups too.
      offset 0
    ) as i
    where i.state = 1
    -- end
  );
end;
$$;

-- Locks heads of FIFO groups and takes as many followers as fit. Returns the ids, in order of delivery.
create or replace function penstock.pick_fifo(
  p_bin bigint,
  p_limit integer,
  p_shuffle boolean,
  p_start bigint,
  p_now timestamptz
)
returns bigint[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  c_end constant bigint := 9223372036854775807;
  v_head record;
  v_barrier bigint;
  v_picked bigint[] := '{}';
  v_run bigint[];
  -- A shuffled receive starts at a random group and wraps around at the end.
  v_start bigint := case when p_shuffle then penstock.any_head(p_bin) else 0 end;
  v_place bigint := case when p_shuffle then v_start else p_start - 1 end;
  v_end bigint := c_end;
begin
  loop
    -- hot: head
    select m.id, m.group_id, m.expires_at, m.place, m.receives
    into v_head
    from penstock.messages as m
    where m.bin_id = p_bin
      and m.state = 0
      and m.place > v_place
      and m.place <= v_end
    order by m.place
    limit 1
    for update skip locked;
    -- end
    if not found then
      exit when v_start = 0;
      v_end := v_start;
      v_start := 0;
      v_place := 0;
      continue;
    end if;
    v_place := v_head.place;
    if v_head.expires_at <= p_now then
      if penstock.remove_expired_head(p_bin, v_head.id, v_head.group_id, p_now) then
        v_place := v_place - 1;
      end if;
      continue;
    end if;
    v_barrier := c_end;
    if v_head.receives > 0 then
      -- It came back while other messages of its batch may still be in flight.
      v_barrier := coalesce(penstock.first_in_flight(p_bin, v_head.group_id), c_end);
    end if;
    -- hot: run
    select array_agg(f.id order by f.id)
    into v_run
    from (
      select n.id, bool_and(n.visible_at <= p_now) over (order by n.id) as unbroken
      from (
        select m.id, m.visible_at
        from penstock.messages as m
        where m.bin_id = p_bin
          and m.group_id = v_head.group_id
          and m.state = 3
          and m.id < v_barrier
          and m.expires_at > p_now
        order by m.id
        limit p_limit - 1 - coalesce(array_length(v_picked, 1), 0)
      ) as n
    ) as f
    where f.unbroken;
    -- end
    v_picked := v_picked || v_head.id || coalesce(v_run, '{}');
    exit when array_length(v_picked, 1) >= p_limit;
  end loop;
  return v_picked;
end;
$$;

-- Random ready messages, among the first 10 000 of the queue.
create or replace function penstock.pick_any(p_bin bigint, p_limit integer, p_now timestamptz)
returns bigint[]
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
  select array_agg(r.id)
  from (
    select w.id
    from (
      select m.id
      from penstock.messages as m
      where m.bin_id = p_bin
        and m.state = 0
        and m.expires_at > p_now
      order by m.place
      limit 10000
    ) as w
    order by random()
    limit p_limit
  ) as r;
$$;
