-- Receiving: claims ready messages, for many requests in one call.

-- When the next hidden message of a bin becomes visible. Messages that are due but locked do not count.
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

-- Claims the next ready messages of a bin, starting at a place.
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
    -- By ctid: the rows are locked, and no plan can read more than these rows.
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

-- The same with a bound on the bytes: the claim ends with the message that reaches it.
create or replace function penstock.claim_next_within(
  p_bin bigint,
  p_limit integer,
  p_start bigint,
  p_until timestamptz,
  p_now timestamptz,
  p_bytes bigint
)
returns setof penstock.messages
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
  -- hot: claim_within
  with claimed as (
    update penstock.messages as m
    set state = 1,
        visible_at = p_until,
        lease = penstock.next_lease(m.lease, p_now),
        receives = m.receives + 1,
        first_received_at = coalesce(m.first_received_at, p_now)
    where m.ctid = any (
      array(
        select s.tid
        from (
          select r.tid, sum(r.bytes) over (order by r.place rows unbounded preceding) - r.bytes as bytes_before
          from (
            select n.ctid as tid, n.place, penstock.message_bytes(n.body, n.attributes, n.headers) as bytes
            from penstock.messages as n
            where n.bin_id = p_bin
              and n.state = 0
              and n.place >= p_start
              and n.expires_at > p_now
            order by n.place
            limit p_limit
            for update skip locked
          ) as r
        ) as s
        where s.bytes_before < p_bytes
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

-- The first of these messages whose contents fit into p_bytes, and at least one.
create or replace function penstock.first_within(p_bin bigint, p_ids bigint[], p_bytes bigint)
returns bigint[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_bytes is null or cardinality(p_ids) < 2 then
    return p_ids;
  end if;
  return (
    select array_agg(s.id order by s.position)
    from (
      select r.id, r.position, sum(r.bytes) over (order by r.position rows unbounded preceding) - r.bytes as bytes_before
      from (
        select
          m.id,
          array_position(p_ids, m.id) as position,
          penstock.message_bytes(m.body, m.attributes, m.headers) as bytes
        from penstock.messages as m
        where m.ctid = any (array(select penstock.tids_of(p_bin, p_ids)))
      ) as r
    ) as s
    where s.bytes_before < p_bytes
  );
end;
$$;

-- Claims messages that were picked before, in that order.
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

-- Claims picked messages of a FIFO queue. They also move behind all other groups: if they come back, the other groups
-- are served first.
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

drop function if exists penstock.claim(penstock.queues, integer, boolean, bigint, timestamptz, timestamptz);
drop function if exists penstock.claim(
  penstock.queues, integer, boolean, bigint, timestamptz, integer, penstock.queues, boolean, timestamptz, timestamptz
);
drop function if exists penstock.claim(
  penstock.queues, integer, boolean, bigint, timestamptz, integer, penstock.queues, boolean, timestamptz, timestamptz,
  bigint
);

-- Claims messages for one request, after releasing the messages that are due. p_start and p_since are hints: when
-- nothing is found with them, it looks again from the floor, below which nobody looks in vain again for a moment.
create or replace function penstock.claim(
  p_queue penstock.queues,
  p_limit integer,
  p_shuffle boolean,
  p_start bigint,
  p_since timestamptz,
  p_floor bigint,
  p_floor_since timestamptz,
  p_max integer,
  p_target penstock.queues,
  p_by_request boolean,
  p_until timestamptz,
  p_now timestamptz,
  p_bytes bigint
)
returns setof penstock.messages
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  loop
    p_start := least(p_start, penstock.release_due(p_queue, p_max, p_target, p_by_request, p_since, p_now));
    if p_max is not null then
      perform penstock.set_aside_ready(
        p_queue, p_limit, p_max, p_target, p_by_request, case when p_shuffle then 0 else p_start end, p_now
      );
    end if;
    if p_queue.fifo then
      return query
      select c.*
      from penstock.claim_fifo(
        p_queue.bin_id,
        penstock.first_within(
          p_queue.bin_id, penstock.pick_fifo(p_queue.bin_id, p_limit, p_shuffle, p_start, p_now), p_bytes
        ),
        p_until,
        p_now
      ) as c;
    elsif p_shuffle then
      return query
      select c.*
      from penstock.claim_these(
        p_queue.bin_id,
        penstock.first_within(p_queue.bin_id, penstock.pick_any(p_queue.bin_id, p_limit, p_now), p_bytes),
        p_until,
        p_now
      ) as c;
    elsif p_bytes is not null and p_limit > 1 then
      return query
      select c.*
      from penstock.claim_next_within(p_queue.bin_id, p_limit, p_start, p_until, p_now, p_bytes) as c;
    else
      return query select c.* from penstock.claim_next(p_queue.bin_id, p_limit, p_start, p_until, p_now) as c;
    end if;
    exit when found or (p_start <= p_floor and p_since <= p_floor_since);
    p_start := p_floor;
    p_since := p_floor_since;
  end loop;
end;
$$;

-- How many entries this session has read in the indexes of ready and hidden messages, dead ones too.
create or replace function penstock.entries_walked()
returns bigint
language sql
stable
as $$
  select pg_catalog.pg_stat_get_xact_tuples_returned('penstock.messages_ready'::regclass)
    + pg_catalog.pg_stat_get_xact_tuples_returned('penstock.messages_hidden'::regclass);
$$;

-- Whether a look at a queue passed so many dead entries that the next ones shall spare themselves the walk.
create or replace function penstock.was_long(p_walked_before bigint)
returns boolean
language sql
stable
begin atomic
  select penstock.entries_walked() > p_walked_before + 5000;
end;

-- Where the messages of the usual priority will be that are sent from now on; null for a queue in another order.
create or replace function penstock.end_place(p_queue penstock.queues)
returns bigint
language sql
stable
begin atomic
  select case
    when not p_queue.fifo and not p_queue.lifo
    then penstock.place_of(100, coalesce(pg_catalog.pg_sequence_last_value('penstock.message_ids'), 0), false)
  end;
end;

-- The receive limit of a request and the dead-letter queue for messages that reached it: those of the request if it
-- names a limit, else those of the queue. `missing` when the request names a dead-letter queue that does not exist.
create or replace function penstock.find_dead_letters(
  p_queue penstock.queues,
  p_max integer,
  p_dead_letters text,
  out max_receives integer,
  out target penstock.queues,
  out missing boolean
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_max is not null then
    select q.*
    into target
    from penstock.queues as q
    where q.tenant_id = p_queue.tenant_id
      and q.name = p_dead_letters;
    missing := not found and p_dead_letters is not null;
    max_receives := p_max;
    return;
  end if;
  missing := false;
  select q.* into target from penstock.queues as q where q.id = p_queue.dead_letter_queue_id;
  -- Without a dead-letter queue, or with itself as one, the queue has no limit: a message is received once more
  -- rather than lost.
  if found and target.id <> p_queue.id then
    max_receives := p_queue.max_receives;
  end if;
end;
$$;

drop function if exists penstock.receive_many(
  bigint[], text[], integer[], integer[], integer[], text[], boolean[], bigint[], timestamptz[], timestamptz
);
drop function if exists penstock.receive_many(
  bigint[], text[], integer[], integer[], integer[], text[], boolean[], bigint[], timestamptz[], timestamptz, bigint
);

-- Receives for many requests. Rows come in the order of the requests, and within a request in the order of delivery.
-- A request without messages gets one row without an id: with an error code, or with the time to look again.
--
-- p_places and p_since are hints from earlier receives: the place of the first ready message, and the time up to which
-- hidden messages were released. They only save work; null means no hint. A request ends with the
-- message that reaches p_bytes; null sets no bound.
--
-- p_floors and p_floors_since are such hints too, and bound the work: nothing is looked for below them. They hold for
-- queues in order of priority and age. Such a request that finds nothing, with them or after a long walk, is told the place
-- where the next messages will be.
create or replace function penstock.receive_many(
  p_tenants bigint[], p_queues text[], p_limits integer[], p_timeouts integer[], p_maxima integer[], p_dead_letters text[],
  p_shuffles boolean[], p_places bigint[], p_since timestamptz[], p_now timestamptz, p_bytes bigint default null,
  p_floors bigint[] default null, p_floors_since timestamptz[] default null
)
returns table (
  request integer, code text, next_due_at timestamptz, place bigint, id bigint, lease bigint, body text, is_json boolean,
  priority smallint, receives integer, sent_at timestamptz, first_received_at timestamptz, visible_at timestamptz,
  group_id text, dedup_id text, attributes json, headers json, trace text, dead_letter_source text, sequence bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_queue penstock.queues;
  v_rule record;
  v_max integer;
  v_target penstock.queues;
  v_walked bigint;
begin
  for v_position in 1 .. array_length(p_queues, 1) loop
    request := v_position;
    code := null;
    next_due_at := null;
    place := null;
    select q.* into v_queue from penstock.queues as q
    where q.tenant_id = p_tenants[v_position] and q.name = p_queues[v_position];
    if not found then
      code := 'PS021';
      return next;
      continue;
    end if;
    v_max := null;
    v_target := null;
    if p_maxima[v_position] is not null or v_queue.max_receives is not null then
      v_rule := penstock.find_dead_letters(v_queue, p_maxima[v_position], p_dead_letters[v_position]);
      if v_rule.missing then
        code := 'PS021:dead_letter_queue';
        return next;
        continue;
      end if;
      v_max := v_rule.max_receives;
      v_target := v_rule.target;
    end if;
    v_walked := penstock.entries_walked();
    return query
    select
      v_position, null::text, null::timestamptz,
      -- Where it was found: a FIFO claim moves messages, but never to before the place of their ids.
      case when v_queue.fifo then penstock.place_of(c.priority, c.id, false) else c.place end,
      c.id, c.lease, c.body, c.is_json, c.priority, c.receives, c.sent_at, c.first_received_at, c.visible_at, c.group_id,
      c.dedup_id, c.attributes, c.headers, c.trace,
      case
        when c.dead_letter_source is not null then (select q.name from penstock.queues as q where q.id = c.dead_letter_source)
      end,
      c.sequence
    from penstock.claim(
      v_queue,
      p_limits[v_position], coalesce(p_shuffles[v_position], false),
      case when v_queue.lifo then 0 else coalesce(p_places[v_position], 0) end,
      coalesce(p_since[v_position], '-infinity'),
      coalesce(p_floors[v_position], 0), coalesce(p_floors_since[v_position], '-infinity'),
      v_max, v_target, p_maxima[v_position] is not null,
      p_now + make_interval(secs =>
        coalesce(p_timeouts[v_position], v_queue.visibility_timeout_s, penstock.default_visibility_timeout_s())),
      p_now, p_bytes
    ) as c;
    if not found then
      if p_floors[v_position] is null then
        next_due_at := penstock.next_due_at(v_queue.bin_id, p_now);
      end if;
      place := case when p_floors[v_position] > 0 or penstock.was_long(v_walked) then penstock.end_place(v_queue) end;
      return next;
    end if;
  end loop;
end;
$$;
