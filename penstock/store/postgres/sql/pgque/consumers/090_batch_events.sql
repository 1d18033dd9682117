-- The events of a batch: those of the transactions that were over at its second tick and not yet at its first.
--
-- They are found in two ways. By transaction, for a whole batch: the ids that began between the two snapshots are a
-- range of the index on ev_txid, and those that were running at the first and over at the second are a list. By event
-- id, for a piece or a single event: a range of the index on ev_id, filtered by both snapshots. In each way the other
-- index would be the wrong one, so the conditions are written such that it cannot be used.

do $$
begin
  create type pgque.batch as (
    batch_id bigint,
    sub_queue integer,
    sub_id integer,
    sub_part integer,
    sub_parts integer,
    tables text[],
    last_snapshot pg_snapshot,
    cur_snapshot pg_snapshot,
    oldest timestamptz,
    sub_done bigint,
    sub_seen bigint,
    sub_end bigint,
    loads bigint[]
  );
exception
  when duplicate_object then null;
end;
$$;

do $$
begin
  alter type pgque.batch add attribute loads bigint[];
exception
  when duplicate_column then null;
end;
$$;

create or replace function pgque.open_batch(i_batch_id bigint)
returns pgque.batch
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_member integer := pgque.member_of_batch(i_batch_id);
  v_now pgque.progress_0;
  v_batch pgque.batch;
begin
  if v_member is not null and (select true from pgque.subscriber as s where s.sub_member = v_member) then
    v_now := pgque.read_progress(v_member);
  end if;
  if v_now.sub_batch is distinct from i_batch_id or i_batch_id is null then
    raise exception 'batch not found: %', i_batch_id using errcode = 'PS034';
  end if;
  select
    i_batch_id, s.sub_queue, s.sub_id, s.sub_part, s.sub_parts,
    pgque.batch_tables(q, last.tick_snapshot, cur.tick_snapshot),
    last.tick_snapshot, cur.tick_snapshot, now() - q.queue_event_ttl,
    v_now.sub_done, v_now.sub_seen, v_now.sub_end,
    pgque.batch_loads(q.queue_id, last.tick_snapshot, cur.tick_snapshot)
  into v_batch
  from pgque.subscriber as s
  join pgque.queue as q on q.queue_id = s.sub_queue
  join pgque.tick as last on last.tick_queue = s.sub_queue and last.tick_id = v_now.sub_last_tick
  join pgque.tick as cur on cur.tick_queue = s.sub_queue and cur.tick_id = v_now.sub_next_tick
  where s.sub_member = v_member;
  if v_batch.batch_id is null then
    raise exception 'batch not found: %', i_batch_id using errcode = 'PS034';
  end if;
  if (select q.queue_restricted from pgque.queue as q where q.queue_id = v_batch.sub_queue) then
    perform pgque.check_access(v_batch.sub_queue, 'consume');
  end if;
  return v_batch;
end;
$$;

-- The tables a batch may have events in: the current one, the one before, or both when they turned in between.
create or replace function pgque.batch_tables(i_queue pgque.queue, i_last pg_snapshot, i_cur pg_snapshot)
returns text[]
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_current text := pgque.event_table(i_queue.queue_id, i_queue.queue_cur_table);
  v_before text := pgque.event_table(
    i_queue.queue_id, (i_queue.queue_cur_table + i_queue.queue_ntables - 1) % i_queue.queue_ntables
  );
begin
  if pg_snapshot_xmin(i_last) > i_queue.queue_switch_step2 then
    return array[v_current];
  elsif pg_snapshot_xmax(i_cur) <= i_queue.queue_switch_step1 then
    return array[v_before];
  end if;
  return array[v_before, v_current];
end;
$$;

-- The loads that a batch has: those that were published in between.
create or replace function pgque.batch_loads(i_queue_id integer, i_last pg_snapshot, i_cur pg_snapshot)
returns bigint[]
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select array(
    select l.load_id
    from pgque.load as l
    where l.load_queue = i_queue_id
      and l.load_txid >= pg_snapshot_xmin(i_last)
      and l.load_txid < pg_snapshot_xmax(i_cur)
      and pg_visible_in_snapshot(l.load_txid, i_cur)
      and not pg_visible_in_snapshot(l.load_txid, i_last)
    order by l.load_id
  )
$$;

-- Those of them with ids in between; null is no bound. Each load costs a query something even when nothing of it is
-- wanted, so the others are left out.
create or replace function pgque.loads_between(i_batch pgque.batch, i_after bigint, i_through bigint)
returns bigint[]
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if i_batch.loads = '{}' then
    return '{}';
  end if;
  return array(
    select l.load_id
    from pgque.load as l
    where l.load_id = any (i_batch.loads)
      and l.load_last > coalesce(i_after, 0)
      and l.load_first <= coalesce(i_through, 9223372036854775807)
  );
end;
$$;

-- All that events of the batch with such ids are read from.
create or replace function pgque.batch_sources(i_batch pgque.batch, i_after bigint, i_through bigint)
returns text[]
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_loads bigint[] := pgque.loads_between(i_batch, i_after, i_through);
begin
  if v_loads = '{}' then
    return i_batch.tables;
  end if;
  return i_batch.tables || array(
    select pgque.load_source(l) from pgque.load as l where l.load_id = any (v_loads) order by l.load_id
  );
end;
$$;

-- Parameters of both texts: $1 first and $2 second snapshot, $3 transactions over only at the second, $4 owner,
-- $5 and $6 bounds of the event id, $7 oldest time, $8 part and $9 parts.

create or replace function pgque.batch_sql_by_transaction(i_batch pgque.batch, i_columns text, i_older boolean)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_filter text := pgque.batch_filter(i_batch);
  v_table text;
  v_parts text[] := '{}';
begin
  if i_batch.sub_done is not null then
    v_filter := v_filter || ' and e.ev_id + 0 > $5';
  end if;
  foreach v_table in array pgque.batch_sources(i_batch, i_batch.sub_done, null) loop
    v_parts := v_parts || format(
      'select %s from %s as e where e.ev_txid >= pg_snapshot_xmax($1) and e.ev_txid < pg_snapshot_xmax($2)%s%s',
      i_columns, v_table, ' and pg_visible_in_snapshot(e.ev_txid, $2)', v_filter
    );
    if i_older then
      v_parts := v_parts || format('select %s from %s as e where e.ev_txid = any ($3)%s', i_columns, v_table, v_filter);
    end if;
  end loop;
  return array_to_string(v_parts, ' union all ');
end;
$$;

drop function if exists pgque.batch_sql_by_id(pgque.batch, text, text);

create or replace function pgque.batch_sql_by_id(
  i_batch pgque.batch, i_columns text, i_end text, i_after bigint, i_through bigint
)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_filter text := pgque.batch_filter(i_batch);
  v_table text;
  v_parts text[] := '{}';
begin
  foreach v_table in array pgque.batch_sources(i_batch, i_after, i_through) loop
    v_parts := v_parts || format(
      '(select %s from %s as e where e.ev_id > $5 and e.ev_id <= $6'
        || ' and pg_visible_in_snapshot(e.ev_txid, $2) and not pg_visible_in_snapshot(e.ev_txid, $1)%s%s)',
      i_columns, v_table, v_filter, i_end
    );
  end loop;
  return array_to_string(v_parts, ' union all ');
end;
$$;

create or replace function pgque.batch_filter(i_batch pgque.batch)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  -- Only the conditions there are: each is paid for by every event.
  select ' and (e.ev_owner is null or e.ev_owner = $4)'
    || case when i_batch.oldest is null then '' else ' and e.ev_time > $7' end
    || case
      when i_batch.sub_parts = 1 then ''
      else ' and pgque.part_of(e.ev_extra4, $9) = $8'
    end
$$;

create or replace function pgque.part_of(i_key text, i_parts integer)
returns integer
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  -- Events without a key need no order; they all fall into the first part.
  select case when i_key is null then 0 else ((hashtextextended(i_key, 0) & 9223372036854775807) % i_parts)::integer end
$$;

create or replace function pgque.older_transactions(i_batch pgque.batch)
returns xid8[]
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select array(
    select x from pg_snapshot_xip(i_batch.last_snapshot) as x where pg_visible_in_snapshot(x, i_batch.cur_snapshot)
  )
$$;

-- The names of the tables that events of the batch may be in.
create or replace function pgque.batch_event_tables(x_batch_id bigint)
returns setof text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_batch pgque.batch := pgque.open_batch(x_batch_id);
begin
  return query
  select unnest(v_batch.tables)
  union all
  select pgque.load_table(v_batch.sub_queue, l.load_id) from unnest(v_batch.loads) as l (load_id);
end;
$$;

-- A statement that reads the events of the batch. It contains the values it needs, so a caller who may read the event
-- tables can run it without this function.
create or replace function pgque.batch_event_sql(x_batch_id bigint)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_batch pgque.batch := pgque.open_batch(x_batch_id);
  v_older xid8[] := pgque.older_transactions(v_batch);
  v_values text[] := array[
    quote_literal(v_batch.last_snapshot) || '::pg_snapshot', quote_literal(v_batch.cur_snapshot) || '::pg_snapshot',
    quote_literal(v_older) || '::xid8[]', v_batch.sub_id::text, v_batch.sub_done::text, 'null',
    quote_literal(v_batch.oldest) || '::timestamptz', v_batch.sub_part::text, v_batch.sub_parts::text
  ];
  v_sql text := pgque.batch_sql_by_transaction(v_batch, pgque.event_columns(), v_older <> '{}');
begin
  for v_number in 1 .. cardinality(v_values) loop
    v_sql := replace(v_sql, '$' || v_number, coalesce(v_values[v_number], 'null'));
  end loop;
  return v_sql || ' order by 1';
end;
$$;

-- The events of the batch that were not acknowledged, in the order of their ids.
create or replace function pgque.get_batch_events(x_batch_id bigint)
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
  v_batch pgque.batch := pgque.open_batch(x_batch_id);
  v_older xid8[] := pgque.older_transactions(v_batch);
begin
  return query execute
    pgque.batch_sql_by_transaction(v_batch, pgque.event_columns(), v_older <> '{}') || ' order by 1'
  using v_batch.last_snapshot, v_batch.cur_snapshot, v_older, v_batch.sub_id, v_batch.sub_done, null::bigint,
    v_batch.oldest, v_batch.sub_part, v_batch.sub_parts;
end;
$$;

create or replace function pgque.event_columns()
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  -- The sum prevents a scan of the index on ev_id in order to sort: that index holds the events of every batch.
  select 'e.ev_id + 0 as ev_id, e.ev_time, e.ev_txid, e.ev_retry, e.ev_type, e.ev_data,'
    || ' e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4'
$$;
