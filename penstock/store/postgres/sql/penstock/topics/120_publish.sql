-- Publishing. The server has decided who receives; here all of it is stored, in one transaction with the publish.
--
-- Every message, event, delivery and outbox item says to which publish it belongs, counted from one. Each body is sent
-- once; the others refer to it by its number.

-- The order of a group of a FIFO topic is the order in which its publishers hold this lock.
create or replace function penstock.lock_topic_group(p_topic bigint, p_group text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.check_isolation();
  perform pg_advisory_xact_lock(1885695606, hashtext(p_topic::text || ' ' || p_group));
end;
$$;

-- Numbers a publish of a FIFO topic; or, when its deduplication id is known, answers the earlier one.
create or replace function penstock.number_publish(
  p_topic bigint,
  p_dedup text,
  p_scope text,
  p_message_id text,
  p_now timestamptz,
  out message_id text,
  out sequence bigint,
  out duplicate boolean
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  sequence := nextval('penstock.publication_ids');
  message_id := p_message_id;
  insert into penstock.topic_dedup as d (topic_id, dedup_id, scope, message_id, sequence, expires_at)
  values (p_topic, p_dedup, p_scope, p_message_id, sequence, p_now + interval '5 min')
  on conflict (topic_id, dedup_id, scope) do update
  set message_id = excluded.message_id,
      sequence = excluded.sequence,
      expires_at = excluded.expires_at
  where d.expires_at <= p_now;
  duplicate := not found;
  if duplicate then
    select d.message_id, d.sequence
    into message_id, sequence
    from penstock.topic_dedup as d
    where d.topic_id = p_topic
      and d.dedup_id = p_dedup
      and d.scope = p_scope;
  end if;
end;
$$;

-- The number of a publish as subscribers see it: twenty digits, so that texts compare like numbers.
create or replace function penstock.sequence_text(p_sequence bigint)
returns text
language sql
immutable
parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select (10000000000000000000 + p_sequence)::text;
$$;

-- Dead letters of publishes and of webhooks: to a queue that may be gone by now. They never fail their caller.
create or replace function penstock.send_dead_letters(
  p_tenants bigint[],
  p_queues text[],
  p_bodies text[],
  p_json boolean[],
  p_groups text[],
  p_dedups text[],
  p_attributes text[],
  p_now timestamptz
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.send_many(
    p_tenants, p_queues, p_bodies, p_json, null, null, p_groups, p_dedups, null, null, p_attributes, null, null, null,
    p_now
  );
end;
$$;

-- Which publishes are carried out. statuses: null for those that are; 'stale' when the subscriptions have changed since
-- the server read them; 'gone' when another server has carried out this publish from SQL.
create or replace function penstock.admit_publishes(
  p_publishes penstock.new_publish[],
  out statuses text[],
  out skip boolean[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_pending record;
begin
  select
    array_agg(case when p.version <> coalesce(v.version, 0) then 'stale' end order by p.position),
    array_agg(p.version is not null and p.version <> coalesce(v.version, 0) order by p.position)
  into statuses, skip
  from unnest(p_publishes) with ordinality as p (
    tenant_id, message_id, topic_id, topic, routing_key, version, group_id, dedup_id, dedup_scope, sequence_mark,
    pending_id, position
  )
  left join penstock.topic_versions as v on v.tenant_id = p.tenant_id;

  -- In the order of their ids: two servers that read the same rows then wait for each other, and one finds all gone.
  for v_pending in
    select p.pending_id, p.position
    from unnest(p_publishes) with ordinality as p (
      tenant_id, message_id, topic_id, topic, routing_key, version, group_id, dedup_id, dedup_scope, sequence_mark,
      pending_id, position
    )
    where p.pending_id is not null
      and not skip[p.position]
    order by p.pending_id
  loop
    delete from penstock.pending_publishes as o where o.id = v_pending.pending_id;
    if not found then
      statuses[v_pending.position] := 'gone';
      skip[v_pending.position] := true;
    end if;
  end loop;
end;
$$;

-- Number the publishes to FIFO topics. Those whose deduplication ids are known are skipped, and get the ids and numbers
-- of the earlier ones.
create or replace function penstock.number_publishes(
  p_publishes penstock.new_publish[],
  p_now timestamptz,
  inout skip boolean[],
  out message_ids text[],
  out sequences bigint[],
  out duplicates boolean[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_publish penstock.new_publish;
  v_numbered record;
begin
  message_ids := array(select p.message_id from unnest(p_publishes) as p);
  if not exists (select from unnest(p_publishes) as p where p.dedup_id is not null) then
    return;
  end if;
  sequences := array_fill(null::bigint, array[cardinality(p_publishes)]);
  duplicates := array_fill(false, array[cardinality(p_publishes)]);
  perform penstock.lock_topic_group(g.topic_id, g.group_id)
  from (
    select p.topic_id, p.group_id
    from unnest(p_publishes) with ordinality as p (
      tenant_id, message_id, topic_id, topic, routing_key, version, group_id, dedup_id, dedup_scope, sequence_mark,
      pending_id, position
    )
    where p.group_id is not null
      and not skip[p.position]
    group by p.topic_id, p.group_id
    order by hashtext(p.topic_id::text || ' ' || p.group_id)
  ) as g;
  for v_position in 1 .. cardinality(p_publishes) loop
    v_publish := p_publishes[v_position];
    continue when v_publish.dedup_id is null or skip[v_position];
    v_numbered := penstock.number_publish(
      v_publish.topic_id, v_publish.dedup_id, v_publish.dedup_scope, v_publish.message_id, p_now
    );
    message_ids[v_position] := v_numbered.message_id;
    sequences[v_position] := v_numbered.sequence;
    duplicates[v_position] := v_numbered.duplicate;
    skip[v_position] := v_numbered.duplicate;
  end loop;
end;
$$;

-- Send to the subscribed queues, and to dead-letter queues what those cannot take. Of the queues that received: which
-- entry it was, and the id of the message.
create or replace function penstock.send_published(
  p_publishes penstock.new_publish[],
  p_skip boolean[],
  p_sequences bigint[],
  p_bodies text[],
  p_messages penstock.published_message[],
  p_now timestamptz,
  out positions integer[],
  out sent_ids bigint[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_marks text[] := array(select p.sequence_mark from unnest(p_publishes) as p);
  v_send record;
  v_sent record;
  v_failed integer[];
begin
  select
    array_agg(m.position::integer) as positions,
    array_agg(m.tenant_id) as tenants,
    array_agg(m.queue) as queues,
    array_agg(
      case
        when v_marks[m.publish] is null then p_bodies[m.body]
        else replace(p_bodies[m.body], v_marks[m.publish], penstock.sequence_text(p_sequences[m.publish]))
      end
    ) as bodies,
    array_agg(m.is_json) as json,
    array_agg(m.delay_s) as delays,
    array_agg(m.group_id) as groups,
    array_agg(m.dedup_id) as dedups,
    array_agg(m.attributes) as attributes,
    array_agg(m.headers) as headers,
    array_agg(m.trace) as traces,
    array_agg(m.size) as sizes,
    array_agg(m.dead_letter_queue) as dead_letters
  into v_send
  from (
    -- Sorted once, for all the arrays.
    select e.*
    from unnest(p_messages) with ordinality as e (
      publish, tenant_id, queue, body, is_json, delay_s, group_id, dedup_id, attributes, headers, trace, size,
      dead_letter_queue, position
    )
    where not p_skip[e.publish]
    order by e.position
  ) as m;
  if v_send.positions is null then
    return;
  end if;
  positions := v_send.positions;
  v_sent := penstock.send_many(
    v_send.tenants, v_send.queues, v_send.bodies, v_send.json, v_send.delays, null, v_send.groups, v_send.dedups,
    null, null, v_send.attributes, v_send.headers, v_send.traces, v_send.sizes, p_now
  );
  sent_ids := v_sent.ids;
  select array_agg(f.position::integer)
  into v_failed
  from unnest(v_sent.codes, v_send.dead_letters) with ordinality as f (code, dead_letters, position)
  where f.code is not null
    and f.dead_letters is not null;
  if v_failed is not null then
    perform penstock.send_dead_letters(
      -- The dead-letter queue of a subscription lies in the region of its topic.
      array(select p_publishes[p_messages[positions[i]].publish].tenant_id from unnest(v_failed) as i),
      array(select v_send.dead_letters[i] from unnest(v_failed) as i),
      array(select v_send.bodies[i] from unnest(v_failed) as i),
      array(select v_send.json[i] from unnest(v_failed) as i),
      array(select v_send.groups[i] from unnest(v_failed) as i),
      array(select v_send.dedups[i] from unnest(v_failed) as i),
      array(select v_send.attributes[i] from unnest(v_failed) as i),
      p_now
    );
  end if;
end;
$$;

-- Add events to the subscribed streams. A stream that was dropped is passed over, like a queue.
drop function if exists penstock.insert_published_events(boolean[], text[], penstock.published_event[]);
create or replace function penstock.insert_published_events(
  p_skip boolean[],
  p_bodies text[],
  p_events penstock.published_event[],
  p_traces text[]
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_event record;
begin
  if cardinality(p_events) = 0 or to_regclass('pgque.queue') is null then
    return;
  end if;
  for v_event in
    select e.*
    from unnest(p_events) with ordinality as e (publish, stream, kind, body, position)
    where not p_skip[e.publish]
      and exists (select from pgque.queue as q where q.queue_name = e.stream)
    order by e.position
  loop
    perform pgque.insert_event(
      v_event.stream, v_event.kind, p_bodies[v_event.body], p_traces[v_event.position], null, null, null
    );
  end loop;
end;
$$;

-- Write down the requests to endpoints, and what would leave the machine by mail or telephone.
create or replace function penstock.record_published(
  p_publishes penstock.new_publish[],
  p_skip boolean[],
  p_message_ids text[],
  p_bodies text[],
  p_deliveries penstock.published_delivery[],
  p_items penstock.published_item[],
  p_now timestamptz
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into penstock.deliveries (
    tenant_id, lane, due_at, subscription_id, created_at, confirms, subscription_key, message_id, topic, routing_key,
    endpoint, secret, delays, dead_letter_queue, headers, body
  )
  select
    p_publishes[d.publish].tenant_id, d.lane, p_now, d.subscription_id, p_now, d.confirms, d.subscription_key,
    p_message_ids[d.publish], p_publishes[d.publish].topic, p_publishes[d.publish].routing_key, d.endpoint, d.secret,
    d.delays, d.dead_letter_queue, d.headers, p_bodies[d.body]
  from unnest(p_deliveries) as d
  where not p_skip[d.publish];
  insert into penstock.outbox (tenant_id, channel, address, message_id, topic, subject, body, attributes, created_at)
  select
    p_publishes[i.publish].tenant_id, i.channel, i.address, p_message_ids[i.publish], p_publishes[i.publish].topic,
    i.subject, p_bodies[i.body], i.attributes, p_now
  from unnest(p_items) as i
  where not p_skip[i.publish];
end;
$$;

-- Carry out publishes. statuses are those of admit_publishes; positions and sent_ids those of send_published.
-- p_event_traces has a traceparent for each of p_events that has one.
drop function if exists penstock.publish_many(
  penstock.new_publish[], text[], penstock.published_message[], penstock.published_event[],
  penstock.published_delivery[], penstock.published_item[], timestamptz
);
create or replace function penstock.publish_many(
  p_publishes penstock.new_publish[],
  p_bodies text[],
  p_messages penstock.published_message[],
  p_events penstock.published_event[],
  p_deliveries penstock.published_delivery[],
  p_items penstock.published_item[],
  p_now timestamptz,
  p_event_traces text[] default null,
  out statuses text[],
  out message_ids text[],
  out sequences bigint[],
  out duplicates boolean[],
  out positions integer[],
  out sent_ids bigint[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_skip boolean[];
begin
  select a.statuses, a.skip into statuses, v_skip from penstock.admit_publishes(p_publishes) as a;
  select n.skip, n.message_ids, n.sequences, n.duplicates
  into v_skip, message_ids, sequences, duplicates
  from penstock.number_publishes(p_publishes, p_now, v_skip) as n;
  if cardinality(p_messages) > 0 then
    select s.positions, s.sent_ids
    into positions, sent_ids
    from penstock.send_published(p_publishes, v_skip, sequences, p_bodies, p_messages, p_now) as s;
  end if;
  if cardinality(p_events) > 0 then
    perform penstock.insert_published_events(v_skip, p_bodies, p_events, p_event_traces);
  end if;
  if cardinality(p_deliveries) > 0 or cardinality(p_items) > 0 then
    perform penstock.record_published(
      p_publishes, v_skip, message_ids, p_bodies, p_deliveries, p_items, p_now
    );
  end if;
end;
$$;
