-- A batch can be delivered in portions. The subscription keeps two ids within the batch: up to which events were
-- delivered, and up to which they were acknowledged. So a batch of any size can be received, and events that were not
-- delivered are never acknowledged.

-- About i_max events of the batch after those acknowledged. The same ones are returned until they are acknowledged.
create or replace function pgque.batch_hand_out(i_batch_id bigint, i_max integer)
returns setof pgque.event
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set work_mem = '64MB'
as $$
declare
  v_now pgque.progress_0 := pgque.lock_batch(i_batch_id);
  v_batch pgque.batch;
  v_through bigint;
begin
  v_batch := pgque.open_batch(i_batch_id);
  if i_max is null or i_max < 1 then
    raise exception 'at least one event is handed out' using errcode = 'PS010';
  end if;
  v_through := pgque.cut(v_batch, i_max);
  if v_through is not null and v_batch.sub_end is null then
    v_batch.sub_end := pgque.last_event(v_batch);
  end if;
  if v_through >= v_batch.sub_end then
    v_through := null;
  end if;
  if v_through is distinct from v_now.sub_seen or v_batch.sub_end is distinct from v_now.sub_end then
    v_now.sub_step := v_now.sub_step + 1;
    v_now.sub_active := now();
    v_now.sub_seen := v_through;
    v_now.sub_end := v_batch.sub_end;
    perform pgque.write_progress(v_now);
  end if;
  if v_batch.sub_end is null then
    return query select * from pgque.get_batch_events(i_batch_id);
  else
    return query
    select *
    from pgque.batch_events_between(v_batch, coalesce(v_batch.sub_done, 0), coalesce(v_through, v_batch.sub_end));
  end if;
end;
$$;

-- The id of the last event in a portion of i_max events; null when that is the whole batch. An event and its retry may
-- have the same id and are then in the same portion. No table is read beyond the portion.
create or replace function pgque.cut(i_batch pgque.batch, i_max integer)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v_older xid8[] := pgque.older_transactions(i_batch);
  v_batch pgque.batch := i_batch;
  v_after bigint := coalesce(i_batch.sub_done, 0);
  v_through bigint := least(i_batch.sub_end, pgque.within_loads(i_batch, i_max));
  v_id bigint;
begin
  if i_max = 2147483647 then
    return null;
  elsif i_batch.sub_end is null then
    v_batch.loads := pgque.loads_between(i_batch, v_after, v_through);
    execute 'select b.id from (' || pgque.batch_sql_by_transaction(v_batch, 'e.ev_id + 0 as id', v_older <> '{}')
      || ') as b order by b.id offset $10 - 1 limit 1'
    into v_id
    using i_batch.last_snapshot, i_batch.cur_snapshot, v_older, i_batch.sub_id, i_batch.sub_done, null::bigint,
      i_batch.oldest, i_batch.sub_part, i_batch.sub_parts, i_max;
  else
    execute 'select b.ev_id from ('
      || pgque.batch_sql_by_id(i_batch, 'e.ev_id', ' order by e.ev_id limit $10', v_after, v_through)
      || ') as b order by b.ev_id offset $10 - 1 limit 1'
    into v_id
    using i_batch.last_snapshot, i_batch.cur_snapshot, v_older, i_batch.sub_id, v_after, v_through, i_batch.oldest,
      i_batch.sub_part, i_batch.sub_parts, i_max;
  end if;
  return v_id;
end;
$$;

-- An id up to which the next loads alone have i_max events, so that nothing after it must be read; null when they have
-- fewer, or not all of their events are for this subscription.
create or replace function pgque.within_loads(i_batch pgque.batch, i_max integer)
returns bigint
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not pgque.has_whole_loads(i_batch) then
    return null;
  end if;
  return (
    select min(n.load_last)
    from (
      select l.load_last, sum(l.load_rows) over (order by l.load_last, l.load_id) as events
      from pgque.load as l
      where l.load_id = any (i_batch.loads)
        and l.load_first > coalesce(i_batch.sub_done, 0)
    ) as n
    where n.events >= i_max
  );
end;
$$;

-- Whether there are several loads and each of their events is for this subscription.
create or replace function pgque.has_whole_loads(i_batch pgque.batch)
returns boolean
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select cardinality(i_batch.loads) > 1 and i_batch.sub_parts = 1 and i_batch.oldest is null
$$;

create or replace function pgque.last_event(i_batch pgque.batch)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v_older xid8[] := pgque.older_transactions(i_batch);
  v_batch pgque.batch := i_batch;
  v_id bigint;
begin
  if pgque.has_whole_loads(i_batch) then
    -- The last event is in this load or in an event table.
    v_batch.loads := array(
      select l.load_id
      from pgque.load as l
      where l.load_id = any (i_batch.loads)
      order by l.load_last desc nulls last
      limit 1
    );
  end if;
  execute 'select max(b.id) from (' || pgque.batch_sql_by_transaction(v_batch, 'e.ev_id + 0 as id', v_older <> '{}')
    || ') as b'
  into v_id
  using i_batch.last_snapshot, i_batch.cur_snapshot, v_older, i_batch.sub_id, i_batch.sub_done, null::bigint,
    i_batch.oldest, i_batch.sub_part, i_batch.sub_parts;
  return v_id;
end;
$$;

create or replace function pgque.batch_events_between(i_batch pgque.batch, i_after bigint, i_through bigint)
returns setof pgque.event
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
  return query execute
    pgque.batch_sql_by_id(i_batch, pgque.event_columns(), '', i_after, i_through) || ' order by 1'
  using i_batch.last_snapshot, i_batch.cur_snapshot, null::xid8[], i_batch.sub_id, i_after, i_through, i_batch.oldest,
    i_batch.sub_part, i_batch.sub_parts;
end;
$$;

-- Acknowledges the events that were delivered. When the batch has more, the rest becomes a batch with a new id, so that
-- a repeated acknowledgement has no effect on it. With i_through, only events up to that one are acknowledged; returns
-- 0 when they already were.
create or replace function pgque.batch_acknowledge(i_batch_id bigint, i_through bigint default null)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now pgque.progress_0 := pgque.lock_batch(i_batch_id);
  v_through bigint := least(i_through, v_now.sub_seen);
begin
  if v_now.sub_member is null then
    raise exception 'batch not found: %', i_batch_id using errcode = 'PS034';
  end if;
  if v_through <= v_now.sub_done then
    return 0;
  end if;
  if v_through is not null and v_now.sub_end is null then
    v_now.sub_end := pgque.last_event(pgque.open_batch(i_batch_id));
  end if;
  if v_through is null or v_through >= coalesce(v_now.sub_end, v_through) then
    perform pgque.finish(v_now);
    return 1;
  end if;
  v_now.sub_step := v_now.sub_step + 1;
  v_now.sub_active := now();
  v_now.sub_batch := nextval('pgque.batch_id_seq');
  v_now.sub_done := v_through;
  v_now.sub_seen := v_through;
  perform pgque.write_progress(v_now);
  return 1;
end;
$$;

-- One event of the batch: not acknowledged yet, and delivered already unless the batch is not delivered in portions.
create or replace function pgque.batch_event(i_batch_id bigint, i_event_id bigint)
returns setof pgque.event
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_batch pgque.batch := pgque.open_batch(i_batch_id);
begin
  if i_event_id > coalesce(v_batch.sub_done, i_event_id - 1)
    and i_event_id <= coalesce(v_batch.sub_seen, i_event_id)
  then
    return query select * from pgque.batch_events_between(v_batch, i_event_id - 1, i_event_id);
  end if;
end;
$$;
