-- Before a receive: bring back what is due, set aside what was received too often.
--
-- skip locked everywhere: two receivers never wait on, nor share, one message.

-- Hidden messages whose time has come are ready again; those received too often are set aside instead.
-- p_since only spares looking at moments known to be dealt with. Answers the foremost place of those released.
create or replace function penstock.release_due(
  p_queue penstock.queues,
  p_max integer,
  p_target penstock.queues,
  p_by_request boolean,
  p_since timestamptz,
  p_now timestamptz
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_group text;
  v_poison bigint[];
  v_place bigint;
begin
  if not exists (
    -- hot: due
    select
    from penstock.messages as m
    where m.bin_id = p_queue.bin_id
      and m.state in (1, 2)
      and m.visible_at >= p_since
      and m.visible_at <= p_now
    -- end
  ) then
    return null;
  end if;

  if not p_queue.fifo then
    if p_max is not null then
      select array_agg(d.id)
      into v_poison
      from (
        select m.id
        from penstock.messages as m
        where m.bin_id = p_queue.bin_id
          and m.state = 1
          and m.state in (1, 2)
          and m.visible_at <= p_now
          and m.receives >= p_max
        order by m.visible_at
        limit 1000
        for update skip locked
      ) as d;
      if v_poison is not null then
        perform penstock.set_aside(p_queue, v_poison, p_target, p_by_request, p_now);
      end if;
    end if;
    with released as (
      update penstock.messages as m
      set state = 0
      where m.ctid = any (
        array(
          select n.ctid
          from penstock.messages as n
          where n.bin_id = p_queue.bin_id
            and n.state in (1, 2)
            and n.visible_at <= p_now
            -- Those that could not be set aside wait until they can.
            and (p_max is null or n.state = 2 or n.receives < p_max)
          order by n.visible_at
          limit 1000
          for update skip locked
        )
      )
      returning m.place
    )
    select min(r.place) into v_place from released as r;
    return v_place;
  end if;

  for v_group in
    select distinct d.group_id
    from (
      select m.group_id
      from penstock.messages as m
      where m.bin_id = p_queue.bin_id
        and m.state in (1, 2)
        and m.visible_at <= p_now
      order by m.visible_at
      limit 1000
    ) as d
  loop
    continue when not penstock.try_hold_group(p_queue.bin_id, v_group);
    if p_max is not null then
      v_poison := array(
        select m.id
        from penstock.messages as m
        where m.bin_id = p_queue.bin_id
          and m.group_id = v_group
          and m.state <> 3
          and m.state = 1
          and m.visible_at <= p_now
          and m.receives >= p_max
        order by m.id
      );
      -- Those that could not be set aside hold up their group until they can.
      continue when cardinality(v_poison) > 0
        and penstock.set_aside(p_queue, v_poison, p_target, p_by_request, p_now) < cardinality(v_poison);
    end if;
    update penstock.messages as m
    set state = 3
    where m.bin_id = p_queue.bin_id
      and m.group_id = v_group
      and m.state <> 3
      and m.state in (1, 2)
      and m.visible_at <= p_now;
    perform penstock.settle_group(p_queue.bin_id, v_group, p_now);
  end loop;
  return 0;
end;
$$;

-- Ready messages that were received too often all the same: the limit was lowered, or this request's is lower.
create or replace function penstock.set_aside_ready(
  p_queue penstock.queues,
  p_limit integer,
  p_max integer,
  p_target penstock.queues,
  p_by_request boolean,
  p_now timestamptz
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_poison bigint[];
  v_groups text[];
  v_group text;
begin
  loop
    select array_agg(f.id), array_agg(distinct f.group_id) filter (where p_queue.fifo)
    into v_poison, v_groups
    from (
      select m.id, m.group_id, m.receives
      from penstock.messages as m
      where m.bin_id = p_queue.bin_id
        and m.state = 0
      order by m.place
      limit p_limit
      for update skip locked
    ) as f
    where f.receives >= p_max
      and (not p_queue.fifo or penstock.try_lock_group(p_queue.bin_id, f.group_id));
    exit when v_poison is null;
    exit when penstock.set_aside(p_queue, v_poison, p_target, p_by_request, p_now) = 0;
    if p_queue.fifo then
      foreach v_group in array v_groups loop
        perform penstock.settle_group(p_queue.bin_id, v_group, p_now);
      end loop;
    end if;
  end loop;
end;
$$;
