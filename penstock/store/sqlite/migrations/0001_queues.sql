-- Queues, their messages, and who may reach them.
--
-- Every moment is a whole number of microseconds since 1970, UTC.
--
-- A queue's messages lie in its bin. Purging or dropping a queue only takes the bin away from it: the rows are
-- out of reach at once, and the sweep removes them in small steps.
--
-- A message's state: 0 ready, 1 in flight, 2 delayed, 3 blocked. Hidden messages (1, 2) that have come due are
-- released by the next receive. In a FIFO queue at most one message of a group is ready, its oldest, and none
-- while one is in flight; the others wait blocked. So the next message of any queue is the first of an index.

create table tenants (
  id integer primary key autoincrement,
  name text not null unique,
  created_at integer not null
) strict;

insert into tenants (id, name, created_at)
values (1, 'default', cast(strftime('%s', 'now') as integer) * 1000000);

create table bins (
  id integer primary key autoincrement,
  fifo integer not null,
  orphaned integer not null default 0,
  total integer not null default 0,
  sent integer not null default 0
) strict;

create index bins_orphaned on bins (id) where orphaned = 1;

create table queues (
  id integer primary key autoincrement,
  tenant_id integer not null references tenants (id),
  name text not null,
  fifo integer not null,
  bin_id integer not null references bins (id),
  visibility_timeout_s integer not null,
  delay_s integer not null,
  retention_s integer not null,
  receive_wait_s integer not null,
  max_message_bytes integer not null,
  max_length integer,
  max_receives integer,
  dead_letter_queue_id integer references queues (id) on delete set null,
  lifo integer not null,
  archive integer not null,
  content_dedup integer not null,
  dedup_window_s integer not null,
  dedup_scope text not null,
  throughput_limit text not null,
  tags text not null,
  labels text not null,
  created_at integer not null,
  updated_at integer not null,
  unique (tenant_id, name)
) strict;

create index queues_by_dead_letter_queue on queues (dead_letter_queue_id);

-- One row: the last message id given out. Ids are never reused, not even after the newest message is deleted.
create table last_message (
  id integer not null
) strict;

insert into last_message (id)
values (0);

-- The columns that change come first and the long ones last: a state can be read without walking through a body.
create table messages (
  id integer primary key,
  bin_id integer not null,
  state integer not null,
  priority integer not null,
  rank integer not null,
  visible_at integer not null,
  expires_at integer not null,
  receives integer not null,
  lease integer not null,
  sent_at integer not null,
  first_received_at integer,
  source_id integer,
  json integer not null,
  group_id text,
  dedup_id text,
  trace text,
  attributes text,
  headers text,
  body text not null
) strict;

create index messages_ready on messages (bin_id, priority desc, rank, expires_at) where state = 0;

-- `state` is in these two so that counting reads the index alone.
create index messages_in_flight on messages (bin_id, state, visible_at) where state = 1;

create index messages_delayed on messages (bin_id, state, visible_at) where state = 2;

create index messages_group on messages (bin_id, group_id, state) where group_id is not null;

create index messages_bin on messages (bin_id);

create index messages_expiry on messages (expires_at);

-- One row per deduplication id still in its window; it outlives the message.
create table dedups (
  bin_id integer not null,
  scope text not null,
  dedup_id text not null,
  message_id integer not null,
  expires_at integer not null,
  primary key (bin_id, scope, dedup_id)
) strict, without rowid;

create index dedups_expiry on dedups (expires_at);

create table archive (
  id integer primary key,
  tenant_id integer not null,
  queue text not null,
  priority integer not null,
  receives integer not null,
  sent_at integer not null,
  first_received_at integer,
  deleted_at integer not null,
  json integer not null,
  group_id text,
  dedup_id text,
  trace text,
  attributes text,
  headers text,
  body text not null
) strict;

create table moves (
  id integer primary key autoincrement,
  tenant_id integer not null references tenants (id),
  source_id integer not null references queues (id) on delete cascade,
  destination_id integer,
  destination text,
  rate integer,
  state text not null,
  moved integer not null,
  to_move integer not null,
  failure text,
  started_at integer not null,
  stepped_at integer not null
) strict;

create index moves_by_source on moves (source_id);

create unique index moves_running on moves (source_id) where state = 'running';

create table tokens (
  id integer primary key autoincrement,
  tenant_id integer not null references tenants (id),
  name text not null,
  prefix text not null,
  sha256 blob not null,
  scopes text not null,
  queues text not null,
  created_at integer not null,
  expires_at integer,
  revoked_at integer,
  last_seen_at integer,
  -- Of AWS access keys only: a signature can be checked with nothing but the secret itself.
  aws_secret text
) strict;

create index tokens_by_prefix on tokens (prefix);
