-- Publishes from SQL, in the user's transaction: what can be done at once, and what is left to the server.

-- With a dot behind it, a key fits a pattern exactly when it fits this expression.
create or replace function penstock.pattern_expression(p_pattern text)
returns text
language sql
immutable
parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select
    '^'
    || string_agg(
      case s.segment when '*' then '[^.]+\.' when '#' then '([^.]+\.)*' else s.segment || '\.' end,
      ''
      order by s.position
    )
    || '$'
  from unnest(string_to_array(p_pattern, '.')) with ordinality as s (segment, position);
$$;

-- The subscriptions that want events with this routing key.
create or replace function penstock.subscriptions_of_key(p_tenant bigint, p_key text)
returns bigint[]
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select array(
    select s.id
    from penstock.subscriptions as s
    where s.tenant_id = p_tenant
      and s.pattern is not null
      and (s.first_segment is null or s.first_segment = split_part(p_key, '.', 1))
      and (
        s.pattern = p_key
        or (s.pattern ~ '[*#]' and p_key || '.' ~ penstock.pattern_expression(s.pattern))
      )
  );
$$;

-- Send one publish to subscribed queues that take it as it is.
create or replace function penstock.send_as_it_is(
  p_tenants bigint[],
  p_queues text[],
  p_publish penstock.pending_publishes
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer := cardinality(p_queues);
  v_group text := coalesce(p_publish.group_id, left(coalesce(p_publish.routing_key, p_publish.topic), 128));
begin
  perform penstock.send_many(
    p_tenants,
    p_queues,
    array_fill(p_publish.body, array[v_count]),
    array_fill(p_publish.is_json, array[v_count]),
    array_fill(p_publish.delay_s, array[v_count]),
    null,
    array(select case when q like '%.fifo' then v_group end from unnest(p_queues) as q),
    array(
      select case when q like '%.fifo' then coalesce(p_publish.dedup_id, p_publish.message_id) end
      from unnest(p_queues) as q
    ),
    null,
    null,
    array_fill(p_publish.attributes::text, array[v_count]),
    array_fill(p_publish.headers::text, array[v_count]),
    -- The publish begins a trace with its own id.
    array_fill(
      format('00-%s-%s-00', replace(p_publish.message_id, '-', ''), left(replace(p_publish.message_id, '-', ''), 16)),
      array[v_count]
    ),
    null,
    p_publish.published_at
  );
end;
$$;

-- Carry out a publish from SQL for its subscribers, p_publish.subscription_ids. Queues that want messages as they are
-- and items of the outbox are served at once, unless a filter decides; the rest is left to a server.
create or replace function penstock.publish_to(p_publish penstock.pending_publishes)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_found record;
begin
  with subscriber as (
    select
      s.id,
      coalesce(s.target_tenant_id, s.tenant_id) as tenant_id,
      s.target,
      s.protocol,
      s.endpoint,
      case
        when coalesce(s.attributes ->> 'FilterPolicy', '') <> '' then 'server'
        when s.protocol in ('http', 'https', 'stream') then 'server'
        when s.protocol <> 'sqs' then 'outbox'
        when lower(s.attributes ->> 'RawMessageDelivery') = 'true' then 'queue'
        else 'server'
      end as way
    from penstock.subscriptions as s
    where s.id = any (p_publish.subscription_ids)
  ),
  captured as (
    insert into penstock.outbox (tenant_id, channel, address, message_id, topic, subject, body, attributes, created_at)
    select
      p_publish.tenant_id, s.protocol, s.endpoint, p_publish.message_id, p_publish.topic, p_publish.subject,
      p_publish.body, p_publish.attributes::text, p_publish.published_at
    from subscriber as s
    where s.way = 'outbox'
    order by s.id
  )
  select
    array_agg(s.tenant_id order by s.id) filter (where s.way = 'queue') as tenants,
    array_agg(s.target order by s.id) filter (where s.way = 'queue') as queues,
    array_agg(s.id order by s.id) filter (where s.way = 'server') as others
  into v_found
  from subscriber as s;
  if v_found.queues is not null then
    perform penstock.send_as_it_is(v_found.tenants, v_found.queues, p_publish);
  end if;
  if v_found.others is not null then
    insert into penstock.pending_publishes (
      tenant_id, topic, routing_key, subscription_ids, message_id, body, is_json, subject, attributes, headers, delay_s,
      group_id, dedup_id, sequence, published_at
    )
    values (
      p_publish.tenant_id, p_publish.topic, p_publish.routing_key, v_found.others, p_publish.message_id,
      p_publish.body, p_publish.is_json, p_publish.subject, p_publish.attributes, p_publish.headers,
      p_publish.delay_s, p_publish.group_id, p_publish.dedup_id, p_publish.sequence, p_publish.published_at
    );
  end if;
end;
$$;

create or replace function penstock.publish_event_text(
  p_key text,
  p_body text,
  p_json boolean,
  p_headers jsonb,
  p_delay integer
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_publish penstock.pending_publishes;
begin
  perform penstock.check_that(
    'routing_key', p_key ~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$' and length(p_key) <= 255,
    'have 1 to 255 letters, digits, hyphens and underscores, in segments between dots'
  );
  perform penstock.check_that('message', p_body is not null, 'not be null');
  perform penstock.check_range('delay_s', p_delay, 0, 43200);
  v_publish.tenant_id := penstock.current_tenant();
  v_publish.routing_key := p_key;
  v_publish.message_id := gen_random_uuid();
  v_publish.body := p_body;
  v_publish.is_json := p_json;
  v_publish.headers := p_headers;
  v_publish.delay_s := p_delay;
  v_publish.published_at := clock_timestamp();
  v_publish.subscription_ids := penstock.subscriptions_of_key(v_publish.tenant_id, p_key);
  perform penstock.publish_to(v_publish);
  return v_publish.message_id;
end;
$$;

create or replace function penstock.check_attributes(p_attributes jsonb)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.check_that(
    'attributes',
    jsonb_typeof(p_attributes) = 'object' and not exists (
      select
      from jsonb_each(case when jsonb_typeof(p_attributes) = 'object' then p_attributes else '{}' end) as a
      where jsonb_typeof(a.value -> 'type') is distinct from 'string'
        or jsonb_typeof(a.value -> 'value') is distinct from 'string'
    ),
    'be an object of {"type": text, "value": text}'
  );
end;
$$;
