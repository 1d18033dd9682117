-- The everyday functions: send, receive, ack, nack. Each calls the functions of PgQ.
--
-- The text overloads store the payload unchanged; an untyped literal is text. The jsonb overloads refuse a payload that
-- is not JSON.

do $$
begin
  create type pgque.message as (
    msg_id bigint,
    batch_id bigint,
    type text,
    payload text,
    retry_count integer,
    created_at timestamptz,
    extra1 text,
    extra2 text,
    extra3 text,
    extra4 text
  );
exception
  when duplicate_object then null;
end;
$$;

create or replace function pgque.send(i_queue text, i_payload text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return pgque.insert_event(i_queue, 'default', i_payload);
end;
$$;

create or replace function pgque.send(i_queue text, i_payload jsonb)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return pgque.insert_event(i_queue, 'default', i_payload::text);
end;
$$;

create or replace function pgque.send(i_queue text, i_type text, i_payload text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return pgque.insert_event(i_queue, i_type, i_payload);
end;
$$;

create or replace function pgque.send(i_queue text, i_type text, i_payload jsonb)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return pgque.insert_event(i_queue, i_type, i_payload::text);
end;
$$;

-- With extras. By convention the first holds the trace context and the fourth the partition key.
create or replace function pgque.send(
  i_queue text,
  i_type text,
  i_payload text,
  i_extra1 text,
  i_extra2 text default null,
  i_extra3 text default null,
  i_extra4 text default null
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return pgque.insert_event(i_queue, i_type, i_payload, i_extra1, i_extra2, i_extra3, i_extra4);
end;
$$;

create or replace function pgque.send(
  i_queue text,
  i_type text,
  i_payload jsonb,
  i_extra1 text,
  i_extra2 text default null,
  i_extra3 text default null,
  i_extra4 text default null
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return pgque.insert_event(i_queue, i_type, i_payload::text, i_extra1, i_extra2, i_extra3, i_extra4);
end;
$$;

-- Inserts all events in one statement; the ids are in the order of the payloads.
create or replace function pgque.send_batch(i_queue text, i_type text, i_payloads text[])
returns bigint[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return pgque.insert_events(i_queue, i_type, i_payloads);
end;
$$;

create or replace function pgque.send_batch(i_queue text, i_type text, i_payloads jsonb[])
returns bigint[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return pgque.insert_events(i_queue, i_type, i_payloads::text[]);
end;
$$;

-- 1 when the consumer is new. It receives what is sent from now on.
create or replace function pgque.subscribe(i_queue text, i_consumer text)
returns integer
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select pgque.register_consumer(i_queue, i_consumer);
$$;

-- 1 when there was such a consumer. Its retries go with it, its dead letters stay.
create or replace function pgque.unsubscribe(i_queue text, i_consumer text)
returns integer
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select pgque.unregister_consumer(i_queue, i_consumer);
$$;
