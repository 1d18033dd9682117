-- Topics and subscriptions.

-- name: raise_version
insert into topic_versions (tenant_id, version)
values (:tenant, 1)
on conflict (tenant_id) do update
set version = version + 1
returning version;

-- name: find_topic
select *
from topics
where tenant_id = :tenant
and name = :name;

-- name: list_topics
select *
from topics
where tenant_id = :tenant
and name > :after
order by name
limit :limit;

-- name: insert_topic
insert into topics (tenant_id, name, fifo, attributes, tags, version, created_at)
values (:tenant, :name, :fifo, :attributes, :tags, :version, :now);

-- name: update_topic
update topics
set attributes = :attributes,
    tags = :tags,
    version = :version
where id = :id;

-- name: delete_topic
delete from topics
where id = :id;

-- name: delete_topic_dedups
delete from topic_dedups
where topic_id = :id;

-- name: delete_topic_subscriptions
delete from subscriptions
where topic_id = :id
returning id;

-- name: insert_removal
insert into route_removals (tenant_id, version, topic_id, subscription_id)
values (:tenant, :version, :topic, :subscription);

-- name: count_topic_subscriptions
select
  (select count(*) from subscriptions as s where s.topic_id = t.id and s.confirmed = 1) as confirmed,
  (select count(*) from subscriptions as s where s.topic_id = t.id and s.confirmed = 0) as pending,
  t.subscriptions_deleted as deleted
from topics as t
where t.tenant_id = :tenant
and t.name = :name;

-- name: same_subscription
select key
from subscriptions
where tenant_id = :tenant
and topic_id is :topic_id
and pattern is :pattern
and protocol = :protocol
and endpoint = :endpoint;

-- name: insert_subscription
insert into subscriptions (
  key, tenant_id, topic_id, pattern, protocol, endpoint, target, target_tenant_id, attributes, confirmed, token_sha256,
  owner, secret, version, created_at
)
values (
  :key, :tenant, :topic_id, :pattern, :protocol, :endpoint, :target, :target_tenant, :attributes, :confirmed, :token,
  :owner, :secret, :version, :now
);

-- name: set_subscription_token
update subscriptions
set token_sha256 = :token
where key = :key
and confirmed = 0;

-- name: get_subscription
select s.*, t.name as topic
from subscriptions as s
left join topics as t on t.id = s.topic_id
where s.key = :key
and s.tenant_id = coalesce(:tenant, s.tenant_id);

-- name: subscription_of_token
select s.*, t.name as topic
from subscriptions as s
left join topics as t on t.id = s.topic_id
where s.token_sha256 = :token
and s.tenant_id = coalesce(:tenant, s.tenant_id);

-- name: list_subscriptions
select s.*, t.name as topic
from subscriptions as s
join topics as t on t.id = s.topic_id
where s.tenant_id = :tenant
and s.id > :after
order by s.id
limit :limit;

-- name: list_all_subscriptions
select s.*, t.name as topic
from subscriptions as s
left join topics as t on t.id = s.topic_id
where s.tenant_id = :tenant
and s.id > :after
order by s.id
limit :limit;

-- name: list_subscriptions_of_topic
select s.*, t.name as topic
from topics as t
join subscriptions as s on s.topic_id = t.id
where t.tenant_id = :tenant
and t.name = :name
and s.id > :after
order by s.id
limit :limit;

-- name: list_subscriptions_of_pattern
select s.*, null as topic
from subscriptions as s
where s.tenant_id = :tenant
and s.pattern = :name
and s.id > :after
order by s.id
limit :limit;

-- name: list_subscriptions_of_target
select s.*, t.name as topic
from subscriptions as s
left join topics as t on t.id = s.topic_id
where s.tenant_id = :tenant
and s.target = :name
and s.protocol = 'sqs'
and s.id > :after
order by s.id
limit :limit;

-- name: update_subscription
update subscriptions
set attributes = :attributes,
    confirmed = :confirmed,
    version = :version
where id = :id;

-- name: delete_subscription
delete from subscriptions
where id = :id;

-- name: count_deleted_subscription
update topics
set subscriptions_deleted = subscriptions_deleted + 1
where id = :id;

-- name: routes_version
select version, forgotten
from topic_versions
where tenant_id = :tenant;

-- name: routes_topics
select *
from topics
where tenant_id = :tenant
and version > :since;

-- name: routes_subscriptions
select s.*, t.name as topic
from subscriptions as s
left join topics as t on t.id = s.topic_id
where s.tenant_id = :tenant
and s.version > :since;

-- name: routes_removals
select topic_id, subscription_id
from route_removals
where tenant_id = :tenant
and version > :since;

-- name: old_removals
select tenant_id, max(version) as version
from route_removals
where removed_at < :before
group by tenant_id;

-- name: forget_removals
update topic_versions
set forgotten = :version
where tenant_id = :tenant;

-- name: delete_removals
delete from route_removals
where tenant_id = :tenant
and version <= :version;

-- name: add_secret
insert or ignore into shared_secrets (name, secret)
values (:name, :secret);

-- name: find_secret
select secret
from shared_secrets
where name = :name;
