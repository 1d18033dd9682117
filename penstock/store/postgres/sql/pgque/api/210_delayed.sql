-- Delayed delivery: events wait in a table of their own until maintenance moves those that are due.

-- The id of the event when it is due already; otherwise the number of the waiting row, which is not the later id.
create or replace function pgque.send_at(
  i_queue text,
  i_type text,
  i_payload text,
  i_deliver_at timestamptz,
  i_extra1 text default null,
  i_extra2 text default null,
  i_extra3 text default null,
  i_extra4 text default null
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_number bigint;
begin
  if i_deliver_at is null then
    raise exception 'deliver_at must not be null' using errcode = 'null_value_not_allowed';
  elsif i_deliver_at <= clock_timestamp() then
    return pgque.insert_event(i_queue, i_type, i_payload, i_extra1, i_extra2, i_extra3, i_extra4);
  end if;
  perform pgque.queue_for_insert(i_queue, 0);
  insert into pgque.delayed_events as d (
    de_queue_name, de_deliver_at, de_type, de_data, de_extra1, de_extra2, de_extra3, de_extra4
  )
  values (i_queue, i_deliver_at, i_type, i_payload, i_extra1, i_extra2, i_extra3, i_extra4)
  returning d.de_id into v_number;
  return v_number;
end;
$$;

create or replace function pgque.send_at(
  i_queue text,
  i_type text,
  i_payload jsonb,
  i_deliver_at timestamptz,
  i_extra1 text default null,
  i_extra2 text default null,
  i_extra3 text default null,
  i_extra4 text default null
)
returns bigint
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select pgque.send_at(i_queue, i_type, i_payload::text, i_deliver_at, i_extra1, i_extra2, i_extra3, i_extra4);
$$;

-- Moves the events that are due, at most 10000, in the order of their times; the number of them. Several sessions may
-- do this at the same time. Events for a queue that was dropped are deleted. Events for a queue that accepts no inserts
-- wait.
create or replace function pgque.maint_deliver_delayed()
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_due record;
  v_moved integer := 0;
begin
  for v_due in
    with gone as (
      delete from pgque.delayed_events as d
      using (
        select e.de_id
        from pgque.delayed_events as e
        left join pgque.queue as q on q.queue_name = e.de_queue_name
        where e.de_deliver_at <= clock_timestamp()
          and not coalesce(q.queue_disable_insert, false)
        order by e.de_deliver_at, e.de_id
        limit 10000
        for update of e skip locked
      ) as due
      where d.de_id = due.de_id
      returning d.*
    )
    select
      g.de_queue_name as queue,
      array_agg(g.de_type order by g.de_deliver_at, g.de_id) as types,
      array_agg(g.de_data order by g.de_deliver_at, g.de_id) as data,
      array_agg(g.de_extra1 order by g.de_deliver_at, g.de_id) as extra1,
      array_agg(g.de_extra2 order by g.de_deliver_at, g.de_id) as extra2,
      array_agg(g.de_extra3 order by g.de_deliver_at, g.de_id) as extra3,
      array_agg(g.de_extra4 order by g.de_deliver_at, g.de_id) as extra4
    from gone as g
    join pgque.queue as q on q.queue_name = g.de_queue_name
    group by g.de_queue_name
    order by g.de_queue_name
  loop
    -- Not counted for queue_per_tx_limit, which is about the transactions of producers.
    perform pgque.put_events(
      pgque.queue_for_insert(v_due.queue, 0), v_due.types, v_due.data, v_due.extra1, v_due.extra2, v_due.extra3, v_due.extra4
    );
    v_moved := v_moved + cardinality(v_due.data);
  end loop;
  return v_moved;
end;
$$;
