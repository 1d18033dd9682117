"""Tables of other queues, with the columns that their own migrations give them."""

from __future__ import annotations

PGMQ = """
create schema pgmq;
create table pgmq.meta (
  queue_name varchar unique not null,
  is_partitioned boolean not null,
  is_unlogged boolean not null,
  created_at timestamptz not null default now()
);
create table pgmq.q_orders (
  msg_id bigint primary key generated always as identity,
  read_ct integer not null default 0,
  enqueued_at timestamptz not null default now(),
  vt timestamptz not null,
  message jsonb,
  headers jsonb
);
create table pgmq.a_orders (
  msg_id bigint primary key,
  read_ct integer not null default 0,
  enqueued_at timestamptz not null default now(),
  archived_at timestamptz not null default now(),
  vt timestamptz not null,
  message jsonb,
  headers jsonb
);
create table pgmq.q_old (
  msg_id bigint primary key generated always as identity,
  read_ct integer not null default 0,
  enqueued_at timestamptz not null default now(),
  vt timestamptz not null,
  message jsonb
);
create table pgmq.a_old (
  msg_id bigint primary key,
  read_ct integer not null default 0,
  enqueued_at timestamptz not null default now(),
  archived_at timestamptz not null default now(),
  vt timestamptz not null,
  message jsonb
);
insert into pgmq.meta (queue_name, is_partitioned, is_unlogged) values ('orders', false, false), ('old', false, false);
"""

PGQ = """
create schema pgq;
create table pgq.consumer (co_id serial primary key, co_name text not null unique);
create table pgq.queue (
  queue_id serial primary key,
  queue_name text not null unique,
  queue_ntables integer not null default 3,
  queue_cur_table integer not null default 0,
  queue_data_pfx text not null,
  queue_event_seq text not null,
  queue_tick_seq text not null
);
create table pgq.tick (
  tick_queue integer not null,
  tick_id bigint not null,
  tick_time timestamptz not null default now(),
  tick_snapshot txid_snapshot not null default txid_current_snapshot(),
  tick_event_seq bigint not null,
  primary key (tick_queue, tick_id)
);
create table pgq.subscription (
  sub_id serial,
  sub_queue integer not null,
  sub_consumer integer not null,
  sub_last_tick bigint,
  sub_active timestamptz not null default now(),
  sub_batch bigint,
  sub_next_tick bigint,
  primary key (sub_queue, sub_consumer)
);
create table pgq.event_template (
  ev_id bigint not null,
  ev_time timestamptz not null,
  ev_txid bigint not null default txid_current(),
  ev_owner integer,
  ev_retry integer,
  ev_type text,
  ev_data text,
  ev_extra1 text,
  ev_extra2 text,
  ev_extra3 text,
  ev_extra4 text
);
create table pgq.event_1 () inherits (pgq.event_template);
create table pgq.event_1_0 () inherits (pgq.event_1);
create table pgq.event_1_1 () inherits (pgq.event_1);
insert into pgq.queue (queue_name, queue_data_pfx, queue_event_seq, queue_tick_seq)
values ('clicks', 'pgq.event_1', 'pgq.event_1_id_seq', 'pgq.event_1_tick_seq');
"""

RIVER = """
create type public.river_job_state as enum (
  'available', 'cancelled', 'completed', 'discarded', 'pending', 'retryable', 'running', 'scheduled'
);
create table public.river_job (
  id bigserial primary key,
  state public.river_job_state not null default 'available',
  attempt smallint not null default 0,
  max_attempts smallint not null,
  attempted_at timestamptz,
  created_at timestamptz not null default now(),
  finalized_at timestamptz,
  scheduled_at timestamptz not null default now(),
  priority smallint not null default 1,
  args jsonb not null,
  attempted_by text[],
  errors jsonb[],
  kind text not null,
  metadata jsonb not null default '{}',
  queue text not null default 'default',
  tags varchar(255)[] not null default '{}',
  unique_key bytea,
  unique_states bit(8)
);
"""

BOSS_9 = """
create schema pgboss;
create type pgboss.job_state as enum ('created', 'retry', 'active', 'completed', 'expired', 'cancelled', 'failed');
create table pgboss.job (
  id uuid primary key not null default gen_random_uuid(),
  name text not null,
  priority integer not null default 0,
  data jsonb,
  state pgboss.job_state not null default 'created',
  retryLimit integer not null default 0,
  retryCount integer not null default 0,
  retryDelay integer not null default 0,
  retryBackoff boolean not null default false,
  startAfter timestamptz not null default now(),
  startedOn timestamptz,
  singletonKey text,
  singletonOn timestamp,
  expireIn interval not null default interval '15 minutes',
  createdOn timestamptz not null default now(),
  completedOn timestamptz,
  keepUntil timestamptz not null default now() + interval '14 days',
  on_complete boolean not null default false,
  output jsonb
);
"""

BOSS_10 = """
create schema pgboss;
create type pgboss.job_state as enum ('created', 'retry', 'active', 'completed', 'cancelled', 'failed');
create table pgboss.job (
  id uuid not null default gen_random_uuid(),
  name text not null,
  priority integer not null default 0,
  data jsonb,
  state pgboss.job_state not null default 'created',
  retry_limit integer not null default 2,
  retry_count integer not null default 0,
  retry_delay integer not null default 0,
  retry_backoff boolean not null default false,
  start_after timestamptz not null default now(),
  started_on timestamptz,
  singleton_key text,
  singleton_on timestamp,
  expire_in interval not null default interval '15 minutes',
  created_on timestamptz not null default now(),
  completed_on timestamptz,
  keep_until timestamptz not null default now() + interval '14 days',
  output jsonb,
  dead_letter text,
  policy text,
  primary key (name, id)
) partition by list (name);
create table pgboss.job_common partition of pgboss.job default;
"""

GRAPHILE = """
create schema graphile_worker;
create table graphile_worker._private_tasks (
  id integer primary key generated always as identity,
  identifier text not null unique check (length(identifier) <= 128)
);
create table graphile_worker._private_job_queues (
  id integer primary key generated always as identity,
  queue_name text not null unique,
  locked_at timestamptz,
  locked_by text
);
create table graphile_worker._private_jobs (
  id bigint primary key generated always as identity,
  job_queue_id integer,
  task_id integer not null,
  payload json not null default '{}',
  priority smallint not null default 0,
  run_at timestamptz not null default now(),
  attempts smallint not null default 0,
  max_attempts smallint not null default 25,
  last_error text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  key text unique,
  locked_at timestamptz,
  locked_by text,
  revision integer not null default 0,
  flags jsonb,
  is_available boolean generated always as (locked_at is null and attempts < max_attempts) stored not null
);
"""

OLD_GRAPHILE = """
create schema graphile_worker;
create table graphile_worker.jobs (
  id bigserial primary key,
  queue_name text default gen_random_uuid()::text,
  task_identifier text not null,
  payload json not null default '{}',
  priority integer not null default 0,
  run_at timestamptz not null default now(),
  attempts integer not null default 0,
  max_attempts integer not null default 25,
  last_error text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  key text,
  locked_at timestamptz,
  locked_by text,
  revision integer not null default 0,
  flags jsonb
);
"""
