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

create or replace function penstock.publish_to(
  p_tenant bigint,
  p_subscriptions bigint[],
  p_topic text,
  p_key text,
  p_message_id text,
  p_sequence bigint,
  p_body text,
  p_json boolean,
  p_subject text,
  p_attributes text,
  p_headers text,
  p_delay integer,
  p_group text,
  p_dedup text,
  p_now timestamptz
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queues text[];
  v_others bigint[];
  v_count integer;
begin
  select
    array_agg(s.target order by s.id) filter (where s.direct),
    array_agg(s.id order by s.id) filter (where not s.direct)
  into v_queues, v_others
  from (
    select
      d.id,
      d.target,
      d.protocol = 'sqs'
      and coalesce(lower(d.attributes ->> 'RawMessageDelivery'), '') = 'true'
      and coalesce(d.attributes ->> 'FilterPolicy', '') = '' as direct
    from penstock.subscriptions as d
    where d.id = any (p_subscriptions)
  ) as s;
  v_count := cardinality(v_queues);
  if v_count > 0 then
    perform penstock.send_many(
      array_fill(p_tenant, array[v_count]),
      v_queues,
      array_fill(p_body, array[v_count]),
      array_fill(p_json, array[v_count]),
      array_fill(p_delay, array[v_count]),
      null,
      array(
        select case when q like '%.fifo' then coalesce(p_group, left(coalesce(p_key, p_topic), 128)) end
        from unnest(v_queues) as q
      ),
      array(select case when q like '%.fifo' then coalesce(p_dedup, p_message_id) end from unnest(v_queues) as q),
      null,
      null,
      array_fill(p_attributes, array[v_count]),
      array_fill(p_headers, array[v_count]),
      null,
      null,
      p_now
    );
  end if;
  if v_others is not null then
    insert into penstock.publish_outbox (
      tenant_id, topic, routing_key, subscription_ids, message_id, body, is_json, subject, attributes, headers, delay_s,
      group_id, dedup_id, sequence, published_at
    )
    values (
      p_tenant, p_topic, p_key, v_others, p_message_id, p_body, p_json, p_subject, p_attributes::json, p_headers::json,
      p_delay, p_group, p_dedup, p_sequence, p_now
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
  v_tenant bigint := penstock.current_tenant();
  v_message_id text := gen_random_uuid();
begin
  perform penstock.check_that(
    'routing_key', p_key ~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$' and length(p_key) <= 255,
    'have 1 to 255 letters, digits, hyphens and underscores, in segments between dots'
  );
  perform penstock.check_that('message', p_body is not null, 'not be null');
  perform penstock.check_range('delay_s', p_delay, 0, 43200);
  perform penstock.publish_to(
    v_tenant,
    array(
      select s.id
      from penstock.subscriptions as s
      where s.tenant_id = v_tenant
        and s.pattern is not null
        and (s.first_segment is null or s.first_segment = split_part(p_key, '.', 1))
        and (
          s.pattern = p_key
          or (s.pattern ~ '[*#]' and p_key || '.' ~ penstock.pattern_expression(s.pattern))
        )
    ),
    null, p_key, v_message_id, null, p_body, p_json, null, null, p_headers::text, p_delay, null, null, clock_timestamp()
  );
  return v_message_id;
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
