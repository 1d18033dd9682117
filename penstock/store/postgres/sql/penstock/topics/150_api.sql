-- Topics and events from SQL, in the caller's transaction.
--
-- What a SQL function can do is done at once: a subscribed queue that wants messages as they are, without a filter, has
-- its message when the transaction commits; mail and text messages are in the outbox then. A server evaluates filters,
-- makes envelopes and calls endpoints: those subscriptions are written to pending_publishes, and a server serves them
-- right after the commit.

-- The id of the message. attributes as '{"name": {"type": "String", "value": "…"}}'.
create or replace function penstock.publish(
  topic text,
  body text,
  subject text default null,
  attributes jsonb default null,
  group_id text default null,
  dedup_id text default null
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant bigint := penstock.current_tenant();
  v_topic penstock.topics := penstock.find_topic(v_tenant, topic);
  v_publish penstock.pending_publishes;
  v_duplicate boolean;
begin
  perform penstock.check_that('body', body is not null, 'not be null');
  perform penstock.check_attributes(attributes);
  perform penstock.check_that('group_id', group_id ~ '^[!-~]{1,128}$', 'be 1 to 128 letters, digits and ASCII punctuation');
  perform penstock.check_that('dedup_id', dedup_id ~ '^[!-~]{1,128}$', 'be 1 to 128 letters, digits and ASCII punctuation');
  v_publish.tenant_id := v_tenant;
  v_publish.topic := topic;
  v_publish.message_id := gen_random_uuid();
  v_publish.body := body;
  v_publish.is_json := false;
  v_publish.subject := subject;
  v_publish.attributes := attributes;
  v_publish.group_id := group_id;
  v_publish.dedup_id := dedup_id;
  v_publish.published_at := clock_timestamp();
  if v_topic.fifo then
    if dedup_id is null and lower(v_topic.attributes ->> 'ContentBasedDeduplication') = 'true' then
      v_publish.dedup_id := encode(sha256(convert_to(body, 'UTF8')), 'hex');
    end if;
    perform penstock.check_that('group_id', group_id is not null, 'be set on a FIFO topic');
    perform penstock.check_that(
      'dedup_id', v_publish.dedup_id is not null, 'be set on a FIFO topic without content deduplication'
    );
    perform penstock.lock_topic_group(v_topic.id, group_id);
    select n.message_id, n.sequence, n.duplicate
    into v_publish.message_id, v_publish.sequence, v_duplicate
    from penstock.number_publish(
      v_topic.id,
      v_publish.dedup_id,
      case when v_topic.attributes ->> 'FifoThroughputScope' = 'MessageGroup' then group_id else '' end,
      v_publish.message_id,
      v_publish.published_at
    ) as n;
    if v_duplicate then
      return v_publish.message_id;
    end if;
  end if;
  v_publish.subscription_ids := array(
    select s.id from penstock.subscriptions as s where s.topic_id = v_topic.id and s.confirmed
  );
  perform penstock.publish_to(v_publish);
  return v_publish.message_id;
end;
$$;

-- To everyone whose pattern the routing key fits. The id of the event.
create or replace function penstock.publish_event(
  routing_key text,
  body text,
  headers jsonb default null,
  delay_s integer default null
)
returns text
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select penstock.publish_event_text(routing_key, body, false, headers, delay_s);
$$;

create or replace function penstock.publish_event(
  routing_key text,
  message jsonb,
  headers jsonb default null,
  delay_s integer default null
)
returns text
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select penstock.publish_event_text(routing_key, message::text, true, headers, delay_s);
$$;

-- True when the topic is new.
create or replace function penstock.create_topic(topic text)
returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select penstock.create_topic_row(penstock.current_tenant(), topic, '{}', '{}', clock_timestamp());
$$;

create or replace function penstock.drop_topic(topic text)
returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select penstock.drop_topic_row(penstock.current_tenant(), topic);
$$;

create or replace function penstock.list_topics()
returns table (topic text, fifo boolean, created_at timestamptz)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select t.name, t.fifo, t.created_at
  from penstock.topics as t
  where t.tenant_id = penstock.current_tenant()
  order by t.name;
$$;

-- Let a queue receive what is published to a topic, as it is published. True when that is new.
create or replace function penstock.subscribe(topic text, queue text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant bigint := penstock.current_tenant();
begin
  perform penstock.find_queue(v_tenant, queue);
  return (penstock.subscribe_row(
    v_tenant, topic, null, 'sqs', queue, queue, null, '{"RawMessageDelivery": "true"}', true, null, '', null,
    clock_timestamp()
  )).created;
end;
$$;

-- Let a queue receive the events whose routing keys fit a pattern. True when that is new.
create or replace function penstock.subscribe_events(pattern text, queue text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant bigint := penstock.current_tenant();
begin
  perform penstock.check_that(
    'pattern', pattern ~ '^([A-Za-z0-9_-]+|\*|#)(\.([A-Za-z0-9_-]+|\*|#))*$' and length(pattern) <= 255,
    'be a routing key in which a segment may be * or #'
  );
  perform penstock.find_queue(v_tenant, queue);
  return (penstock.subscribe_row(
    v_tenant, null, pattern, 'sqs', queue, queue, null, '{"RawMessageDelivery": "true"}', true, null, '', null,
    clock_timestamp()
  )).created;
end;
$$;

-- True when it was subscribed. name is that of a topic, or a pattern.
create or replace function penstock.unsubscribe(name text, queue text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant bigint := penstock.current_tenant();
  v_keys uuid[];
begin
  v_keys := array(
    select s.key
    from penstock.subscriptions as s
    left join penstock.topics as t on t.id = s.topic_id
    where s.tenant_id = v_tenant
      and s.protocol = 'sqs'
      and s.target = unsubscribe.queue
      and coalesce(s.pattern, t.name) = unsubscribe.name
  );
  perform penstock.unsubscribe_row(v_tenant, k) from unnest(v_keys) as k;
  return cardinality(v_keys) > 0;
end;
$$;
