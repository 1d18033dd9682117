-- Sending once: a key that was used within its time window returns the id of the earlier event, and nothing is sent.

-- The event id is drawn first, so that key and event are each written once. Of two sessions that send with the same key
-- at the same time, the second waits for the first to commit and then finds its event.
create or replace function pgque.send_once(
  i_queue text,
  i_type text,
  i_payload text,
  i_key text,
  i_within interval default '5 minutes',
  i_extra1 text default null,
  i_extra2 text default null,
  i_extra3 text default null,
  i_extra4 text default null
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue pgque.queue;
  v_event bigint;
begin
  if i_key is null or length(i_key) not between 1 and 200 then
    raise exception 'key must have 1 to 200 characters' using errcode = 'invalid_parameter_value';
  elsif i_within is null or i_within not between interval '0' and interval '30 days' then
    raise exception 'within must be between 0 and 30 days' using errcode = 'invalid_parameter_value';
  end if;
  v_queue := pgque.queue_for_insert(i_queue);
  v_event := nextval(v_queue.queue_event_seq::regclass);
  insert into pgque.send_keys as k (sk_queue, sk_key, sk_event, sk_expires)
  values (v_queue.queue_id, i_key, v_event, clock_timestamp() + i_within)
  on conflict (sk_queue, sk_key) do update
    set sk_event = excluded.sk_event, sk_expires = excluded.sk_expires
    where k.sk_expires <= clock_timestamp();
  if found then
    perform pgque.put_event(
      v_queue, null, row(v_event, now(), null, null, i_type, i_payload, i_extra1, i_extra2, i_extra3, i_extra4)
    );
    return v_event;
  end if;
  select k.sk_event into v_event
  from pgque.send_keys as k
  where k.sk_queue = v_queue.queue_id
    and k.sk_key = i_key;
  return v_event;
end;
$$;

create or replace function pgque.send_once(
  i_queue text,
  i_type text,
  i_payload jsonb,
  i_key text,
  i_within interval default '5 minutes',
  i_extra1 text default null,
  i_extra2 text default null,
  i_extra3 text default null,
  i_extra4 text default null
)
returns bigint
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select pgque.send_once(
    i_queue, i_type, i_payload::text, i_key, i_within, i_extra1, i_extra2, i_extra3, i_extra4
  );
$$;

-- Deletes expired keys, oldest first, at most 10000. Keys that another session has locked are skipped.
create or replace function pgque.maint_expire_keys()
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_gone integer;
begin
  delete from pgque.send_keys as k
  using (
    select e.sk_queue, e.sk_key
    from pgque.send_keys as e
    where e.sk_expires <= clock_timestamp()
    order by e.sk_expires
    limit 10000
    for update skip locked
  ) as old
  where k.sk_queue = old.sk_queue
    and k.sk_key = old.sk_key;
  get diagnostics v_gone = row_count;
  return v_gone;
end;
$$;
