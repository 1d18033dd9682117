-- Publishing. The server has decided who receives; here all of it is stored, in one transaction with the publish.
--
-- Arrays that begin with p_send, p_stream or p_web have an entry per delivery and say in …_of to which publish it
-- belongs, counted from one. Bodies are sent once each and named by their number.

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

-- status of each publish: null when it was carried out; 'stale' when the routes have changed since the server read
-- them; 'gone' when another server has carried it out. Of queues that received: which entry, and the message's id.
create or replace function penstock.publish_many(
  p_tenants bigint[],
  p_message_ids text[],
  p_topic_ids bigint[],
  p_topics text[],
  p_routing_keys text[],
  p_versions bigint[],
  p_groups text[],
  p_dedups text[],
  p_dedup_scopes text[],
  p_marks text[],
  p_outbox bigint[],
  p_bodies text[],
  p_send_of integer[],
  p_send_queues text[],
  p_send_bodies integer[],
  p_send_json boolean[],
  p_send_delays integer[],
  p_send_groups text[],
  p_send_dedups text[],
  p_send_attributes text[],
  p_send_headers text[],
  p_send_traces text[],
  p_send_sizes integer[],
  p_send_dead_letters text[],
  p_stream_of integer[],
  p_stream_names text[],
  p_stream_kinds text[],
  p_stream_bodies integer[],
  p_web_of integer[],
  p_web_subscriptions bigint[],
  p_web_keys text[],
  p_web_endpoints text[],
  p_web_lanes bigint[],
  p_web_bodies integer[],
  p_web_headers text[],
  p_web_secrets text[],
  p_web_delays text[],
  p_web_dead_letters text[],
  p_web_confirms boolean[],
  p_now timestamptz,
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
  v_numbered record;
  v_failed integer[];
  v_sent record;
  v_send record;
begin
  message_ids := p_message_ids;
  select
    array_agg(case when f.version <> coalesce(v.version, 0) then 'stale' end order by f.position),
    array_agg(f.version <> coalesce(v.version, 0) and f.version is not null order by f.position)
  into statuses, v_skip
  from unnest(p_tenants, p_versions) with ordinality as f (tenant_id, version, position)
  left join penstock.topic_versions as v on v.tenant_id = f.tenant_id;

  if p_outbox is not null then
    -- In the order of the outbox: two servers that read the same rows then wait for each other, and one finds all gone.
    for v_send in
      select f.position
      from unnest(p_outbox) with ordinality as f (id, position)
      where f.id is not null
        and not v_skip[f.position]
      order by f.id
    loop
      delete from penstock.publish_outbox as o where o.id = p_outbox[v_send.position];
      if not found then
        statuses[v_send.position] := 'gone';
        v_skip[v_send.position] := true;
      end if;
    end loop;
  end if;

  if p_dedups is not null then
    sequences := array_fill(null::bigint, array[cardinality(p_tenants)]);
    duplicates := array_fill(false, array[cardinality(p_tenants)]);
    perform penstock.lock_topic_group(g.topic_id, g.group_id)
    from (
      select f.topic_id, f.group_id
      from unnest(p_topic_ids, p_groups, v_skip) as f (topic_id, group_id, skip)
      where f.group_id is not null
        and not f.skip
      group by f.topic_id, f.group_id
      order by hashtext(f.topic_id::text || ' ' || f.group_id)
    ) as g;
    for v_numbered in
      select f.position, n.message_id, n.sequence, n.duplicate
      from (
        select i.position
        from unnest(p_dedups) with ordinality as i (dedup_id, position)
        where i.dedup_id is not null
          and not v_skip[i.position]
        order by i.position
      ) as f
      cross join lateral penstock.number_publish(
        p_topic_ids[f.position], p_dedups[f.position], p_dedup_scopes[f.position], p_message_ids[f.position], p_now
      ) as n
    loop
      message_ids[v_numbered.position] := v_numbered.message_id;
      sequences[v_numbered.position] := v_numbered.sequence;
      duplicates[v_numbered.position] := v_numbered.duplicate;
      v_skip[v_numbered.position] := v_numbered.duplicate;
    end loop;
  end if;

  if p_send_of is not null then
    select
      array_agg(e.position::integer order by e.position) as positions,
      array_agg(p_tenants[e.of] order by e.position) as tenants,
      array_agg(e.queue order by e.position) as queues,
      array_agg(
        case
          when p_marks[e.of] is null then p_bodies[e.body]
          else replace(p_bodies[e.body], p_marks[e.of], penstock.sequence_text(sequences[e.of]))
        end
        order by e.position
      ) as bodies,
      array_agg(e.is_json order by e.position) as json,
      array_agg(e.delay order by e.position) as delays,
      array_agg(e.group_id order by e.position) as groups,
      array_agg(e.dedup_id order by e.position) as dedups,
      array_agg(e.attributes order by e.position) as attributes,
      array_agg(e.headers order by e.position) as headers,
      array_agg(e.trace order by e.position) as traces,
      array_agg(e.size order by e.position) as sizes,
      array_agg(e.dead_letters order by e.position) as dead_letters
    into v_send
    from unnest(
      p_send_of, p_send_queues, p_send_bodies, p_send_json, p_send_delays, p_send_groups, p_send_dedups,
      p_send_attributes, p_send_headers, p_send_traces, p_send_sizes, p_send_dead_letters
    ) with ordinality as e (
      of, queue, body, is_json, delay, group_id, dedup_id, attributes, headers, trace, size, dead_letters, position
    )
    where not v_skip[e.of];
    if v_send.positions is not null then
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
          array(select v_send.tenants[i] from unnest(v_failed) as i),
          array(select v_send.dead_letters[i] from unnest(v_failed) as i),
          array(select v_send.bodies[i] from unnest(v_failed) as i),
          array(select v_send.json[i] from unnest(v_failed) as i),
          array(select v_send.groups[i] from unnest(v_failed) as i),
          array(select v_send.dedups[i] from unnest(v_failed) as i),
          array(select v_send.attributes[i] from unnest(v_failed) as i),
          p_now
        );
      end if;
    end if;
  end if;

  if p_stream_of is not null and to_regclass('pgque.queue') is not null then
    for v_send in
      select e.*
      from unnest(p_stream_of, p_stream_names, p_stream_kinds, p_stream_bodies) as e (of, name, kind, body)
      where not v_skip[e.of]
        and penstock.stream_exists(e.name)
    loop
      perform pgque.insert_event(v_send.name, v_send.kind, p_bodies[v_send.body]);
    end loop;
  end if;

  if p_web_of is not null then
    insert into penstock.deliveries (
      tenant_id, lane, due_at, subscription_id, created_at, confirms, subscription_key, message_id, topic, routing_key,
      endpoint, secret, delays, dead_letter_queue, headers, body
    )
    select
      p_tenants[e.of], e.lane, p_now, e.subscription_id, p_now, e.confirms, e.subscription_key, message_ids[e.of],
      p_topics[e.of], p_routing_keys[e.of], e.endpoint, e.secret, e.delays::double precision[], e.dead_letters,
      e.headers, p_bodies[e.body]
    from unnest(
      p_web_of, p_web_subscriptions, p_web_keys, p_web_endpoints, p_web_lanes, p_web_bodies, p_web_headers,
      p_web_secrets, p_web_delays, p_web_dead_letters, p_web_confirms
    ) as e (
      of, subscription_id, subscription_key, endpoint, lane, body, headers, secret, delays, dead_letters, confirms
    )
    where not v_skip[e.of];
  end if;
end;
$$;

-- A stream that was dropped is passed over, like a queue.
create or replace function penstock.stream_exists(p_stream text)
returns boolean
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return exists (select from pgque.queue as q where q.queue_name = p_stream);
end;
$$;
