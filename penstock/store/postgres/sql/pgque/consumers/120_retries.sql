-- Retries: a copy of an event that is delivered later, only to the subscription that asked for it.

create or replace function pgque.event_retry(x_batch_id bigint, x_event_id bigint, x_retry_time timestamptz)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_batch pgque.batch := pgque.open_batch(x_batch_id);
  v_found boolean := (select true from pgque.batch_events_between(v_batch, x_event_id - 1, x_event_id) limit 1);
begin
  if v_found is null or x_event_id <= v_batch.sub_done then
    raise exception 'event not found: %', x_event_id using errcode = 'PS020';
  end if;
  return pgque.add_retries(v_batch, x_event_id, x_retry_time);
end;
$$;

-- Stores copies of one event of the batch, or of all of them when no id is given, each with one more retry; the number
-- of those that were not waiting already. Of an event and its retry in the same batch, the retry is copied.
create or replace function pgque.add_retries(i_batch pgque.batch, i_event_id bigint, i_retry_time timestamptz)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_added integer;
begin
  insert into pgque.retry_queue (
    ev_retry_after, ev_queue, ev_id, ev_time, ev_owner, ev_retry, ev_type, ev_data,
    ev_extra1, ev_extra2, ev_extra3, ev_extra4
  )
  select
    i_retry_time, i_batch.sub_queue, e.ev_id, e.ev_time, i_batch.sub_id, coalesce(e.ev_retry, 0) + 1, e.ev_type,
    e.ev_data, e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
  from (
    select * from pgque.get_batch_events(i_batch.batch_id) where i_event_id is null
    union all
    (select *
     from pgque.batch_events_between(i_batch, i_event_id - 1, i_event_id) as o
     where i_event_id is not null
     order by o.ev_retry desc nulls last)
  ) as e
  on conflict do nothing;
  get diagnostics v_added = row_count;
  return v_added;
end;
$$;

create or replace function pgque.event_retry(x_batch_id bigint, x_event_id bigint, x_retry_seconds integer)
returns integer
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select pgque.event_retry(x_batch_id, x_event_id, now() + make_interval(secs => x_retry_seconds))
$$;

create or replace function pgque.batch_retry(i_batch_id bigint, i_retry_seconds integer)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_batch pgque.batch := pgque.open_batch(i_batch_id);
begin
  return pgque.add_retries(v_batch, null, now() + make_interval(secs => i_retry_seconds));
end;
$$;

create or replace function pgque.event_retry_raw(
  x_queue text,
  x_consumer text,
  x_retry_after timestamptz,
  x_ev_id bigint,
  x_ev_time timestamptz,
  x_ev_retry integer,
  x_ev_type text,
  x_ev_data text,
  x_ev_extra1 text,
  x_ev_extra2 text,
  x_ev_extra3 text,
  x_ev_extra4 text
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer := pgque.check_consume(x_queue);
  v_owner integer;
  v_id bigint := x_ev_id;
begin
  select s.sub_id into v_owner
  from pgque.subscriber as s
  join pgque.consumer as c on c.co_id = s.sub_consumer
  where s.sub_queue = v_queue
    and c.co_name = x_consumer;
  if v_owner is null then
    raise exception 'consumer not registered: %', x_consumer using errcode = 'PS026';
  end if;
  if v_id is null then
    v_id := nextval(('pgque.event_' || v_queue || '_id_seq')::regclass);
  end if;
  insert into pgque.retry_queue (
    ev_retry_after, ev_queue, ev_id, ev_time, ev_owner, ev_retry, ev_type, ev_data,
    ev_extra1, ev_extra2, ev_extra3, ev_extra4
  )
  values (
    x_retry_after, v_queue, v_id, coalesce(x_ev_time, now()), v_owner, x_ev_retry, x_ev_type, x_ev_data,
    x_ev_extra1, x_ev_extra2, x_ev_extra3, x_ev_extra4
  );
  return v_id;
end;
$$;

-- Inserts the retries that are due back into their queues, at most 1000; the number of them. Retries of a queue that
-- accepts no inserts wait. They are not counted for queue_per_tx_limit, which is about the transactions of producers.
create or replace function pgque.maint_retry_events()
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_due pgque.retry_queue;
  v_queue pgque.queue;
  v_moved integer := 0;
begin
  for v_due in
    delete from pgque.retry_queue as r
    where r.ctid = any (
      array(
        select d.ctid
        from pgque.retry_queue as d
        join pgque.queue as q on q.queue_id = d.ev_queue and not q.queue_disable_insert
        where d.ev_retry_after <= clock_timestamp()
        order by d.ev_retry_after
        limit 1000
        for update of d skip locked
      )
    )
    returning r.*
  loop
    v_queue := pgque.queue_for_insert((select q.queue_name from pgque.queue as q where q.queue_id = v_due.ev_queue), 0);
    -- Uses up an id, as in PgQ: the ticker sees by the sequence that there is something new.
    perform nextval(v_queue.queue_event_seq::regclass);
    perform pgque.put_event(
      v_queue, v_due.ev_owner,
      row(
        v_due.ev_id, v_due.ev_time, null, v_due.ev_retry, v_due.ev_type, v_due.ev_data,
        v_due.ev_extra1, v_due.ev_extra2, v_due.ev_extra3, v_due.ev_extra4
      )
    );
    v_moved := v_moved + 1;
  end loop;
  return v_moved;
end;
$$;
