-- Which messages a receive of a FIFO queue, or a shuffled one, takes.

-- Just in front of a head, chosen at random among the first thousand.
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

-- Claim the heads of FIFO groups and as much of what follows as fits; answers the ids, in order.
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
  v_head record;
  v_barrier bigint;
  v_picked bigint[] := '{}';
  v_run bigint[];
  -- Shuffled, a receive starts at any group of the first thousand, and goes around.
  v_start bigint := case when p_shuffle then penstock.any_head(p_bin) else 0 end;
  v_place bigint := case when p_shuffle then v_start else p_start - 1 end;
  v_end bigint := 9223372036854775807;
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
      continue when not penstock.try_lock_group(p_bin, v_head.group_id);
      perform penstock.remove_messages(p_bin, array[v_head.id]);
      perform penstock.settle_group(p_bin, v_head.group_id, p_now);
      v_place := v_place - 1;
      continue;
    end if;
    -- One that was received before may have come back while others of its batch are in flight: they hold up all that
    -- come after them.
    v_barrier := 9223372036854775807;
    if v_head.receives > 0 then
      -- hot: barrier
      select coalesce(min(i.id), v_barrier)
      into v_barrier
      from (
        select m.id, m.state
        from penstock.messages as m
        where m.bin_id = p_bin
          and m.group_id = v_head.group_id
          and m.state <> 3
        -- A fence: any other index leads past every other group.
        offset 0
      ) as i
      where i.state = 1;
      -- end
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

-- Any ready messages, evenly: from a random place on, of a window that covers small queues whole.
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
