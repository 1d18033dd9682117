-- Receiving: claim what is ready, for many requests at once.

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
    where m.ctid = any (array(select penstock.tids_of(p_bin, p_ids)))
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
    where m.ctid = any (array(select penstock.tids_of(p_bin, p_ids)))
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
