-- Queries of Spark's driver about streams.

-- name: stream
select
  q.queue_id,
  array_to_string(
    array(
      select pgque.event_table(q.queue_id, n)
      from generate_series(0, q.queue_ntables - 1) as n
    ),
    ' '
  )
from pgque.queue as q
where q.queue_name = $1;

-- name: loads
select pgque.load_source(l), l.load_first, l.load_last, l.load_rows
from pgque.load as l
where l.load_id = any (pgque.batch_loads($1::integer, $2::pg_snapshot, $3::pg_snapshot))
  and l.load_rows > 0
order by l.load_id;

-- name: streams_like
select q.queue_name
from pgque.queue as q
where starts_with(q.queue_name, $1)
  and substr(q.queue_name, length($1) + 1) ~ ('^(?:' || $2 || ')$');

-- name: tick
select t.tick_id, t.tick_snapshot::text, t.tick_event_seq, extract(epoch from t.tick_time)::float8
from pgque.tick as t
where t.tick_queue = $1
  and t.tick_id = $2;

-- name: oldest_tick
select t.tick_id, t.tick_snapshot::text, t.tick_event_seq, extract(epoch from t.tick_time)::float8
from pgque.tick as t
where t.tick_queue = $1
order by t.tick_id
limit 1;

-- name: newest_tick
select t.tick_id, t.tick_snapshot::text, t.tick_event_seq, extract(epoch from t.tick_time)::float8
from pgque.tick as t
where t.tick_queue = $1
order by t.tick_id desc
limit 1;

-- name: next_tick
select t.tick_id, t.tick_snapshot::text, t.tick_event_seq, extract(epoch from t.tick_time)::float8
from pgque.tick as t
where t.tick_queue = $1
  and t.tick_id > $2
order by t.tick_id
limit 1;

-- name: last_tick_within
select t.tick_id, t.tick_snapshot::text, t.tick_event_seq, extract(epoch from t.tick_time)::float8
from pgque.tick as t
where t.tick_queue = $1
  and t.tick_id > $2
  and t.tick_id <= $3
  and t.tick_event_seq <= $4
order by t.tick_id desc
limit 1;

-- name: tick_before
select t.tick_id, t.tick_snapshot::text, t.tick_event_seq, extract(epoch from t.tick_time)::float8
from pgque.tick as t
where t.tick_queue = $1
  and t.tick_time <= $2::timestamptz
order by t.tick_id desc
limit 1;

-- name: position
select s.sub_last_tick
from pgque.subscription as s
join pgque.consumer as c on c.co_id = s.sub_consumer
where s.sub_queue = $1
  and c.co_name = $2;

-- name: set_consumer
-- Synchronous commit: a query takes a position that it did not set for that of another query.
select pgque.register_consumer_at($1, $2, $3) from set_config('synchronous_commit', 'on', true);

-- name: move_consumer
-- Only from the position that its query set last, or from the new one: the call is repeated when the answer was lost.
select pgque.register_consumer_at($1, $2, $4)
from set_config('synchronous_commit', 'on', true)
where coalesce(
  (
    select s.sub_last_tick
    from pgque.subscription as s
    join pgque.queue as q on q.queue_id = s.sub_queue
    join pgque.consumer as c on c.co_id = s.sub_consumer
    where q.queue_name = $1
      and c.co_name = $2
  ),
  $4
) in ($3, $4);

-- name: tick_now
select pgque.tick_now(q.queue_name) from pgque.queue as q where q.queue_id = $1;
