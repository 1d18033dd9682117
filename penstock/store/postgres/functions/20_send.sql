-- Sending. One call serves many requests and many queues; an entry that fails leaves the others alone.

-- Where a message stands among the ready ones: first by priority, then by id, or against it in a lifo queue.
create or replace function penstock.place_of(p_priority integer, p_id bigint, p_lifo boolean)
returns bigint
language sql
immutable
parallel safe
as $$
  select (1000 - p_priority)::bigint * 4503599627370496 + case when p_lifo then 4503599627370495 - p_id else p_id end;
$$;

-- The order of a FIFO group is the order in which its senders hold this lock; it is kept until they commit.
create or replace function penstock.group_key(p_bin bigint, p_group text)
returns integer
language sql
immutable
parallel safe
as $$
  select hashtext(p_bin::text || ' ' || p_group);
$$;

-- A transaction that keeps an old snapshot cannot know what its group holds by now, lock or no lock.
create or replace function penstock.check_isolation()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    raise exception using errcode = 'PS060', message = 'FIFO queues need a transaction that is read committed.';
  end if;
end;
$$;

create or replace function penstock.lock_group(p_bin bigint, p_group text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.check_isolation();
  perform pg_advisory_xact_lock(1885695603, penstock.group_key(p_bin, p_group));
end;
$$;

create or replace function penstock.try_lock_group(p_bin bigint, p_group text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.check_isolation();
  return pg_try_advisory_xact_lock(1885695603, penstock.group_key(p_bin, p_group));
end;
$$;

-- The lock of a group and its placed messages, or false: whoever claims its head may take the followers too.
create or replace function penstock.try_hold_group(p_bin bigint, p_group text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not penstock.try_lock_group(p_bin, p_group) then
    return false;
  end if;
  return not exists (
    select m.id
    from penstock.messages as m
    where m.bin_id = p_bin
      and m.group_id = p_group
      and m.state <> 3
    except
    select h.id
    from (
      select m.id
      from penstock.messages as m
      where m.bin_id = p_bin
        and m.group_id = p_group
        and m.state <> 3
      for update skip locked
    ) as h
  );
end;
$$;

-- Tell nodes with receivers waiting on these queues; the caller's own node wakes its receivers itself.
create or replace function penstock.announce(p_queue_ids bigint[], p_now timestamptz)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pg_notify('penstock_arrivals', q.tenant_id || ' ' || q.name)
  from penstock.queues as q
  where q.id = any (p_queue_ids)
    and exists (
      select
      from penstock.waiting as w
      where w.queue_id = q.id
        and w.until > p_now
        and w.node <> coalesce(current_setting('penstock.node', true), '')
    );
end;
$$;

-- The message that a deduplication id stands for at this time.
create or replace function penstock.find_duplicate(p_bin bigint, p_dedup text, p_group text, p_now timestamptz)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return (
    select d.message_id
    from penstock.dedup as d
    where d.bin_id = p_bin
      and d.dedup_id = p_dedup
      and d.group_id = p_group
      and d.expires_at > p_now
  );
end;
$$;

-- What is asked of messages whatever their queue. Those who pass no engine find the bounds of penstock/limits.py here.
create or replace function penstock.check_messages(
  p_bodies text[],
  p_delays integer[],
  p_priorities integer[],
  p_groups text[],
  p_dedups text[]
)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.check_that('body', array_position(p_bodies, null) is null, 'not be null');
  perform penstock.check_that(
    'delay_s', 0 <= all (p_delays) and 43200 >= all (p_delays), 'be between 0 and 43200'
  );
  perform penstock.check_that(
    'priority', 0 <= all (p_priorities) and 1000 >= all (p_priorities), 'be between 0 and 1000'
  );
  -- Most messages have neither, and a look at each costs more than all the rest.
  if num_nonnulls(variadic p_groups) > 0 then
    perform penstock.check_that(
      'group_id', bool_and(g ~ '^[!-~]{1,128}$'), 'be 1 to 128 letters, digits and ASCII punctuation'
    )
    from unnest(p_groups) as g;
  end if;
  if num_nonnulls(variadic p_dedups) > 0 then
    perform penstock.check_that(
      'dedup_id', bool_and(d ~ '^[!-~]{1,128}$'), 'be 1 to 128 letters, digits and ASCII punctuation'
    )
    from unnest(p_dedups) as d;
  end if;
end;
$$;

-- Answers arrays in the order of the entries: the id, or a code with the field at fault after a colon.
create or replace function penstock.send_many(
  p_tenants bigint[],
  p_queues text[],
  p_bodies text[],
  p_json boolean[],
  p_delays integer[],
  p_priorities integer[],
  p_groups text[],
  p_dedups text[],
  p_dedup_windows integer[],
  p_retentions integer[],
  p_attributes text[],
  p_headers text[],
  p_traces text[],
  p_sizes integer[],
  p_now timestamptz,
  out ids bigint[],
  out codes text[],
  out duplicates boolean[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_careful integer[];
  v_queue_ids bigint[];
begin
  -- hot: send
  with entry as materialized (
    select
      o.*,
      case when o.code is null and not o.careful then nextval('penstock.message_ids') end as id
    from (
      select
        e.*,
        q.id as queue_id,
        q.bin_id,
        q.lifo,
        coalesce(e.delay, q.delay_s) as wait,
        coalesce(e.retention, q.retention_s) as keep,
        case
          when q.id is null then 'PS021'
          when coalesce(e.size, octet_length(e.body)) > q.max_message_bytes then 'PS012:message'
        end as code,
        q.fifo or q.max_length is not null or e.dedup_id is not null as careful
      from unnest(
        p_tenants, p_queues, p_bodies, p_json, p_delays, p_priorities, p_groups, p_dedups,
        p_retentions, p_attributes, p_headers, p_traces, p_sizes
      ) with ordinality as e (
        tenant_id, queue, body, is_json, delay, priority, group_id, dedup_id,
        retention, attributes, headers, trace, size, position
      )
      left join penstock.queues as q on q.tenant_id = e.tenant_id and q.name = e.queue
      -- Ids rise in the order of the entries, whatever way the join went.
      order by e.position
    ) as o
  ),
  stored as (
    insert into penstock.messages (
      bin_id, id, place, visible_at, sent_at, expires_at, priority, state, is_json, group_id, trace,
      attributes, headers, body
    )
    select
      e.bin_id,
      e.id,
      penstock.place_of(coalesce(e.priority, 100), e.id, e.lifo),
      p_now + make_interval(secs => e.wait),
      p_now,
      p_now + make_interval(secs => e.keep),
      coalesce(e.priority, 100),
      case when e.wait > 0 then 2 else 0 end,
      coalesce(e.is_json, false),
      e.group_id,
      e.trace,
      e.attributes::json,
      e.headers::json,
      e.body
    from entry as e
    where e.id is not null
  ),
  counted as (
    insert into penstock.bin_changes (bin_id, arrived)
    select e.bin_id, count(*)
    from entry as e
    where e.id is not null
    group by e.bin_id
  )
  select
    array_agg(e.id order by e.position),
    array_agg(e.code order by e.position),
    array_agg(e.position::integer order by e.position) filter (where e.careful and e.code is null),
    array_agg(distinct e.queue_id)
  into ids, codes, v_careful, v_queue_ids
  from entry as e;
  -- end

  if v_careful is not null then
    select s.ids, s.codes, s.duplicates
    into ids, codes, duplicates
    from penstock.send_carefully(
      v_careful, ids, codes, p_tenants, p_queues, p_bodies, p_json, p_delays, p_priorities, p_groups, p_dedups,
      p_dedup_windows, p_retentions, p_attributes, p_headers, p_traces, p_now
    ) as s;
  end if;
  perform penstock.announce(v_queue_ids, p_now);
end;
$$;

-- Entries for queues that order, bound or deduplicate: those at p_positions, in that order.
create or replace function penstock.send_carefully(
  p_positions integer[],
  p_ids bigint[],
  p_codes text[],
  p_tenants bigint[],
  p_queues text[],
  p_bodies text[],
  p_json boolean[],
  p_delays integer[],
  p_priorities integer[],
  p_groups text[],
  p_dedups text[],
  p_dedup_windows integer[],
  p_retentions integer[],
  p_attributes text[],
  p_headers text[],
  p_traces text[],
  p_now timestamptz,
  out ids bigint[],
  out codes text[],
  out duplicates boolean[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_entry record;
begin
  ids := p_ids;
  codes := p_codes;
  duplicates := array_fill(false, array[cardinality(p_queues)]);

  -- Held until commit, and taken in one order by everyone. What follows sees all that earlier holders stored.
  -- A bounded queue has a lock too: its messages are counted by one node at a time. Users count without it, since
  -- their transactions may stay open, and may so exceed the bound when they send at the same moment.
  perform penstock.lock_group(g.bin_id, g.group_id)
  from (
    select l.bin_id, l.group_id
    from (
      select q.bin_id, p_groups[p.position] as group_id
      from unnest(p_positions) as p (position)
      join penstock.queues as q on q.tenant_id = p_tenants[p.position] and q.name = p_queues[p.position]
      where q.fifo
        and p_groups[p.position] is not null
      union
      select q.bin_id, ''
      from unnest(p_positions) as p (position)
      join penstock.queues as q on q.tenant_id = p_tenants[p.position] and q.name = p_queues[p.position]
      where q.max_length is not null
        and current_setting('penstock.node', true) <> ''
    ) as l
    order by penstock.group_key(l.bin_id, l.group_id)
  ) as g;

  for v_entry in
    with entry as materialized (
      select
        d.*,
        row_number() over (partition by d.bin_id, d.dedup_id, d.dedup_group order by d.position) as repetition
      from (
        select
          p.position,
          q.bin_id,
          q.fifo,
          q.lifo,
          q.max_length,
          p_groups[p.position] as group_id,
          case when q.fifo then 100 else coalesce(p_priorities[p.position], 100) end as priority,
          coalesce(p_delays[p.position], q.delay_s) as wait,
          coalesce(p_retentions[p.position], q.retention_s) as keep,
          coalesce(p_dedup_windows[p.position], q.dedup_window_s) as dedup_window,
          coalesce(
            p_dedups[p.position],
            case when q.fifo and q.content_dedup then encode(sha256(convert_to(p_bodies[p.position], 'UTF8')), 'hex') end
          ) as dedup_id,
          case when q.dedup_scope = 'group' then coalesce(p_groups[p.position], '') else '' end as dedup_group
        from unnest(p_positions) as p (position)
        join penstock.queues as q on q.tenant_id = p_tenants[p.position] and q.name = p_queues[p.position]
      ) as d
    ),
    judged as materialized (
      select
        e.*,
        case
          when e.fifo and e.group_id is null then 'PS010:group_id'
          when e.fifo and e.dedup_id is null then 'PS010:dedup_id'
        end as code,
        e.dedup_id is not null and (
          e.repetition > 1 or penstock.find_duplicate(e.bin_id, e.dedup_id, e.dedup_group, p_now) is not null
        ) as duplicate
      from entry as e
    ),
    fitting as materialized (
      select o.*, nextval('penstock.message_ids') as id
      from (
        select j.*
        from (
          select f.*, row_number() over (partition by f.bin_id order by f.position) as addition
          from judged as f
          where f.code is null
            and not f.duplicate
        ) as j
        where j.max_length is null
          or j.addition <= j.max_length - penstock.bin_total(j.bin_id)
        order by j.position
      ) as o
    ),
    remembered as (
      insert into penstock.dedup as d (bin_id, dedup_id, group_id, message_id, expires_at)
      select f.bin_id, f.dedup_id, f.dedup_group, f.id, p_now + make_interval(secs => f.dedup_window)
      from fitting as f
      where f.dedup_id is not null
      on conflict (bin_id, dedup_id, group_id) do update
      set message_id = excluded.message_id,
          expires_at = excluded.expires_at
      -- An unexpired one that was not there a moment ago: another transaction stored it first.
      where d.expires_at <= p_now
      returning d.message_id
    ),
    kept as materialized (
      select f.*, row_number() over (partition by f.bin_id, f.group_id order by f.id) as rank_in_group
      from fitting as f
      where f.dedup_id is null
        or f.id in (select r.message_id from remembered as r)
    ),
    stored as (
      insert into penstock.messages (
        bin_id, id, place, visible_at, sent_at, expires_at, priority, state, is_json, group_id, dedup_id, trace,
        attributes, headers, body
      )
      select
        k.bin_id,
        k.id,
        penstock.place_of(k.priority, k.id, k.lifo),
        p_now + make_interval(secs => k.wait),
        p_now,
        p_now + make_interval(secs => k.keep),
        k.priority,
        case
          when k.fifo and (
            k.rank_in_group > 1
            -- Not "exists": that may become a table of all groups, hashed from end to end for every send.
            or (
              select true
              from penstock.messages as m
              where m.bin_id = k.bin_id
                and m.group_id = k.group_id
                and m.state <> 3
              limit 1
            )
          ) then 3
          when k.wait > 0 then 2
          else 0
        end,
        coalesce(p_json[k.position], false),
        k.group_id,
        k.dedup_id,
        p_traces[k.position],
        p_attributes[k.position]::json,
        p_headers[k.position]::json,
        p_bodies[k.position]
      from kept as k
    ),
    counted as (
      insert into penstock.bin_changes (bin_id, arrived)
      select k.bin_id, count(*)
      from kept as k
      group by k.bin_id
    )
    select
      j.position,
      j.bin_id,
      j.dedup_id,
      j.dedup_group,
      k.id,
      case
        when j.code is not null then j.code
        when not j.duplicate and f.id is null then 'PS040'
      end as code
    from judged as j
    left join fitting as f on f.position = j.position
    left join kept as k on k.position = j.position
  loop
    ids[v_entry.position] := v_entry.id;
    codes[v_entry.position] := v_entry.code;
    if v_entry.id is null and v_entry.code is null then
      ids[v_entry.position] := penstock.find_duplicate(
        v_entry.bin_id, v_entry.dedup_id, v_entry.dedup_group, p_now
      );
      duplicates[v_entry.position] := true;
      if ids[v_entry.position] is null then
        -- It repeats an entry of this very batch that found no room.
        codes[v_entry.position] := 'PS040';
      end if;
    end if;
  end loop;
end;
$$;
