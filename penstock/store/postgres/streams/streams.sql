-- What the server asks of the schema pgque, by name. A stream that does not exist answers no row, or raises PS029.

-- name: create_stream
select pgque.create_queue($1, $2::jsonb)

-- name: get_stream
select
    queue_name, queue_ticker_max_count, queue_ticker_max_lag, queue_ticker_idle_period, queue_rotation_period,
    queue_max_retries, queue_event_ttl, queue_ticker_paused
from pgque.queue
where queue_name = $1

-- name: list_streams
-- The streams of one tenant, by the prefix of their names. The prefix of the default tenant is empty, and its names have no colon.
select
    queue_name, queue_ticker_max_count, queue_ticker_max_lag, queue_ticker_idle_period, queue_rotation_period,
    queue_max_retries, queue_event_ttl, queue_ticker_paused
from pgque.queue
where starts_with(queue_name, $1)
    and substr(queue_name, length($1) + 1) ~ '^[A-Za-z0-9_.-]{1,40}$'
    and starts_with(queue_name, $1 || $2)
    and queue_name collate "C" > ($1 || $3) collate "C"
order by queue_name collate "C"
limit $4

-- name: configure_stream
select count(pgque.set_queue_config($1, key, value)) from jsonb_each_text($2::jsonb)

-- name: drop_stream
select pgque.drop_queue($1, true)

-- name: stream_stats
select
    depth, extract(epoch from oldest_msg_age)::float8 as oldest_age_s, consumers,
    coalesce(events_per_sec, 0)::float8 as events_per_s, last_tick_id, last_tick_time, dlq_count
from pgque.queue_stats()
where queue_name = $1

-- name: stream_consumers
select
    consumer_name, extract(epoch from lag)::float8 as lag_s, pending_events, last_seen, batch_id
from pgque.consumer_stats()
where queue_name = $1
order by consumer_name

-- name: stream_health
select check_name, status, detail from pgque.queue_health() where queue_name = $1 order by check_name

-- name: stream_tables
select
    t.number = q.queue_cur_table as current,
    q.queue_data_pfx || '_' || t.number as name,
    coalesce(pg_stat_get_live_tuples(to_regclass(q.queue_data_pfx || '_' || t.number)), 0) as events,
    coalesce(pg_total_relation_size(to_regclass(q.queue_data_pfx || '_' || t.number)), 0) as bytes
from pgque.queue as q
cross join generate_series(0, q.queue_ntables - 1) as t (number)
where q.queue_name = $1
order by t.number

-- name: stream_rotation
select
    q.queue_switch_time as rotated_at,
    q.queue_switch_time + q.queue_rotation_period as due_at,
    case when pg_snapshot_xmin((l.tick).tick_snapshot) <= q.queue_switch_step2 then c.co_name end as held_by,
    (select count(*) from pgque.retry_queue as r where r.ev_queue = q.queue_id) as retries
from pgque.queue as q
cross join lateral (select pgque.lowest_tick(q.queue_id) as tick) as l
left join lateral (
    select n.co_name
    from pgque.subscription as s
    join pgque.consumer as n on n.co_id = s.sub_consumer
    where s.sub_queue = q.queue_id
    order by s.sub_last_tick, n.co_name
    limit 1
) as c on true
where q.queue_name = $1

-- name: horizon_holders
-- Sessions of other users show nothing to a role that may not see them.
select h.kind, h.since, h.transactions
from (
    select 'transaction' as kind, a.xact_start as since, age(a.backend_xmin) as transactions
    from pg_stat_activity as a
    where a.backend_xmin is not null
        and a.pid <> pg_backend_pid()
        and a.xact_start < clock_timestamp() - interval '10 seconds'
    union all
    select 'prepared transaction', p.prepared, age(p.transaction)
    from pg_prepared_xacts as p
    union all
    select 'replication slot', null, greatest(age(s.xmin), age(s.catalog_xmin))
    from pg_replication_slots as s
    where s.xmin is not null or s.catalog_xmin is not null
) as h
order by h.transactions desc
limit 3

-- name: subscribe_stream
select pgque.subscribe($1, $2)

-- name: unsubscribe_stream
select pgque.unsubscribe($1, $2)

-- name: send_events
select pgque.insert_events($1, $2, $3, $4, $5, $6, $7)

-- name: send_event_at
select pgque.send_at($1, $2, $3::text, $4, $5, $6, $7, $8)

-- name: receive_events
-- One row without an event when there is none; no row when the consumer is not registered.
select m.msg_id, m.batch_id, m.type, m.payload, m.retry_count, m.created_at, m.extra1, m.extra2, m.extra3, m.extra4
from (
    select q.queue_name, c.co_name
    from pgque.queue as q
    join pgque.subscriber as s on s.sub_queue = q.queue_id
    join pgque.consumer as c on c.co_id = s.sub_consumer
    where q.queue_name = $1
        and c.co_name = $2
) as found
left join lateral pgque.receive_within(found.queue_name, found.co_name, $3, $4) as m on true

-- name: open_batch_of
-- Whether this consumer has the batch open. Batch numbers are those of the whole database: no caller may settle
-- another's by guessing.
select s.sub_batch
from pgque.queue as q
join pgque.subscription as s on s.sub_queue = q.queue_id
join pgque.consumer as c on c.co_id = s.sub_consumer
where q.queue_name = $1
    and c.co_name = $2
    and s.sub_batch = $3

-- name: ack_events
select pgque.ack($1)

-- name: nack_event
select pgque.nack(
    $1, row($2, $1, null, null, null, null, null, null, null, null)::pgque.message, make_interval(secs => $3), $4
)

-- name: dead_events
-- Ends with the one whose contents reach $3 bytes.
select
    d.dl_id, d.dl_consumer_name, d.dl_reason, d.dl_time, d.ev_id, d.ev_type, d.ev_data, d.ev_retry, d.ev_time,
    d.ev_extra1, d.ev_extra2, d.ev_extra3, d.ev_extra4
from (
    select
        n.*,
        sum(octet_length(concat(n.ev_extra1, n.ev_extra2, n.ev_extra3, n.ev_extra4)) + octet_length(n.ev_data))
            over before as bytes_before
    from pgque.dlq_inspect($1, $2) with ordinality as n
    window before as (order by n.ordinality rows between unbounded preceding and 1 preceding)
) as d
where coalesce(d.bytes_before, 0) < $3
order by d.ordinality

-- name: replay_dead_event
-- Of this stream alone: the numbers of dead letters are of the whole database.
select pgque.dlq_replay(d.dl_id)
from pgque.dead_letter as d
join pgque.queue as q on q.queue_id = d.dl_queue_id
where q.queue_name = $1
    and d.dl_id = $2

-- name: replay_dead_events
select pgque.dlq_replay_all($1)

-- name: purge_dead_events
select pgque.dlq_purge($1, make_interval(secs => $2))

-- name: tick_stream_on_demand
-- Announced first: who sends after the look says so.
select pgque.tick_if_waiting($1) from pgque.expect_events($1, '5 seconds')

-- name: lead_ticking
select pg_try_advisory_lock($1)

-- name: streams_to_tick
select queue_name from pgque.queue where not queue_external_ticker and not queue_ticker_paused

-- name: tick_streams
-- At once where there are events. The number says whether there is traffic.
select pgque.tick_waiting()

-- name: tick_idle_streams
-- And as their settings say where there are none.
select pgque.ticker()

-- name: tick_stream
select (pgque.tick_if_waiting($1) is not null)::integer

-- name: stream_maintenance
-- The calls that are due, each for a transaction of its own: step 2 of a rotation must come after the commit of step 1.
-- The blocks that follow have the names of these functions. Any other name is from queue_extra_maint, except vacuum.
select 'pgque.maint_retry_events' as func_name, null as func_arg
union all
select func_name, func_arg from pgque.maint_operations() where func_name <> 'vacuum'

-- name: extra_maintenance
select pgque.call_extra_maint($1, $2)

-- name: pgque.maint_rotate_tables_step1
select pgque.maint_rotate_tables_step1($1)

-- name: pgque.maint_rotate_tables_step2
select pgque.maint_rotate_tables_step2()

-- name: pgque.maint_retry_events
select pgque.maint_retry_events()

-- name: pgque.maint_deliver_delayed
select pgque.maint_deliver_delayed()

-- name: pgque.maint_expire_keys
select pgque.maint_expire_keys()

-- name: pgque.maint_forget_failures
select pgque.maint_forget_failures()

-- name: pgque.maint_drop_loads
select pgque.maint_drop_loads()

-- name: pgque.maint_empty_tables
select pgque.maint_empty_tables()

-- name: pgque.maint_progress
select pgque.maint_progress()
