-- Publishes to FIFO topics, and webhook deliveries.

-- name: next_publication
update last_publication
set id = id + 1
returning id;

-- name: find_topic_dedup
select message_id, sequence
from topic_dedups
where topic_id = :topic
and dedup_id = :dedup_id
and scope = :scope
and expires_at > :now;

-- name: insert_topic_dedup
insert or replace into topic_dedups (topic_id, dedup_id, scope, message_id, sequence, expires_at)
values (:topic, :dedup_id, :scope, :message_id, :sequence, :expires_at);

-- name: delete_expired_topic_dedups
delete from topic_dedups
where expires_at <= :now;

-- name: insert_delivery
insert into deliveries (
  tenant_id, lane, due_at, subscription_id, created_at, confirms, subscription_key, message_id, topic, routing_key,
  endpoint, secret, delays, dead_letter_queue, headers, body
)
values (
  :tenant, :lane, :now, :subscription, :now, :confirms, :key, :message_id, :topic, :routing_key, :endpoint, :secret,
  :delays, :dead_letter_queue, :headers, :body
);

-- name: next_lane
select lane, due_at
from deliveries indexed by deliveries_due
where state < 2
and lane > :after
order by lane, due_at
limit 1;

-- name: claim_lane
update deliveries
set state = 1,
    lease = lease + 1,
    attempts = attempts + 1,
    due_at = :until
where id in (
  select id
  from deliveries indexed by deliveries_due
  where state < 2
  and lane = :lane
  and due_at <= :now
  order by due_at
  limit :limit
)
returning *;

-- name: finish_delivery
update deliveries
set state = :state,
    due_at = coalesce(:retry_at, due_at),
    finished_at = :finished_at,
    last_status = :status,
    last_error = :error
where id = :id
and lease = :lease
and state = 1
returning *;

-- name: get_delivery
select *
from deliveries
where tenant_id = :tenant
and id = :id;

-- name: list_deliveries
-- Without what they send, which may be large.
select
  id, tenant_id, lane, due_at, lease, state, attempts, last_status, subscription_id, created_at,
  finished_at, confirms, subscription_key, message_id, topic, routing_key, endpoint, secret, delays,
  dead_letter_queue, last_error, '' as headers, '' as body
from deliveries
where tenant_id = :tenant
and id < :before
and (:state is null or state = :state)
and (:subscription is null or subscription_id = :subscription)
order by id desc
limit :limit;

-- name: replay_delivery
update deliveries
set state = 0,
    attempts = 0,
    due_at = :now,
    finished_at = null
where id = :id;

-- name: delete_delivery
delete from deliveries
where tenant_id = :tenant
and id = :id;

-- name: delete_delivered
delete from deliveries
where id in (
  select id
  from deliveries indexed by deliveries_delivered
  where state = 2
  and finished_at < :before
  limit :limit
);

-- name: delete_exhausted
delete from deliveries
where id in (
  select id
  from deliveries indexed by deliveries_exhausted
  where state = 3
  and finished_at < :before
  limit :limit
);
