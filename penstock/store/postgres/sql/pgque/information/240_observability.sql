-- State of the queues. All numbers come from ticks, which have the number of the last event before them; event tables
-- are never counted. Numbers of events are therefore estimates: rolled back and retried events count too.

-- Dead letters of a queue, counted up to ten thousand: beyond that more is just more.
create or replace function pgque.count_dead_letters(i_queue integer)
returns bigint
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select count(*)
  from (select 1 from pgque.dead_letter as d where d.dl_queue_id = i_queue limit 10000) as bounded;
$$;

-- Where each consumer stands: its last tick, and the newest one of the queue.
create or replace function pgque.consumer_places()
returns table (
  queue_id integer,
  queue_name text,
  consumer_name text,
  sub_role text,
  last_active timestamptz,
  batch_id bigint,
  next_tick bigint,
  tick_id bigint,
  tick_time timestamptz,
  tick_event_seq bigint,
  newest_event_seq bigint
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    q.queue_id, q.queue_name, c.co_name, s.sub_role, s.sub_active, s.sub_batch, s.sub_next_tick,
    t.tick_id, t.tick_time, t.tick_event_seq, newest.tick_event_seq
  from pgque.subscription as s
  join pgque.queue as q on q.queue_id = s.sub_queue
  join pgque.consumer as c on c.co_id = s.sub_consumer
  left join pgque.tick as t on t.tick_queue = s.sub_queue and t.tick_id = s.sub_last_tick
  left join lateral (
    select n.tick_event_seq
    from pgque.tick as n
    where n.tick_queue = s.sub_queue
    order by n.tick_id desc
    limit 1
  ) as newest on true;
$$;

create or replace function pgque.queue_stats()
returns table (
  queue_name text,
  queue_id integer,
  depth bigint,
  oldest_msg_age interval,
  consumers integer,
  events_per_sec numeric,
  cur_table integer,
  rotation_age interval,
  rotation_period interval,
  ticker_paused boolean,
  last_tick_time timestamptz,
  last_tick_id bigint,
  dlq_count bigint
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    q.queue_name, q.queue_id,
    coalesce(places.depth, 0), places.age, coalesce(places.consumers, 0),
    case
      when ticks.second_time is null or ticks.first_time = ticks.second_time then 0
      else round((ticks.first_seq - ticks.second_seq) / extract(epoch from ticks.first_time - ticks.second_time), 3)
    end,
    q.queue_cur_table, now() - q.queue_switch_time, q.queue_rotation_period, q.queue_ticker_paused,
    ticks.first_time, ticks.first_id, pgque.count_dead_letters(q.queue_id)
  from pgque.queue as q
  left join (
    select
      p.queue_id,
      max(p.newest_event_seq - p.tick_event_seq) as depth,
      now() - min(p.tick_time) filter (where p.tick_event_seq < p.newest_event_seq) as age,
      count(*) filter (where p.sub_role <> 'member')::integer as consumers
    from pgque.consumer_places() as p
    group by p.queue_id
  ) as places on places.queue_id = q.queue_id
  left join lateral (
    select
      n.ids[1] as first_id, n.times[1] as first_time, n.seqs[1] as first_seq,
      n.times[2] as second_time, n.seqs[2] as second_seq
    from (
      select
        array_agg(t.tick_id order by t.tick_id desc) as ids,
        array_agg(t.tick_time order by t.tick_id desc) as times,
        array_agg(t.tick_event_seq order by t.tick_id desc) as seqs
      from (
        select * from pgque.tick as k where k.tick_queue = q.queue_id order by k.tick_id desc limit 2
      ) as t
    ) as n
  ) as ticks on true
  order by q.queue_name;
$$;

create or replace function pgque.consumer_stats()
returns table (
  queue_name text,
  consumer_name text,
  lag interval,
  pending_events bigint,
  last_seen timestamptz,
  batch_active boolean,
  batch_id bigint
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    p.queue_name, p.consumer_name, now() - p.tick_time,
    coalesce(p.newest_event_seq - p.tick_event_seq, 0),
    p.last_active, p.batch_id is not null, p.batch_id
  from pgque.consumer_places() as p
  order by p.queue_name, p.consumer_name;
$$;

-- Batches that are open, and how many events are about in each.
create or replace function pgque.in_flight(i_queue text)
returns table (consumer_name text, batch_id bigint, batch_age interval, estimated_events bigint)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select p.consumer_name, p.batch_id, clock_timestamp() - p.last_active, n.tick_event_seq - p.tick_event_seq
  from pgque.consumer_places() as p
  left join pgque.tick as n on n.tick_queue = p.queue_id and n.tick_id = p.next_tick
  where p.queue_name = i_queue
    and p.batch_id is not null
  order by p.consumer_name;
$$;

create or replace function pgque.stuck_consumers(i_threshold interval default '1 hour')
returns table (queue_name text, consumer_name text, lag interval, last_active timestamptz)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select p.queue_name, p.consumer_name, now() - p.tick_time, p.last_active
  from pgque.consumer_places() as p
  where p.sub_role <> 'member'
    and now() - p.tick_time > i_threshold
  order by p.tick_time;
$$;
