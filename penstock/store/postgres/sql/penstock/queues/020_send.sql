-- Sending. One call serves many requests and many queues. Each entry succeeds or fails on its own.

-- Orders the ready messages of a queue: by priority, then by id, ascending or in a LIFO queue descending.
create or replace function penstock.place_of(p_priority integer, p_id bigint, p_lifo boolean)
returns bigint
language sql
immutable
parallel safe
as $$
  select (1000 - p_priority)::bigint * 4503599627370496 + case when p_lifo then 4503599627370495 - p_id else p_id end;
$$;

-- The key of a group's lock. Senders hold the lock until they commit, in turn: that is the order of the group.
create or replace function penstock.group_key(p_bin bigint, p_group text)
returns integer
language sql
immutable
parallel safe
as $$
  select hashtext(p_bin::text || ' ' || p_group);
$$;

-- A transaction that keeps its snapshot cannot see what its group holds now, even with the lock.
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

-- Locks a group and those of its messages that are not blocked. Returns false when another session holds any of them: a
-- receiver of the head may take its followers too.
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

-- Records that somebody waits until then. Senders look at the table waiting only before the latest such time. The lock is
-- held for a moment, not until the commit: of two that write at once, the later time must remain.
create or replace function penstock.note_waiting(p_until timestamptz)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if coalesce(pg_sequence_last_value('penstock.waiting_until'), 0) >= date_part('epoch', p_until) then
    return;
  end if;
  perform pg_advisory_lock(1885695604, 4);
  if coalesce(pg_sequence_last_value('penstock.waiting_until'), 0) < date_part('epoch', p_until) then
    perform setval('penstock.waiting_until', ceil(date_part('epoch', p_until))::bigint + 10);
  end if;
  perform pg_advisory_unlock(1885695604, 4);
end;
$$;

-- Notifies the nodes that have receivers waiting on these queues. The caller's own node wakes its receivers itself.
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

-- The message sent with this deduplication id, null if there is none or it expired.
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

-- Checks messages from SQL, which no engine has checked. The bounds are those of penstock/limits.py.
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
  -- Usually all are null; then the regular expressions, the expensive part, are skipped.
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

drop function if exists penstock.send_many(
  bigint[], text[], text[], boolean[], integer[], integer[], text[], text[], integer[], integer[], text[], text[], text[],
  integer[], timestamptz
);

-- Sends messages to many queues. Returns arrays in the order of the entries: the id, or an error code, followed by a
-- colon and the field if one is at fault. `duplicates` and `sequences` are null unless send_carefully was needed.
--
-- Usually all entries are for one queue. When it neither orders, bounds, numbers nor deduplicates, a few cheap statements
-- store the messages.
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
  out duplicates boolean[],
  out sequences bigint[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer := cardinality(p_queues);
  v_queue record;
begin
  if p_tenants[1] = all (p_tenants) and p_queues[1] = all (p_queues) then
    select
      q.id, q.bin_id, q.lifo, q.delay_s, q.retention_s, q.fifo or q.implicit or q.max_length is not null as careful
    into v_queue
    from penstock.queues as q
    where q.tenant_id = p_tenants[1]
      and q.name = p_queues[1]
      -- Without sizes: when all bodies together are no larger than one may be, none is too large.
      and q.max_message_bytes >= all (coalesce(p_sizes, array[pg_column_size(p_bodies)]));
    codes := array_fill(null::text, array[v_count]);
    if v_queue.careful then
      select s.* into ids, codes, duplicates, sequences
      from penstock.send_carefully(
        array(select n::integer from unnest(p_tenants) with ordinality as e (tenant_id, n)),
        array_fill(null::bigint, array[v_count]), codes, p_tenants, p_queues, p_bodies, p_json, p_delays, p_priorities,
        p_groups, p_dedups, p_dedup_windows, p_retentions, p_attributes, p_headers, p_traces, p_now
      ) as s;
    elsif v_queue.id is not null and p_dedups is null then
      ids := array(select nextval('penstock.message_ids') from unnest(p_tenants));
      insert into penstock.messages (
        bin_id, id, place, visible_at, sent_at, expires_at, priority, state, is_json, group_id, trace, attributes,
        headers, body
      )
      select
        v_queue.bin_id, e.id, penstock.place_of(coalesce(p_priorities[n], 100), e.id, v_queue.lifo),
        p_now + make_interval(secs => coalesce(p_delays[n], v_queue.delay_s)), p_now,
        p_now + make_interval(secs => coalesce(p_retentions[n], v_queue.retention_s)), coalesce(p_priorities[n], 100),
        case when coalesce(p_delays[n], v_queue.delay_s) > 0 then 2 else 0 end, coalesce(p_json[n], false),
        p_groups[n], p_traces[n], p_attributes[n]::json, p_headers[n]::json, p_bodies[n]
      from unnest(ids) with ordinality as e (id, n);
      insert into penstock.bin_changes (bin_id, arrived) values (v_queue.bin_id, v_count);
    end if;
    if ids is not null then
      if exists (select from penstock.waiting as w where w.queue_id = v_queue.id and w.until > p_now) then
        perform penstock.announce(array[v_queue.id], p_now);
      end if;
      return;
    end if;
  end if;
  select s.* into ids, codes, duplicates, sequences
  from penstock.send_to_queues(
    p_tenants, p_queues, p_bodies, p_json, p_delays, p_priorities, p_groups, p_dedups, p_dedup_windows, p_retentions,
    p_attributes, p_headers, p_traces, p_sizes, p_now
  ) as s;
end;
$$;

-- Sends messages to any queues.
create or replace function penstock.send_to_queues(
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
  out duplicates boolean[],
  out sequences bigint[]
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
    select o.*, case when o.code is null and not o.careful then nextval('penstock.message_ids') end as id
    from (
      select
        e.n, q.id as queue_id, q.bin_id, q.lifo, coalesce(p_delays[n], q.delay_s) as wait,
        coalesce(p_retentions[n], q.retention_s) as keep, coalesce(p_priorities[n], 100) as priority,
        case
          when q.id is null then 'PS021'
          when coalesce(p_sizes[n], octet_length(p_bodies[n])) > q.max_message_bytes then 'PS012:message'
        end as code,
        q.fifo or q.implicit or q.max_length is not null or p_dedups[n] is not null as careful
      from unnest(p_tenants, p_queues) with ordinality as e (tenant_id, queue, n)
      left join penstock.queues as q on q.tenant_id = e.tenant_id and q.name = e.queue
      -- Ids increase in the order of the entries, whatever the order of the join.
      order by e.n
    ) as o
  ),
  stored as (
    insert into penstock.messages (
      bin_id, id, place, visible_at, sent_at, expires_at, priority, state, is_json, group_id, trace, attributes, headers,
      body
    )
    select
      e.bin_id, e.id, penstock.place_of(e.priority, e.id, e.lifo), p_now + make_interval(secs => e.wait), p_now,
      p_now + make_interval(secs => e.keep), e.priority, case when e.wait > 0 then 2 else 0 end,
      coalesce(p_json[n], false), p_groups[n], p_traces[n], p_attributes[n]::json, p_headers[n]::json, p_bodies[n]
    from entry as e where e.id is not null
  ),
  counted as (
    insert into penstock.bin_changes (bin_id, arrived)
    select e.bin_id, count(*) from entry as e where e.id is not null group by e.bin_id
  )
  select
    array_agg(e.id order by e.n), array_agg(e.code order by e.n),
    array_agg(e.n::integer order by e.n) filter (where e.careful and e.code is null),
    array_agg(distinct e.queue_id)
  into ids, codes, v_careful, v_queue_ids
  from entry as e;
  -- end

  if v_careful is not null then
    select s.* into ids, codes, duplicates, sequences
    from penstock.send_carefully(
      v_careful, ids, codes, p_tenants, p_queues, p_bodies, p_json, p_delays, p_priorities, p_groups, p_dedups,
      p_dedup_windows, p_retentions, p_attributes, p_headers, p_traces, p_now
    ) as s;
  end if;
  perform penstock.announce(v_queue_ids, p_now);
end;
$$;
