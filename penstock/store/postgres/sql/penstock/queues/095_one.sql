-- Sends and deletes of one message, for SQL users: what send_many and finish_many do, without arrays.
--
-- A queue that neither orders, bounds nor deduplicates needs a lookup, an insert and a counter. Every statement here
-- finds its row by a unique key, so PostgreSQL keeps one generic plan for each. All other cases use the general functions.

create or replace function penstock.send_one(
  p_queue text,
  p_body text,
  p_json boolean,
  p_headers jsonb,
  p_delay integer,
  p_priority integer,
  p_group text,
  p_dedup text,
  p_retention integer
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
  v_queue record;
  v_id bigint;
  v_now timestamptz := clock_timestamp();
  v_delay integer;
begin
  if p_dedup is null and p_group is null and p_body is not null
    and coalesce(p_delay, 0) between 0 and 43200
    and coalesce(p_priority, 0) between 0 and 1000
    and coalesce(p_retention, 60) between 60 and 1209600
  then
    select q.id, q.bin_id, q.lifo, q.delay_s, q.retention_s
    into v_queue
    from penstock.queues as q
    where q.tenant_id = case
        when coalesce(current_setting('penstock.tenant', true), '') = '' then 1
        else penstock.current_tenant()
      end
      and q.name = p_queue
      and not q.fifo
      and not q.implicit
      and q.max_length is null
      and octet_length(p_body) <= q.max_message_bytes;
    if found then
      if p_priority is not null then
        -- The message may come before those that a receive of this session starts at.
        perform set_config('penstock.receive_hint', '', false);
      end if;
      v_id := nextval('penstock.message_ids');
      v_delay := coalesce(p_delay, v_queue.delay_s);
      insert into penstock.messages (
        bin_id, id, place, visible_at, sent_at, expires_at, priority, state, is_json, headers, body
      )
      values (
        v_queue.bin_id,
        v_id,
        penstock.place_of(coalesce(p_priority, 100), v_id, v_queue.lifo),
        v_now + make_interval(secs => v_delay),
        v_now,
        v_now + make_interval(secs => coalesce(p_retention, v_queue.retention_s)),
        coalesce(p_priority, 100),
        case when v_delay > 0 then 2 else 0 end,
        p_json,
        p_headers::json,
        p_body
      );
      insert into penstock.bin_changes (bin_id, arrived) values (v_queue.bin_id, 1);
      if pg_sequence_last_value('penstock.waiting_until') >= date_part('epoch', v_now) then
        perform penstock.announce(array[v_queue.id], v_now);
      end if;
      return v_id;
    end if;
  end if;
  -- Everything else: another kind of queue, or arguments that send_batch rejects with an error.
  return (penstock.send_batch(
    p_queue, array[p_body], case when p_headers is not null then array[p_headers] end, p_delay, p_priority, p_group,
    case when p_dedup is not null then array[p_dedup] end, p_retention, p_json
  ))[1];
end;
$$;

-- True when the message was there and, with a lease, that delivery is the current one.
create or replace function penstock.delete_one(p_queue text, p_id bigint, p_lease bigint)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
  v_tenant bigint := 1;
  v_bin bigint;
begin
  if coalesce(current_setting('penstock.tenant', true), '') <> '' then
    v_tenant := penstock.current_tenant();
  end if;
  select q.bin_id
  into v_bin
  from penstock.queues as q
  where q.tenant_id = v_tenant
    and q.name = p_queue
    and not q.fifo
    and not q.archive;
  if found then
    delete from penstock.messages as m
    where m.bin_id = v_bin
      and m.id = p_id
      and (p_lease is null or m.lease = p_lease);
    if found then
      insert into penstock.bin_changes (bin_id, departed) values (v_bin, 1);
    end if;
    return found;
  end if;
  perform penstock.find_queue(v_tenant, p_queue);
  return (penstock.finish_many(
    array[v_tenant], array[p_queue], array[p_id], array[p_lease], false, clock_timestamp()
  ))[1] = 'done';
end;
$$;
