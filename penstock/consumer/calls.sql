-- What the consumer library asks of the schema pgque, by name.
--
-- Ticks and claims do not wait for the disk: one that a crash of PostgreSQL undoes is a redelivery, and the connection
-- that held it is gone too. Sends and acknowledgements wait.

-- name: send
select pgque.insert_event(%(queue)s, %(type)s, %(payload)s, %(extra1)s, %(extra2)s, %(extra3)s, %(extra4)s)

-- name: send_once
select pgque.send_once(
    %(queue)s, %(type)s, %(payload)s::text, %(key)s, %(within)s, %(extra1)s, %(extra2)s, %(extra3)s, %(extra4)s)

-- name: send_many
select pgque.insert_events(
    %(queue)s, %(types)s::text[], %(payloads)s::text[],
    %(extra1)s::text[], %(extra2)s::text[], %(extra3)s::text[], %(extra4)s::text[])

-- name: send_at
select pgque.send_at(
    %(queue)s, %(type)s, %(payload)s::text, coalesce(%(at)s, clock_timestamp() + %(delay)s::interval),
    %(extra1)s, %(extra2)s, %(extra3)s, %(extra4)s)

-- name: health
select queue_name, check_name, status, detail from pgque.queue_health()

-- name: subscribe
select pgque.subscribe(%(queue)s, %(consumer)s)

-- name: subscribe_subconsumer
select pgque.subscribe_subconsumer(%(queue)s, %(consumer)s, %(subconsumer)s)

-- name: touch
select pgque.touch_subconsumer(%(queue)s, %(consumer)s, %(subconsumer)s)
from set_config('synchronous_commit', 'off', true)

-- name: receive
select msg_id, batch_id, type, payload, retry_count, created_at, extra1, extra2, extra3, extra4
from set_config('synchronous_commit', 'off', true), pgque.receive(%(queue)s, %(consumer)s, %(limit)s)

-- name: receive_coop
select msg_id, batch_id, type, payload, retry_count, created_at, extra1, extra2, extra3, extra4
from set_config('synchronous_commit', 'off', true),
    pgque.receive_coop(%(queue)s, %(consumer)s, %(subconsumer)s, %(limit)s, %(dead_interval)s)

-- name: next_batch_custom
select batch_id
from pgque.next_batch_custom(%(queue)s, %(consumer)s, %(min_lag)s, %(min_count)s, %(min_interval)s)

-- name: nack
-- Of the message only its id counts.
select pgque.nack(
    %(batch)s, row(%(id)s, %(batch)s, null, null, null, null, null, null, null, null)::pgque.message,
    %(retry_after)s, %(reason)s)

-- name: dead_letter
select pgque.event_dead(%(batch)s, %(id)s, %(reason)s)

-- name: ack
select pgque.ack(%(batch)s)

-- name: tick
-- The announcements are asked for first: who sends after the look says so.
select pgque.tick_if_waiting(%(queue)s)
from set_config('synchronous_commit', 'off', true), pgque.expect_events(%(queue)s, '5 seconds')
