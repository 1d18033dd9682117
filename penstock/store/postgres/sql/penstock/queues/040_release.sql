-- Before a receive: make due messages ready again, and remove messages that reached the receive limit.
--
-- Every statement uses skip locked: two receivers never wait for each other and never get the same message.

-- Makes hidden messages ready when their time has come; those that reached the receive limit go to the dead-letter
-- queue. Messages due before p_since are known to be done and are not looked at. Returns the first place among the
-- released messages, null if there are none.
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
  if p_queue.fifo then
    perform penstock.release_due_groups(p_queue, p_max, p_target, p_by_request, p_now);
    return 0;
  end if;
  return penstock.release_due_messages(p_queue, p_max, p_target, p_by_request, p_since, p_now);
end;
$$;

drop function if exists penstock.release_due_messages(penstock.queues, integer, penstock.queues, boolean, timestamptz);

-- Releases due messages of a standard queue. Returns the first place among them.
create or replace function penstock.release_due_messages(
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
  v_poison bigint[];
  v_place bigint;
begin
  if p_max is not null then
    select array_agg(d.id)
    into v_poison
    from (
      select m.id
      from penstock.messages as m
      where m.bin_id = p_queue.bin_id
        and m.state = 1
        and m.state in (1, 2)
        and m.visible_at >= p_since
        and m.visible_at <= p_now
        and m.receives - m.receives_before >= p_max
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
          and n.visible_at >= p_since
          and n.visible_at <= p_now
          -- Messages over the limit that could not be moved stay hidden until they can.
          and (p_max is null or n.state = 2 or n.receives - n.receives_before < p_max)
        order by n.visible_at
        limit 1000
        for update skip locked
      )
    )
    returning m.place
  )
  select min(r.place) into v_place from released as r;
  return v_place;
end;
$$;

-- The same for a queue of the session that has no receive limit.
create or replace function penstock.release_due_in(p_queue text, p_since timestamptz, p_now timestamptz)
returns bigint
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select penstock.release_due_messages(
    penstock.find_queue(penstock.current_tenant(), p_queue), null, null, false, p_since, p_now
  );
$$;

-- Releases due messages of a FIFO queue, group by group. A group that another session holds is skipped.
create or replace function penstock.release_due_groups(
  p_queue penstock.queues,
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
  v_group text;
  v_poison bigint[];
begin
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
          and m.receives - m.receives_before >= p_max
        order by m.id
      );
      -- Messages over the limit that could not be moved block their group until they can.
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
end;
$$;

drop function if exists penstock.set_aside_ready(
  penstock.queues, integer, integer, penstock.queues, boolean, timestamptz
);

-- Ready messages can be over the limit too: when the limit was lowered, or when a request sets a lower one.
create or replace function penstock.set_aside_ready(
  p_queue penstock.queues,
  p_limit integer,
  p_max integer,
  p_target penstock.queues,
  p_by_request boolean,
  p_start bigint,
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
      select m.id, m.group_id, m.receives - m.receives_before as receives
      from penstock.messages as m
      where m.bin_id = p_queue.bin_id
        and m.state = 0
        and m.place >= p_start
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
