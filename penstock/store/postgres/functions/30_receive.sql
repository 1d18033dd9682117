-- Receiving: bring back what is due, set aside what was received too often, claim what is ready.
--
-- skip locked everywhere: two receivers never wait on, nor share, one message.

-- Leases rise for ever, even over a crash that forgets the last claims: those do not wait for the disk. A count
-- would start again where it was and make a forgotten receipt valid; the time does not come back.
create or replace function penstock.next_lease(p_lease bigint, p_now timestamptz)
returns bigint
language sql
immutable
parallel safe
as $$
  select greatest(p_lease + 1, (extract(epoch from p_now) * 1000000)::bigint);
$$;

-- Settle a FIFO group whose messages changed: its oldest message is placed, or in flight; of the others only those in
-- flight are not blocked. While any is in flight, the oldest is placed only if it was received before: then it is one
-- of a batch that came back early, and none that the batch should have waited for. The caller holds the group's lock.
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
  -- A receiver may be claiming the head at this moment: wait for it, and look again afterwards.
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

-- Put messages into another queue. Their ids and leases go with them. p_source null: they are going home.
-- Answers how many went: those of a FIFO group that someone holds stay for the next time.
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
      where m.bin_id = p_bin
        and m.id = any (p_ids)
    ) as g
    where penstock.try_hold_group(p_target.bin_id, g.group_id);
  end if;

  update penstock.messages as m
  set bin_id = p_target.bin_id,
      state = case when p_target.fifo then 3 else 0 end,
      place = penstock.place_of(m.priority, m.id, p_target.lifo),
      visible_at = p_now,
      receives = case when p_reset then 0 else m.receives end,
      -- The old delivery ends here: its receipt must not reach the message in its new queue.
      lease = penstock.next_lease(m.lease, p_now),
      dead_letter_source = p_source
  where m.bin_id = p_bin
    and m.id = any (p_ids)
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
  where m.bin_id = p_bin
    and m.id = any (p_ids);
  get diagnostics v_count = row_count;
  if v_count > 0 then
    insert into penstock.bin_changes (bin_id, departed) values (p_bin, v_count);
  end if;
  return v_count;
end;
$$;

-- Set aside messages that were received too often: to the dead-letter queue, or away. A request's own
-- dead-letter queue takes only what it has room for; the queue's takes everything, since nothing may be lost.
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
  end if;
  return
    penstock.move_messages(p_queue.bin_id, p_ids[:v_room], p_target, p_queue.id, p_by_request, p_now)
    + penstock.remove_messages(p_queue.bin_id, p_ids[v_room + 1:]);
end;
$$;

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

-- When the next hidden message of a bin comes into view. One that is due but held by someone gives no moment.
create or replace function penstock.next_due_at(p_bin bigint, p_now timestamptz)
returns timestamptz
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return (
    select m.visible_at
    from penstock.messages as m
    where m.bin_id = p_bin
      and m.state in (1, 2)
      and m.visible_at > p_now
    order by m.visible_at
    limit 1
  );
end;
$$;

-- The next ready messages of a bin, from a place on.
create or replace function penstock.claim_next(
  p_bin bigint,
  p_limit integer,
  p_start bigint,
  p_until timestamptz,
  p_now timestamptz
)
returns setof penstock.messages
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
  -- hot: claim
  with claimed as (
    update penstock.messages as m
    set state = 1,
        visible_at = p_until,
        lease = penstock.next_lease(m.lease, p_now),
        receives = m.receives + 1,
        first_received_at = coalesce(m.first_received_at, p_now)
    -- By ctid: the rows are locked, and no plan can make this anything but a look at each of them.
    where m.ctid = any (
      array(
        select n.ctid
        from penstock.messages as n
        where n.bin_id = p_bin
          and n.state = 0
          and n.place >= p_start
          and n.expires_at > p_now
        order by n.place
        limit p_limit
        for update skip locked
      )
    )
    returning m.*
  )
  select c.*
  from claimed as c
  order by c.place;
  -- end
end;
$$;

-- These messages, picked before, in their order.
create or replace function penstock.claim_these(
  p_bin bigint,
  p_ids bigint[],
  p_until timestamptz,
  p_now timestamptz
)
returns setof penstock.messages
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
  with claimed as (
    update penstock.messages as m
    set state = 1,
        visible_at = p_until,
        lease = penstock.next_lease(m.lease, p_now),
        receives = m.receives + 1,
        first_received_at = coalesce(m.first_received_at, p_now)
    where m.bin_id = p_bin
      and m.id = any (p_ids)
      and m.state in (0, 3)
    returning m.*
  )
  select c.*
  from claimed as c
  order by array_position(p_ids, c.id);
end;
$$;

-- The same in a FIFO queue, where what is received goes to the end of the line: should it come back, it is the turn of
-- the other groups first.
create or replace function penstock.claim_fifo(
  p_bin bigint,
  p_ids bigint[],
  p_until timestamptz,
  p_now timestamptz
)
returns setof penstock.messages
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_places bigint[] := array(select nextval('penstock.message_ids') from generate_series(1, cardinality(p_ids)));
begin
  return query
  with claimed as (
    update penstock.messages as m
    set state = 1,
        place = penstock.place_of(m.priority, v_places[array_position(p_ids, m.id)], false),
        visible_at = p_until,
        lease = penstock.next_lease(m.lease, p_now),
        receives = m.receives + 1,
        first_received_at = coalesce(m.first_received_at, p_now)
    where m.bin_id = p_bin
      and m.id = any (p_ids)
      and m.state in (0, 3)
    returning m.*
  )
  select c.*
  from claimed as c
  order by array_position(p_ids, c.id);
end;
$$;

-- Claim for one request.
create or replace function penstock.claim(
  p_queue penstock.queues,
  p_limit integer,
  p_shuffle boolean,
  p_start bigint,
  p_until timestamptz,
  p_now timestamptz
)
returns setof penstock.messages
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_queue.fifo then
    return query
    select c.*
    from penstock.claim_fifo(
      p_queue.bin_id,
      penstock.pick_fifo(p_queue.bin_id, p_limit, p_shuffle, p_start, p_now),
      p_until,
      p_now
    ) as c;
  elsif p_shuffle then
    return query
    select c.*
    from penstock.claim_these(p_queue.bin_id, penstock.pick_any(p_queue.bin_id, p_limit, p_now), p_until, p_now) as c;
  else
    return query select c.* from penstock.claim_next(p_queue.bin_id, p_limit, p_start, p_until, p_now) as c;
  end if;
end;
$$;

-- Rows come in the order of the requests, and within one in the order of delivery. A request that found
-- nothing gets one row without an id: with a code when it failed, else with the moment to look again.
--
-- p_places and p_since are what the caller remembers of earlier receives: where the ready messages began, and
-- up to when hidden ones were brought back. They save work and decide nothing; who remembers nothing passes
-- null.
create or replace function penstock.receive_many(
  p_tenants bigint[],
  p_queues text[],
  p_limits integer[],
  p_timeouts integer[],
  p_maxima integer[],
  p_dead_letters text[],
  p_shuffles boolean[],
  p_places bigint[],
  p_since timestamptz[],
  p_now timestamptz
)
returns table (
  request integer,
  code text,
  next_due_at timestamptz,
  place bigint,
  id bigint,
  lease bigint,
  body text,
  is_json boolean,
  priority smallint,
  receives integer,
  sent_at timestamptz,
  first_received_at timestamptz,
  visible_at timestamptz,
  group_id text,
  dedup_id text,
  attributes json,
  headers json,
  trace text,
  dead_letter_source text
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_position integer;
  v_queue penstock.queues;
  v_target penstock.queues;
  v_max integer;
  v_by_request boolean;
  v_found boolean;
  v_start bigint;
  v_since timestamptz;
begin
  for v_position in 1 .. array_length(p_queues, 1) loop
    select q.*
    into v_queue
    from penstock.queues as q
    where q.tenant_id = p_tenants[v_position]
      and q.name = p_queues[v_position];
    if not found then
      request := v_position;
      code := 'PS021';
      next_due_at := null;
      return next;
      continue;
    end if;

    v_by_request := p_maxima[v_position] is not null;
    v_max := coalesce(p_maxima[v_position], v_queue.max_receives);
    v_target := null;
    if v_max is not null then
      if v_by_request then
        select q.*
        into v_target
        from penstock.queues as q
        where q.tenant_id = v_queue.tenant_id
          and q.name = p_dead_letters[v_position];
      else
        select q.* into v_target from penstock.queues as q where q.id = v_queue.dead_letter_queue_id;
      end if;
      if not found and v_by_request and p_dead_letters[v_position] is not null then
        request := v_position;
        code := 'PS021:dead_letter_queue';
        next_due_at := null;
        return next;
        continue;
      end if;
      if not found and not v_by_request then
        -- The dead-letter queue is gone: better received once more than lost.
        v_max := null;
      end if;
    end if;

    -- First with what the caller remembers; when that finds nothing, without.
    v_since := coalesce(p_since[v_position], '-infinity');
    v_start := case when v_queue.lifo then 0 else coalesce(p_places[v_position], 0) end;
    loop
      v_start := least(
        v_start, penstock.release_due(v_queue, v_max, v_target, v_by_request, v_since, p_now)
      );
      if v_max is not null then
        perform penstock.set_aside_ready(v_queue, p_limits[v_position], v_max, v_target, v_by_request, p_now);
      end if;
      return query
      select
        v_position,
        null::text,
        null::timestamptz,
        -- Where it was found: a FIFO claim has moved it since, but no further than from the place of its id.
        case when v_queue.fifo then penstock.place_of(c.priority, c.id, false) else c.place end,
        c.id,
        c.lease,
        c.body,
        c.is_json,
        c.priority,
        c.receives,
        c.sent_at,
        c.first_received_at,
        c.visible_at,
        c.group_id,
        c.dedup_id,
        c.attributes,
        c.headers,
        c.trace,
        case when c.dead_letter_source is not null then (
          select q.name from penstock.queues as q where q.id = c.dead_letter_source
        ) end
      from penstock.claim(
        v_queue,
        p_limits[v_position],
        coalesce(p_shuffles[v_position], false),
        v_start,
        p_now + make_interval(secs => coalesce(p_timeouts[v_position], v_queue.visibility_timeout_s)),
        p_now
      ) as c;
      v_found := found;
      exit when v_found or (v_start = 0 and v_since = '-infinity');
      v_start := 0;
      v_since := '-infinity';
    end loop;
    if not v_found then
      request := v_position;
      code := null;
      next_due_at := penstock.next_due_at(v_queue.bin_id, p_now);
      return next;
    end if;
  end loop;
end;
$$;
