-- Waiting for messages from SQL.
--
-- A function cannot hear notifications, so receive_wait looks again and again. A program that keeps a connection can
-- listen instead: expect_messages has senders notify it.

-- As receive, but waits up to wait_s seconds for the first message. It looks every 10 ms at first, then every 200 ms.
create or replace function penstock.receive_wait(
  queue text, wait_s integer default 5, visibility_timeout_s integer default null, max_messages integer default 1
)
returns table (
  id bigint, lease bigint, body text, headers jsonb, attributes jsonb, receives integer, priority smallint, group_id text,
  sent_at timestamptz, visible_at timestamptz
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_until timestamptz := clock_timestamp() + make_interval(secs => coalesce(wait_s, 0));
  v_left_s double precision;
  v_pause_s double precision := 0.01;
begin
  perform penstock.check_range('wait_s', receive_wait.wait_s, 0, 20);
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception using errcode = 'PS060',
      message = 'receive_wait requires the isolation level read committed; others do not see what is sent meanwhile';
  end if;
  loop
    return query
    select r.*
    from penstock.receive(receive_wait.queue, receive_wait.visibility_timeout_s, receive_wait.max_messages) as r;
    exit when found;
    v_left_s := extract(epoch from v_until - clock_timestamp());
    exit when v_left_s <= 0;
    perform pg_sleep(least(v_pause_s, v_left_s));
    v_pause_s := least(v_pause_s * 2, 0.2);
  end loop;
end;
$$;

-- For the next expect_s seconds, what is sent to the queue is announced on the channel penstock_arrivals. Returns the
-- text of the announcement.
create or replace function penstock.expect_messages(queue text, expect_s integer default 60)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_queue penstock.queues := penstock.find_queue(penstock.current_tenant(), queue);
  v_until timestamptz := clock_timestamp() + make_interval(secs => coalesce(expect_messages.expect_s, 60));
begin
  perform penstock.check_range('expect_s', expect_messages.expect_s, 1, 300);
  insert into penstock.waiting as w (queue_id, node, until)
  values (v_queue.id, 'session ' || pg_backend_pid(), v_until)
  on conflict (queue_id, node) do update
  set until = excluded.until;
  perform penstock.note_waiting(v_until);
  return v_queue.tenant_id || ' ' || v_queue.name;
end;
$$;
