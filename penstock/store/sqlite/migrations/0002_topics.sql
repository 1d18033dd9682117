-- Topics, subscriptions and deliveries.
--
-- Every change of topics or subscriptions raises the tenant's version and marks what it changed with it. The server
-- keeps subscriptions at hand, and asks for what is marked with a newer version than it knows.

create table topic_versions (
  tenant_id integer primary key references tenants (id),
  version integer not null,
  -- Removals up to this version are forgotten: who knows only older versions must read everything anew.
  forgotten integer not null default 0
) strict;

create table topics (
  id integer primary key autoincrement,
  tenant_id integer not null references tenants (id),
  name text not null,
  fifo integer not null,
  attributes text not null,
  tags text not null,
  subscriptions_deleted integer not null default 0,
  version integer not null,
  created_at integer not null,
  unique (tenant_id, name)
) strict;

create index topics_version on topics (tenant_id, version);

create table subscriptions (
  id integer primary key autoincrement,
  key text not null unique,
  tenant_id integer not null references tenants (id),
  topic_id integer references topics (id),
  pattern text,
  protocol text not null,
  endpoint text not null,
  target text,
  attributes text not null,
  confirmed integer not null,
  token_sha256 text,
  owner text not null,
  secret text,
  version integer not null,
  created_at integer not null,
  check ((topic_id is null) <> (pattern is null))
) strict;

create unique index subscriptions_topic on subscriptions (topic_id, protocol, endpoint) where topic_id is not null;

create unique index subscriptions_pattern on subscriptions (tenant_id, pattern, protocol, endpoint)
where pattern is not null;

create index subscriptions_list on subscriptions (tenant_id, id);

create index subscriptions_version on subscriptions (tenant_id, version);

create index subscriptions_target on subscriptions (tenant_id, target, id) where target is not null;

create index subscriptions_token on subscriptions (token_sha256) where token_sha256 is not null;

create table route_removals (
  tenant_id integer not null,
  version integer not null,
  topic_id integer,
  subscription_id integer,
  removed_at integer not null default (cast(strftime('%s', 'now') as integer) * 1000000)
) strict;

create index route_removals_version on route_removals (tenant_id, version);

-- One row: the number of the last publish to a FIFO topic.
create table last_publication (
  id integer not null
) strict;

insert into last_publication (id)
values (0);

create table topic_dedups (
  topic_id integer not null,
  dedup_id text not null,
  scope text not null,
  message_id text not null,
  sequence integer not null,
  expires_at integer not null,
  primary key (topic_id, dedup_id, scope)
) strict, without rowid;

create index topic_dedups_expiry on topic_dedups (expires_at);

-- state: 0 pending, 1 sending (due_at is the end of the lease), 2 delivered, 3 exhausted.
create table deliveries (
  id integer primary key autoincrement,
  tenant_id integer not null,
  lane integer not null,
  due_at integer not null,
  lease integer not null default 0,
  state integer not null default 0,
  attempts integer not null default 0,
  last_status integer,
  subscription_id integer not null,
  created_at integer not null,
  finished_at integer,
  confirms integer not null,
  subscription_key text not null,
  message_id text not null,
  topic text,
  routing_key text,
  endpoint text not null,
  secret text,
  delays text,
  dead_letter_queue text,
  last_error text,
  headers text not null,
  body text not null
) strict;

create index deliveries_due on deliveries (lane, due_at) where state < 2;

create index deliveries_list on deliveries (tenant_id, id);

create index deliveries_states on deliveries (tenant_id, state, id);

create index deliveries_subscription on deliveries (tenant_id, subscription_id, id);

create index deliveries_delivered on deliveries (finished_at) where state = 2;

-- What outlives a restart and is nobody's but the server's, such as a key that signs.
create table shared_secrets (
  name text primary key,
  secret text not null
) strict;
