-- Publishes take one array per kind of subscriber, and queues in other regions can be subscribed.

-- A queue that is subscribed from another region belongs to another part of the tenant.
alter table penstock.subscriptions add column target_tenant_id bigint references penstock.tenants;

-- Receives in the queues that a message was in before: the limit of a queue counts its own receives only.
alter table penstock.messages add column receives_before integer not null default 0;

-- The name of the destination outlives the queue.
alter table penstock.move_tasks add column destination text;
update penstock.move_tasks as t
set destination = q.name
from penstock.queues as q
where q.id = t.destination_id;

-- What publish_many is given. A body is a number: its place in the array of bodies.

create type penstock.new_publish as (
  tenant_id bigint,
  message_id text,
  topic_id bigint,
  topic text,
  routing_key text,
  version bigint,
  group_id text,
  dedup_id text,
  dedup_scope text,
  sequence_mark text,
  pending_id bigint
);

create type penstock.published_message as (
  publish integer,
  tenant_id bigint,
  queue text,
  body integer,
  is_json boolean,
  delay_s integer,
  group_id text,
  dedup_id text,
  attributes text,
  headers text,
  trace text,
  size integer,
  dead_letter_queue text
);

create type penstock.published_event as (
  publish integer,
  stream text,
  kind text,
  body integer
);

create type penstock.published_delivery as (
  publish integer,
  subscription_id bigint,
  subscription_key text,
  endpoint text,
  lane bigint,
  body integer,
  headers text,
  secret text,
  delays double precision[],
  dead_letter_queue text,
  confirms boolean
);

create type penstock.published_item as (
  publish integer,
  channel text,
  address text,
  subject text,
  body integer,
  attributes text
);

-- They come back with other parameters when all functions are loaded, right after this.
do $$
declare
  v_function regprocedure;
begin
  for v_function in
    select p.oid
    from pg_catalog.pg_proc as p
    where p.pronamespace = 'penstock'::regnamespace
      and p.proname in ('publish_many', 'publish_to', 'stream_exists', 'subscribe_row', 'sweep_topics')
  loop
    execute format('drop function %s', v_function);
  end loop;
end
$$;
