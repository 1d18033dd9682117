-- The tables of topics, subscriptions and deliveries.
--
-- Who receives a publish is decided by the servers, which keep the subscriptions of a tenant at hand. Every change of
-- topics or subscriptions raises the tenant's version, and marks what it changed with it: a server that has an older
-- version asks for what is marked with a newer one.
--
-- Lock order, before the queues of 0001: topic_versions, topics, subscriptions, outbox, then topic groups (advisory, by
-- key), then topic_dedup, then what a send locks, then deliveries.

create sequence penstock.publication_ids;

create table penstock.topic_versions (
  tenant_id bigint primary key references penstock.tenants,
  version bigint not null,
  -- Removals up to this version are forgotten: who knows only older versions must read everything anew.
  forgotten bigint not null default 0
);

create table penstock.topics (
  id bigint generated always as identity primary key,
  tenant_id bigint not null references penstock.tenants,
  name text not null,
  fifo boolean generated always as (name like '%.fifo') stored,
  attributes jsonb not null default '{}',
  tags jsonb not null default '{}',
  subscriptions_deleted bigint not null default 0,
  version bigint not null,
  created_at timestamptz not null,
  unique (tenant_id, name)
);

create index topics_version on penstock.topics (tenant_id, version);

-- Belongs to a topic, or to a pattern of routing keys. first_segment is null where the pattern begins with a wildcard.
create table penstock.subscriptions (
  id bigint generated always as identity primary key,
  key uuid not null unique default gen_random_uuid(),
  tenant_id bigint not null references penstock.tenants,
  topic_id bigint references penstock.topics,
  pattern text,
  first_segment text,
  protocol text not null,
  endpoint text not null,
  target text,
  attributes jsonb not null default '{}',
  confirmed boolean not null,
  token_sha256 text,
  owner text not null,
  secret text,
  version bigint not null,
  created_at timestamptz not null,
  check ((topic_id is null) <> (pattern is null))
);

create unique index subscriptions_topic on penstock.subscriptions (topic_id, protocol, endpoint)
where topic_id is not null;
create unique index subscriptions_pattern on penstock.subscriptions (tenant_id, pattern, protocol, endpoint)
where pattern is not null;
create index subscriptions_list on penstock.subscriptions (tenant_id, id);
create index subscriptions_of_topic on penstock.subscriptions (topic_id, id) where topic_id is not null;
create index subscriptions_version on penstock.subscriptions (tenant_id, version);
create index subscriptions_segment on penstock.subscriptions (tenant_id, first_segment) where pattern is not null;
create index subscriptions_target on penstock.subscriptions (tenant_id, target, id) where target is not null;
create index subscriptions_token on penstock.subscriptions (token_sha256) where token_sha256 is not null;

create table penstock.route_removals (
  tenant_id bigint not null,
  version bigint not null,
  topic_id bigint,
  subscription_id bigint,
  removed_at timestamptz not null default clock_timestamp()
);

create index route_removals_version on penstock.route_removals (tenant_id, version);

-- The last publishes of FIFO topics by their deduplication ids.
create table penstock.topic_dedup (
  topic_id bigint not null,
  dedup_id text not null,
  scope text not null,
  message_id text not null,
  sequence bigint not null,
  expires_at timestamptz not null,
  primary key (topic_id, dedup_id, scope)
);

create index topic_dedup_expiry on penstock.topic_dedup (expires_at);

-- Publishes from SQL, as far as a server must carry them out: subscription_ids are those that are still owed.
create table penstock.publish_outbox (
  id bigint generated always as identity primary key,
  tenant_id bigint not null,
  topic text,
  routing_key text,
  subscription_ids bigint[] not null,
  message_id text not null,
  body text not null,
  is_json boolean not null,
  subject text,
  attributes json,
  headers json,
  delay_s integer,
  group_id text,
  dedup_id text,
  sequence bigint,
  published_at timestamptz not null
);

-- state: 0 pending    tried when due_at has come
--        1 sending    claimed; due_at is the end of the lease, after which it is claimed anew
--        2 delivered
--        3 exhausted
create table penstock.deliveries (
  id bigint generated always as identity primary key,
  tenant_id bigint not null,
  lane bigint not null,
  due_at timestamptz not null,
  lease bigint not null default 0,
  state smallint not null default 0,
  attempts integer not null default 0,
  last_status integer,
  subscription_id bigint not null,
  created_at timestamptz not null,
  finished_at timestamptz,
  confirms boolean not null,
  subscription_key text not null,
  message_id text not null,
  topic text,
  routing_key text,
  endpoint text not null,
  secret text,
  delays double precision[],
  dead_letter_queue text,
  last_error text,
  headers text not null,
  body text not null
)
with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

create index deliveries_due on penstock.deliveries (lane, due_at) where state < 2;
create index deliveries_list on penstock.deliveries (tenant_id, id);
create index deliveries_states on penstock.deliveries (tenant_id, state, id);
create index deliveries_subscription on penstock.deliveries (tenant_id, subscription_id, id);
create index deliveries_delivered on penstock.deliveries (finished_at) where state = 2;

-- What all nodes must have in common, such as a key that signs.
create table penstock.shared_secrets (
  name text primary key,
  secret text not null
);
