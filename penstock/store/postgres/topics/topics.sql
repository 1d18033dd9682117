-- What the server says to PostgreSQL about topics, subscriptions and deliveries.

-- name: create_topic
select penstock.create_topic_row($1, $2, $3::jsonb, $4::jsonb, $5);

-- name: get_topic
select t.* from penstock.topics as t where t.tenant_id = $1 and t.name = $2;

-- name: list_topics
select t.*
from penstock.topics as t
where t.tenant_id = $1
  and t.name collate "C" > $2
order by t.name collate "C"
limit $3;

-- name: update_topic
select penstock.update_topic_row($1, $2, $3::jsonb, $4::jsonb);

-- name: drop_topic
select penstock.drop_topic_row($1, $2);

-- name: count_subscriptions
select
  (select count(*) from penstock.subscriptions as s where s.topic_id = t.id and s.confirmed) as confirmed,
  (select count(*) from penstock.subscriptions as s where s.topic_id = t.id and not s.confirmed) as pending,
  t.subscriptions_deleted as deleted
from penstock.topics as t
where t.tenant_id = $1
  and t.name = $2;

-- name: subscribe
select s.subscription_key, s.created
from penstock.subscribe_row($1, $2, $3, $4, $5, $6, $7, $8::jsonb, $9, $10, $11, $12, $13) as s;

-- name: get_subscription
select s.*, t.name as topic
from penstock.subscriptions as s
left join penstock.topics as t on t.id = s.topic_id
where s.key = $2
  and s.tenant_id = coalesce($1, s.tenant_id);

-- name: list_subscriptions
select s.*, t.name as topic
from penstock.subscriptions as s
join penstock.topics as t on t.id = s.topic_id
where s.tenant_id = $1
  and s.id > $2
order by s.id
limit $3;

-- name: list_all_subscriptions
select s.*, t.name as topic
from penstock.subscriptions as s
left join penstock.topics as t on t.id = s.topic_id
where s.tenant_id = $1
  and s.id > $2
order by s.id
limit $3;

-- name: list_subscriptions_of_topic
select s.*, t.name as topic
from penstock.topics as t
join penstock.subscriptions as s on s.topic_id = t.id
where t.tenant_id = $1
  and t.name = $4
  and s.id > $2
order by s.id
limit $3;

-- name: list_subscriptions_of_pattern
select s.*, null::text as topic
from penstock.subscriptions as s
where s.tenant_id = $1
  and s.pattern = $4
  and s.id > $2
order by s.id
limit $3;

-- name: list_subscriptions_of_target
select s.*, t.name as topic
from penstock.subscriptions as s
left join penstock.topics as t on t.id = s.topic_id
where s.tenant_id = $1
  and s.target = $4
  and s.protocol = 'sqs'
  and s.id > $2
order by s.id
limit $3;

-- name: update_subscription
select penstock.update_subscription_row($1, $2, $3::jsonb);

-- name: confirm_subscription
select s.*, t.name as topic
from penstock.confirm_subscription_row($1, $2) as s
left join penstock.topics as t on t.id = s.topic_id;

-- name: unsubscribe
select s.*, t.name as topic
from penstock.unsubscribe_row($1, $2) as s
left join penstock.topics as t on t.id = s.topic_id;

-- name: routes_version
select v.version, v.forgotten from penstock.topic_versions as v where v.tenant_id = $1;

-- name: routes_topics
select t.* from penstock.topics as t where t.tenant_id = $1 and t.version > $2;

-- name: routes_subscriptions
select s.*, t.name as topic
from penstock.subscriptions as s
left join penstock.topics as t on t.id = s.topic_id
where s.tenant_id = $1
  and s.version > $2;

-- name: routes_removals
select r.topic_id, r.subscription_id from penstock.route_removals as r where r.tenant_id = $1 and r.version > $2;

-- name: publish
select p.*
from penstock.publish_many($1, $2, $3, $4, $5, $6, $7, $8) as p;

-- name: outgoing
select o.* from penstock.pending_publishes as o order by o.id limit $1;

-- name: claim_deliveries
select d.* from penstock.claim_deliveries($1, $2, $3, $4, $5, make_interval(secs => $6), $7) as d;

-- name: finish_deliveries
select penstock.finish_deliveries($1, $2, $3, $4, $5, $6, $7);

-- name: get_delivery
select d.* from penstock.deliveries as d where d.tenant_id = $1 and d.id = $2;

-- name: list_deliveries
-- Lists are without what is sent, which may be large.
select
  d.id, d.tenant_id, d.lane, d.due_at, d.lease, d.state, d.attempts, d.last_status, d.subscription_id, d.created_at,
  d.finished_at, d.confirms, d.subscription_key, d.message_id, d.topic, d.routing_key, d.endpoint, d.secret, d.delays,
  d.dead_letter_queue, d.last_error, '' as headers, '' as body
from penstock.deliveries as d
where d.tenant_id = $1
  and d.id < $2
order by d.id desc
limit $3;

-- name: list_deliveries_of_state
select
  d.id, d.tenant_id, d.lane, d.due_at, d.lease, d.state, d.attempts, d.last_status, d.subscription_id, d.created_at,
  d.finished_at, d.confirms, d.subscription_key, d.message_id, d.topic, d.routing_key, d.endpoint, d.secret, d.delays,
  d.dead_letter_queue, d.last_error, '' as headers, '' as body
from penstock.deliveries as d
where d.tenant_id = $1
  and d.id < $2
  and d.state = $4
order by d.id desc
limit $3;

-- name: list_deliveries_of_subscription
select
  d.id, d.tenant_id, d.lane, d.due_at, d.lease, d.state, d.attempts, d.last_status, d.subscription_id, d.created_at,
  d.finished_at, d.confirms, d.subscription_key, d.message_id, d.topic, d.routing_key, d.endpoint, d.secret, d.delays,
  d.dead_letter_queue, d.last_error, '' as headers, '' as body
from penstock.deliveries as d
where d.tenant_id = $1
  and d.id < $2
  and d.subscription_id = $4
  and ($5::smallint is null or d.state = $5)
order by d.id desc
limit $3;

-- name: replay_delivery
select penstock.replay_delivery_row($1, $2, $3);

-- name: drop_delivery
delete from penstock.deliveries as d where d.tenant_id = $1 and d.id = $2 returning d.id;

-- name: sweep_topics
select penstock.sweep_topics($1, $2, $3, $4);

-- name: add_secret
insert into penstock.shared_secrets (name, secret) values ($1, $2) on conflict (name) do nothing;

-- name: find_secret
select s.secret from penstock.shared_secrets as s where s.name = $1;
