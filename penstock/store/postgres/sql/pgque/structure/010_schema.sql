-- Streams: the tables. Schema, table and column names are those of PgQ, so that clients and scripts written for it
-- find what they expect; how the changing part is kept is our own.
--
-- A queue has three event tables that take turns. A tick notes which transactions were over at one moment, and a batch
-- is what lies between two ticks. Nothing here is updated or deleted on the path of a batch:
--
--   event_<id>_<n>   events; only inserted, and emptied as a whole by TRUNCATE
--   tick             only inserted; old ones are deleted when the event tables turn, and never looked at again
--   subscriber       the part of a subscription that stays; its row is the lock of the subscription
--   progress_0..2    the part that moves, a new row per change; three tables that take turns and are emptied whole
--
-- Locks are taken in this order, and never the other way round:
--   1. the advisory lock of a queue's ticker, or of the maintenance of progress
--   2. rows of queue
--   3. rows of subscriber: the main one of a group first, then its members by sub_member
--   4. tables, for TRUNCATE: never waited for, and last in a transaction

do $$
begin
  if to_regnamespace('pgque') is not null
    and to_regclass('pgque.subscriber') is null
    and (select true from pg_class as c where c.relnamespace = to_regnamespace('pgque') limit 1)
  then
    raise exception 'the schema pgque belongs to another product'
      using errcode = '0A000',
            hint = 'Streams need the schema for themselves: rename it (alter schema pgque rename to ...), remove it, '
              || 'or use another database.';
  end if;
end;
$$;

create schema if not exists pgque;

create table if not exists pgque.config (
  singleton boolean primary key default true check (singleton),
  ticker_job_id bigint,
  maint_job_id bigint,
  installed_at timestamptz not null default clock_timestamp()
);

insert into pgque.config (singleton) values (true) on conflict do nothing;

create table if not exists pgque.consumer (
  co_id serial constraint consumer_pkey primary key,
  co_name text not null constraint consumer_name_uq unique
);

create table if not exists pgque.queue (
  queue_id serial constraint queue_pkey primary key,
  queue_name text not null constraint queue_name_uq unique,
  queue_ntables integer not null default 3,
  queue_cur_table integer not null default 0,
  queue_rotation_period interval not null default '2 hours',
  queue_switch_step1 xid8 not null default pg_current_xact_id(),
  queue_switch_step2 xid8 default pg_current_xact_id(),
  queue_switch_time timestamptz not null default now(),
  queue_external_ticker boolean not null default false,
  queue_disable_insert boolean not null default false,
  queue_ticker_paused boolean not null default false,
  queue_ticker_max_count integer not null default 500,
  queue_ticker_max_lag interval not null default '3 seconds',
  queue_ticker_idle_period interval not null default '1 minute',
  -- Most events that one transaction may insert; null is no limit.
  queue_per_tx_limit integer,
  queue_data_pfx text not null,
  queue_event_seq text not null,
  queue_tick_seq text not null,
  -- Functions that maintenance calls with the name of the queue.
  queue_extra_maint text[],
  queue_max_retries integer check (queue_max_retries >= 0),
  queue_event_ttl interval check (queue_event_ttl > '0'),
  -- Whether only the roles in queue_grant may use the queue.
  queue_restricted boolean not null default false,
  -- All ticks below are gone: where a delete starts, so that it does not pass those deleted before.
  queue_first_tick bigint not null default 0
)
-- A rotation changes the row twice; with room on its page no index notices.
with (fillfactor = 50);

create table if not exists pgque.queue_grant (
  queue_id integer not null references pgque.queue (queue_id) on delete cascade,
  grantee name not null,
  queue_right text not null check (queue_right in ('produce', 'consume')),
  primary key (queue_id, grantee, queue_right)
);

create table if not exists pgque.tick (
  tick_queue integer not null,
  tick_id bigint not null,
  tick_time timestamptz not null default now(),
  tick_snapshot pg_snapshot not null default pg_current_snapshot(),
  tick_event_seq bigint not null,
  constraint tick_pkey primary key (tick_queue, tick_id)
);

create sequence if not exists pgque.batch_id_seq;
create sequence if not exists pgque.subscription_sub_id_seq;

create table if not exists pgque.subscriber (
  sub_member serial primary key,
  -- What a retried event names as its owner. The members of a group share it.
  sub_id integer not null default nextval('pgque.subscription_sub_id_seq'),
  sub_queue integer not null references pgque.queue (queue_id),
  sub_consumer integer not null references pgque.consumer (co_id),
  sub_role text not null default 'normal' check (sub_role in ('normal', 'main', 'member')),
  -- A subscription to one part of many: the events whose partition key falls into it.
  sub_part integer not null default 0,
  sub_parts integer not null default 1,
  unique (sub_queue, sub_consumer),
  check (sub_part between 0 and sub_parts - 1)
);

create index if not exists subscriber_sub_id on pgque.subscriber (sub_id);

create table if not exists pgque.progress_0 (
  sub_member integer not null,
  sub_step bigint not null,
  sub_last_tick bigint,
  sub_active timestamptz not null,
  sub_batch bigint,
  sub_next_tick bigint,
  -- A batch may be handed out in pieces. Of its events, in the order of their ids:
  sub_done bigint,  -- up to here acknowledged
  sub_seen bigint,  -- up to here handed out; null when all of it is
  sub_end bigint,   -- the last one; known once the batch was cut
  primary key (sub_member, sub_step)
)
with (autovacuum_enabled = off);

create table if not exists pgque.progress_1 (like pgque.progress_0 including all) with (autovacuum_enabled = off);
create table if not exists pgque.progress_2 (like pgque.progress_0 including all) with (autovacuum_enabled = off);

create index if not exists progress_0_batch on pgque.progress_0 (sub_batch) where sub_batch is not null;
create index if not exists progress_1_batch on pgque.progress_1 (sub_batch) where sub_batch is not null;
create index if not exists progress_2_batch on pgque.progress_2 (sub_batch) where sub_batch is not null;

-- Which of the three is written to: the rest of dividing by three. A sequence, because it has no old versions.
create sequence if not exists pgque.progress_turn;

create or replace view pgque.progress as
select * from pgque.progress_0
union all
select * from pgque.progress_1
union all
select * from pgque.progress_2;

create or replace view pgque.subscription as
select
  s.sub_id,
  s.sub_queue,
  s.sub_consumer,
  p.sub_last_tick,
  p.sub_active,
  p.sub_batch,
  p.sub_next_tick,
  s.sub_role,
  s.sub_part,
  s.sub_parts,
  s.sub_member,
  p.sub_done,
  p.sub_seen,
  p.sub_end
from pgque.subscriber as s
cross join lateral (
  select n.*
  from (
    (select * from pgque.progress_0 as a where a.sub_member = s.sub_member order by a.sub_step desc limit 1)
    union all
    (select * from pgque.progress_1 as b where b.sub_member = s.sub_member order by b.sub_step desc limit 1)
    union all
    (select * from pgque.progress_2 as c where c.sub_member = s.sub_member order by c.sub_step desc limit 1)
  ) as n
  order by n.sub_step desc
  limit 1
) as p;

create table if not exists pgque.event_template (
  ev_id bigint not null,
  ev_time timestamptz not null default now(),
  ev_txid xid8 not null default pg_current_xact_id(),
  ev_owner integer,
  ev_retry integer,
  ev_type text,
  ev_data text,
  ev_extra1 text,
  ev_extra2 text,
  ev_extra3 text,
  ev_extra4 text
);

-- An event as consumers read it. Functions that return or pass on events use this type, so that the columns are listed
-- once.
do $$
begin
  create type pgque.event as (
    ev_id bigint,
    ev_time timestamptz,
    ev_txid xid8,
    ev_retry integer,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text
  );
exception
  when duplicate_object then null;
end;
$$;

-- Older installations have functions that list the columns as OUT parameters. `create or replace` cannot change a
-- result type, so those are dropped here and created again below.
do $$
declare
  v_function regprocedure;
begin
  for v_function in
    select p.oid
    from pg_proc as p
    where p.pronamespace = 'pgque'::regnamespace
      and p.proname in (
        'get_batch_events', 'get_batch_cursor', 'batch_hand_out', 'batch_events_between', 'batch_event', 'stored_event'
      )
      and p.prorettype <> 'pgque.event'::regtype
  loop
    execute format('drop function %s', v_function);
  end loop;
end;
$$;

-- Functions of older installations that are gone or have other parameters now.
do $$
declare
  v_old text;
begin
  foreach v_old in array array[
    'check_produce(text)',
    'queue_for_insert(text)',
    'truncated(regclass)',
    'unschedule(bigint)',
    'trigger_options(text[])',
    'encode_change(text, text, text[], text[], text[], oid[], boolean[], text[], text[])',
    'key_changes(text[], text[], text[], text[])',
    'change_matters(text[], text[], boolean[], text[], text[])',
    'event_field(text, jsonb, anyelement, text[], text[], text)'
  ] loop
    if to_regprocedure('pgque.' || v_old) is not null then
      execute format('drop function pgque.%s', v_old);
    end if;
  end loop;
end;
$$;

-- Loads: see 050_loads.sql.
create table if not exists pgque.load (
  load_id bigint generated always as identity primary key,
  -- No reference: a queue is dropped at once, and its loads one after the other.
  load_queue integer not null,
  -- When it was opened, and then when it was closed.
  load_time timestamptz not null default now(),
  -- Null until it is closed.
  load_rows bigint,
  load_first bigint,
  load_last bigint,
  -- The transaction that published it, and when that was.
  load_txid xid8,
  load_published timestamptz,
  -- Since when no subscription can need it.
  load_over timestamptz
);

create index if not exists load_queue_txid on pgque.load (load_queue, load_txid);

create table if not exists pgque.retry_queue (
  ev_retry_after timestamptz not null,
  ev_queue integer not null,
  ev_id bigint not null,
  ev_time timestamptz not null,
  ev_txid xid8,
  ev_owner integer not null,
  ev_retry integer,
  ev_type text,
  ev_data text,
  ev_extra1 text,
  ev_extra2 text,
  ev_extra3 text,
  ev_extra4 text,
  constraint rq_pkey primary key (ev_owner, ev_id)
);

create index if not exists rq_retry_idx on pgque.retry_queue (ev_retry_after);

-- Dead letters outlive their consumer, so they name it by text as well.
create table if not exists pgque.dead_letter (
  dl_id bigserial primary key,
  dl_queue_id integer not null,
  dl_consumer_id integer not null,
  dl_consumer_name text,
  dl_time timestamptz not null default now(),
  dl_reason text,
  ev_id bigint not null,
  ev_time timestamptz not null,
  ev_txid xid8,
  ev_retry integer,
  ev_type text,
  ev_data text,
  ev_extra1 text,
  ev_extra2 text,
  ev_extra3 text,
  ev_extra4 text
);

create index if not exists dl_queue_time_idx on pgque.dead_letter (dl_queue_id, dl_time);

create table if not exists pgque.delayed_events (
  de_id bigserial primary key,
  de_queue_name text not null,
  de_deliver_at timestamptz not null,
  de_type text,
  de_data text,
  de_extra1 text,
  de_extra2 text,
  de_extra3 text,
  de_extra4 text
);

create index if not exists de_deliver_idx on pgque.delayed_events (de_deliver_at);

-- Which event a key stands for, until it may be used again.
create table if not exists pgque.send_keys (
  sk_queue integer not null,
  sk_key text not null,
  sk_event bigint not null,
  sk_expires timestamptz not null,
  primary key (sk_queue, sk_key)
);

create index if not exists send_keys_expires on pgque.send_keys (sk_expires);
