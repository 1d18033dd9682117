-- Sends to queues that order, bound, number or deduplicate their messages.

-- Locks what these sends need until commit, in one order for all sessions, and returns the bins of their queues.
-- Statements after it see everything that earlier holders stored.
drop function if exists penstock.lock_sends(integer[], bigint[], text[], text[]);
create function penstock.lock_sends(
  p_positions integer[],
  p_tenants bigint[],
  p_queues text[],
  p_groups text[]
)
returns bigint[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_lock record;
  v_bins bigint[] := '{}';
begin
  for v_lock in
    select l.bin_id, l.group_id
    from (
      select q.bin_id, case when q.fifo then p_groups[p.position] end as group_id
      from unnest(p_positions) as p (position)
      join penstock.queues as q on q.tenant_id = p_tenants[p.position] and q.name = p_queues[p.position]
      union
      -- Only one node at a time counts the messages of a bounded or implicit queue. Users do not lock it, because their
      -- transactions may stay open; users who send at the same moment can exceed the bound.
      select q.bin_id, ''
      from unnest(p_positions) as p (position)
      join penstock.queues as q on q.tenant_id = p_tenants[p.position] and q.name = p_queues[p.position]
      where (q.max_length is not null or q.implicit)
        and current_setting('penstock.node', true) <> ''
    ) as l
    order by penstock.group_key(l.bin_id, l.group_id)
  loop
    v_bins := v_bins || v_lock.bin_id;
    if v_lock.group_id is not null then
      perform penstock.lock_group(v_lock.bin_id, v_lock.group_id);
    end if;
  end loop;
  return v_bins;
end;
$$;

-- The entries at p_positions, in order, with the settings that apply to them.
create or replace function penstock.describe_sends(
  p_positions integer[],
  p_tenants bigint[],
  p_queues text[],
  p_bodies text[],
  p_delays integer[],
  p_priorities integer[],
  p_groups text[],
  p_dedups text[],
  p_dedup_windows integer[],
  p_retentions integer[]
)
returns penstock.send_entry[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return array(
    select
      row(
        n,
        q.id,
        q.bin_id,
        q.fifo,
        q.lifo,
        q.implicit,
        q.max_length,
        p_groups[n],
        coalesce(
          p_dedups[n],
          case when q.fifo and q.content_dedup then encode(sha256(convert_to(p_bodies[n], 'UTF8')), 'hex') end
        ),
        case when q.dedup_scope = 'group' then coalesce(p_groups[n], '') else '' end,
        coalesce(p_dedup_windows[n], q.dedup_window_s),
        case when q.fifo then 100 else coalesce(p_priorities[n], 100) end,
        coalesce(p_delays[n], q.delay_s),
        coalesce(p_retentions[n], q.retention_s)
      )::penstock.send_entry
    from unnest(p_positions) as n
    join penstock.queues as q on q.tenant_id = p_tenants[n] and q.name = p_queues[n]
    order by n
  );
end;
$$;

-- Decides which entries are stored. Returns arrays in their order: the id of a new message, or an error code. An entry
-- with neither is a duplicate.
create or replace function penstock.admit_sends(
  p_entries penstock.send_entry[],
  p_now timestamptz,
  out ids bigint[],
  out codes text[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  with judged as materialized (
    select
      e.*,
      case
        when e.fifo and e.group_id is null then 'PS010:group_id'
        when e.fifo and e.dedup_id is null then 'PS010:dedup_id'
      end as code,
      e.dedup_id is not null and (
        e.repetition > 1 or penstock.find_duplicate(e.bin_id, e.dedup_id, e.dedup_group, p_now) is not null
      ) as duplicate
    from (
      select p.*, row_number() over (partition by p.bin_id, p.dedup_id, p.dedup_group order by p.position) as repetition
      from unnest(p_entries) as p
    ) as e
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
    select f.bin_id, f.dedup_id, f.dedup_group, f.id, p_now + make_interval(secs => f.dedup_window_s)
    from fitting as f
    where f.dedup_id is not null
    on conflict (bin_id, dedup_id, group_id) do update
    set message_id = excluded.message_id,
        expires_at = excluded.expires_at
    -- One that has not expired was stored by another transaction meanwhile: this entry is its duplicate.
    where d.expires_at <= p_now
    returning d.message_id
  )
  select
    array_agg(
      case when f.dedup_id is null or f.id in (select r.message_id from remembered as r) then f.id end
      order by j.position
    ),
    array_agg(
      case when j.code is not null then j.code when not j.duplicate and f.id is null then 'PS040' end
      order by j.position
    )
  into ids, codes
  from judged as j
  left join fitting as f on f.position = j.position;
end;
$$;

-- Stores the entries that have an id. Returns, in the order of the entries, the sequence numbers that implicit queues
-- give to their messages.
create or replace function penstock.store_sends(
  p_entries penstock.send_entry[],
  p_ids bigint[],
  p_bodies text[],
  p_json boolean[],
  p_attributes text[],
  p_headers text[],
  p_traces text[],
  p_now timestamptz
)
returns bigint[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_sequences bigint[];
begin
  with kept as materialized (
    select
      e.*,
      row_number() over (partition by e.bin_id, e.group_id order by e.id) as rank_in_group,
      row_number() over (partition by e.bin_id order by e.id) as rank_in_queue
    from unnest(p_entries, p_ids) as e (
      position, queue_id, bin_id, fifo, lifo, implicit, max_length, group_id, dedup_id, dedup_group, dedup_window_s,
      priority, delay_s, retention_s, id
    )
    where e.id is not null
  ),
  numbered as materialized (
    -- Only by nodes: the transaction of a user may stay open, and would block all other senders.
    update penstock.queue_sequences as s
    set last = s.last + n.messages
    from (
      select k.queue_id, count(*) as messages
      from kept as k
      where k.implicit
        and current_setting('penstock.node', true) <> ''
      group by k.queue_id
    ) as n
    where s.queue_id = n.queue_id
    returning s.queue_id, s.last - n.messages as before
  ),
  stored as (
    insert into penstock.messages (
      bin_id, id, place, visible_at, sent_at, expires_at, priority, state, is_json, group_id, dedup_id, trace,
      attributes, headers, body, sequence
    )
    select
      k.bin_id, k.id, penstock.place_of(k.priority, k.id, k.lifo), p_now + make_interval(secs => k.delay_s), p_now,
      p_now + make_interval(secs => k.retention_s), k.priority,
      case
        when k.fifo and (
          k.rank_in_group > 1
          -- Not "exists": the planner may turn that into a hash table of all groups, for every send.
          or (
            select true from penstock.messages as m
            where m.bin_id = k.bin_id and m.group_id = k.group_id and m.state <> 3
            limit 1
          )
        ) then 3
        when k.delay_s > 0 then 2
        else 0
      end,
      coalesce(p_json[k.position], false), k.group_id, k.dedup_id, p_traces[k.position], p_attributes[k.position]::json,
      p_headers[k.position]::json, p_bodies[k.position], n.before + k.rank_in_queue
    from kept as k
    left join numbered as n on n.queue_id = k.queue_id
  ),
  counted as (
    insert into penstock.bin_changes (bin_id, arrived) select k.bin_id, count(*) from kept as k group by k.bin_id
  )
  select array_agg(n.before + k.rank_in_queue order by i.nth)
  into v_sequences
  from unnest(p_ids) with ordinality as i (id, nth)
  left join kept as k on k.id = i.id
  left join numbered as n on n.queue_id = k.queue_id;
  return v_sequences;
end;
$$;

drop function if exists penstock.send_carefully(
  integer[], bigint[], text[], bigint[], text[], text[], boolean[], integer[], integer[], text[], text[], integer[], integer[],
  text[], text[], text[], timestamptz
);

-- Sends the entries at p_positions and puts their ids and codes into p_ids and p_codes.
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
  out duplicates boolean[],
  out sequences bigint[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bins bigint[];
  v_entries penstock.send_entry[];
  v_entry penstock.send_entry;
  v_position integer;
  v_ids bigint[];
  v_codes text[];
  v_sequences bigint[];
begin
  ids := p_ids;
  codes := p_codes;
  duplicates := array_fill(false, array[cardinality(p_queues)]);
  sequences := array_fill(null::bigint, array[cardinality(p_queues)]);
  loop
    v_bins := penstock.lock_sends(p_positions, p_tenants, p_queues, p_groups);
    v_entries := penstock.describe_sends(
      p_positions, p_tenants, p_queues, p_bodies, p_delays, p_priorities, p_groups, p_dedups, p_dedup_windows,
      p_retentions
    );
    -- A queue that was purged while this waited has another bin, in which others may hold the same groups.
    exit when array(select e.bin_id from unnest(v_entries) as e) <@ v_bins;
  end loop;
  select a.ids, a.codes into v_ids, v_codes from penstock.admit_sends(v_entries, p_now) as a;
  v_sequences := penstock.store_sends(v_entries, v_ids, p_bodies, p_json, p_attributes, p_headers, p_traces, p_now);
  if cardinality(v_entries) < cardinality(p_positions) then
    -- A queue was dropped while this send waited for a lock.
    foreach v_position in array p_positions loop
      codes[v_position] := 'PS021';
    end loop;
  end if;
  for v_nth in 1 .. cardinality(v_entries) loop
    v_entry := v_entries[v_nth];
    ids[v_entry.position] := v_ids[v_nth];
    codes[v_entry.position] := v_codes[v_nth];
    sequences[v_entry.position] := v_sequences[v_nth];
    if v_ids[v_nth] is null and v_codes[v_nth] is null then
      duplicates[v_entry.position] := true;
      ids[v_entry.position] := penstock.find_duplicate(v_entry.bin_id, v_entry.dedup_id, v_entry.dedup_group, p_now);
      if ids[v_entry.position] is null then
        -- It repeats an entry of this batch for which there was no room.
        codes[v_entry.position] := 'PS040';
      end if;
    end if;
  end loop;
end;
$$;
