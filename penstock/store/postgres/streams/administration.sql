-- What the program pgque asks: the functions of streams, by the names of queues as they are in PostgreSQL.

-- name: pgque_installed
select to_regclass('pgque.queue') is not null as installed, to_regclass('penstock.migrations') is not null as has_server

-- name: pgque_version
select pgque.version() as version

-- name: pgque_uninstall
select pgque.uninstall()

-- name: pgque_start
select pgque.start()

-- name: pgque_stop
select pgque.stop()

-- name: pgque_status
select s.component, s.status, s.detail from pgque.status() as s

-- name: pgque_queues
-- The worst check of a queue is its health.
select
  s.queue_name as name, s.depth, coalesce(s.events_per_sec, 0)::float8 as rate,
  extract(epoch from s.rotation_age)::float8 as rotation_s, s.consumers, s.dlq_count as dlq, s.ticker_paused as paused,
  coalesce(h.health, 'ok') as health
from pgque.queue_stats() as s
left join (
  select distinct on (c.queue_name) c.queue_name, c.status as health
  from pgque.queue_health() as c
  order by c.queue_name, array_position(array['critical', 'warning', 'ok'], c.status)
) as h on h.queue_name = s.queue_name
where $1::text is null
  or s.queue_name = $1
order by s.queue_name

-- name: pgque_consumers
select
  c.queue_name as queue, c.consumer_name as consumer, extract(epoch from c.lag)::float8 as lag_s,
  c.pending_events as pending, coalesce(h.status, 'ok') as status
from pgque.consumer_stats() as c
left join pgque.queue_health() as h
  on h.queue_name = c.queue_name
  and h.check_name = 'consumer_lag:' || c.consumer_name
where $1::text is null
  or c.queue_name = $1
order by c.queue_name, c.consumer_name

-- name: pgque_tick
select pgque.tick_if_waiting($1) as tick

-- name: pgque_dead
select d.dl_id as id, d.dl_consumer_name as consumer, d.dl_reason as reason, d.dl_time as died_at, d.ev_id as event
from pgque.dlq_inspect($1, 10000) as d
order by d.dl_id
limit $2

-- name: pgque_dead_before
select count(*) as dead
from pgque.dlq_inspect($1, 10000) as d
where d.dl_time <= clock_timestamp() - make_interval(secs => $2)

-- name: pgque_replay_all
select pgque.dlq_replay_all($1) as replayed

-- name: pgque_replay_some
select count(pgque.dlq_replay(o.dl_id)) as replayed
from (select d.dl_id from pgque.dlq_inspect($1, 10000) as d order by d.dl_id limit $2) as o

-- name: pgque_purge
select pgque.dlq_purge($1, make_interval(secs => $2)) as deleted

-- name: pgque_create
select pgque.create_queue($1, $2::jsonb) as created

-- name: pgque_drop
select pgque.drop_queue($1, $2) as dropped

-- name: pgque_pause
select pgque.pause_queue($1)

-- name: pgque_resume
select pgque.resume_queue($1)
