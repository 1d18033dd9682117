-- The SQL API: functions users call inside their own transactions.
--
-- A rollback undoes a send; the commit wakes receivers that wait at a server. All functions work in the tenant named by
-- the setting penstock.tenant, or in the default tenant.
--
-- Every statement is planned once per session, whatever the user's settings: planning costs more than the work. Functions
-- with large statements have all the planner settings of the server's connections.

create or replace function penstock.raise_code(p_code text, p_queue text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_code text := split_part(p_code, ':', 1);
  v_field text := split_part(p_code, ':', 2);
begin
  raise exception using
    errcode = v_code,
    detail = v_field,
    message = case v_code
      when 'PS010' then format('%s is required on queue ''%s''', v_field, p_queue)
      when 'PS012' then format('The message is larger than queue ''%s'' allows', p_queue)
      when 'PS021' then format('Queue ''%s'' does not exist', p_queue)
      when 'PS040' then format('Queue ''%s'' has reached its maximum length', p_queue)
      else format('Queue ''%s'' refused the message', p_queue)
    end;
end;
$$;

-- Checks settings against each other, as the engine does. The bounds of each setting are checked elsewhere.
create or replace function penstock.check_fit(p_queue penstock.queues)
returns void
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_dead penstock.queues;
begin
  perform penstock.check_that('lifo', not (p_queue.fifo and p_queue.lifo), 'be false on a .fifo queue');
  perform penstock.check_that('content_dedup', p_queue.fifo or not p_queue.content_dedup, 'be false unless on a .fifo queue');
  select q.* into v_dead from penstock.queues as q where q.id = p_queue.dead_letter_queue_id;
  if found then
    perform penstock.check_that('max_receives', p_queue.max_receives is not null, 'be set with a dead_letter_queue');
    perform penstock.check_that('dead_letter_queue', v_dead.id <> p_queue.id, 'differ from the queue');
    perform penstock.check_that('dead_letter_queue', v_dead.fifo = p_queue.fifo, 'be .fifo like the queue, or neither');
  end if;
end;
$$;

-- True when the queue is new. Settings by name, e.g. '{"visibility_timeout_s": 60, "max_length": 1000}'.
create or replace function penstock.create_queue(queue text, settings jsonb default '{}')
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not penstock.create_queue_row(penstock.current_tenant(), queue, settings, clock_timestamp()) then
    return false;
  end if;
  perform penstock.check_fit(penstock.find_queue(penstock.current_tenant(), queue));
  return true;
end;
$$;

create or replace function penstock.alter_queue(queue text, settings jsonb)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.update_queue_row(penstock.current_tenant(), queue, settings, clock_timestamp());
  perform penstock.check_fit(penstock.find_queue(penstock.current_tenant(), queue));
end;
$$;

create or replace function penstock.drop_queue(queue text)
returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select penstock.drop_queue_row(penstock.current_tenant(), queue);
$$;

create or replace function penstock.purge_queue(queue text)
returns bigint
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select penstock.purge_queue_row(penstock.current_tenant(), queue);
$$;

create or replace function penstock.list_queues()
returns table (queue text, fifo boolean, created_at timestamptz)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select q.name, q.fifo, q.created_at
  from penstock.queues as q
  where q.tenant_id = penstock.current_tenant()
  order by q.name;
$$;

-- Counts and ages of one queue, or of all.
create or replace function penstock.metrics(queue text default null)
returns table (
  queue_name text,
  visible bigint,
  in_flight bigint,
  delayed bigint,
  sent bigint,
  oldest_age interval,
  newest_age interval
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    c.queue, c.visible, c.in_flight, c.delayed, c.sent,
    clock_timestamp() - c.oldest_sent_at,
    clock_timestamp() - c.newest_sent_at
  from penstock.count_queues(
    penstock.current_tenant(),
    case when metrics.queue is not null then array[metrics.queue] end,
    clock_timestamp()
  ) as c;
$$;

-- Sends all messages, or raises an error and sends none.
--
-- A batch without options to a queue that neither orders, delays, bounds nor numbers its messages is one statement.
create or replace function penstock.send_batch(
  queue text,
  bodies text[],
  headers jsonb[] default null,
  delay_s integer default null,
  priority integer default null,
  group_id text default null,
  dedup_ids text[] default null,
  retention_s integer default null,
  is_json boolean default false
)
returns bigint[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_queue record;
  v_ids bigint[];
begin
  if coalesce(send_batch.delay_s, send_batch.priority, send_batch.retention_s) is null
    and coalesce(send_batch.group_id, send_batch.headers::text, send_batch.dedup_ids::text) is null
    and num_nulls(variadic bodies) = 0
  then
    select q.id, q.bin_id, v_now + make_interval(secs => q.retention_s) as expires_at
    into v_queue
    from penstock.queues as q
    where q.tenant_id = penstock.current_tenant()
      and q.name = send_batch.queue
      and not q.fifo
      and not q.implicit
      and not q.lifo
      and q.delay_s = 0
      and q.max_length is null
      -- When all bodies together are no larger than one may be, none is too large.
      and (
        pg_column_size(bodies) <= q.max_message_bytes
        or q.max_message_bytes >= (select max(octet_length(b)) from unnest(bodies) as b)
      );
    if found then
      v_ids := array(select nextval('penstock.message_ids') from unnest(bodies));
      if cardinality(v_ids) = 0 then
        return '{}';
      end if;
      insert into penstock.messages (
        bin_id, id, place, visible_at, sent_at, expires_at, priority, state, is_json, body
      )
      -- The place of priority 100; see place_of. Two arrays side by side cost less than rows that return their ids.
      select
        v_queue.bin_id, e.id, 4053239664633446400 + e.id, v_now, v_now, v_queue.expires_at, 100, 0,
        coalesce(send_batch.is_json, false), e.body
      from (select unnest(v_ids) as id, unnest(bodies) as body offset 0) as e;
      insert into penstock.bin_changes (bin_id, arrived) values (v_queue.bin_id, cardinality(v_ids));
      if pg_sequence_last_value('penstock.waiting_until') >= date_part('epoch', v_now) then
        perform penstock.announce(array[v_queue.id], v_now);
      end if;
      return v_ids;
    end if;
  end if;
  return penstock.send_checked(
    send_batch.queue, bodies, send_batch.headers, send_batch.delay_s, send_batch.priority, send_batch.group_id,
    send_batch.dedup_ids, send_batch.retention_s, send_batch.is_json
  );
end;
$$;

-- A message without options to a queue that neither orders, delays, bounds nor numbers its messages needs a lookup, an
-- insert and a count. The two functions repeat it: they run for every message, and another function call costs
-- measurable time.
create or replace function penstock.send(
  queue text,
  body text,
  headers jsonb default null,
  delay_s integer default null,
  priority integer default null,
  group_id text default null,
  dedup_id text default null,
  retention_s integer default null
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_body text := send.body;
  v_queue_id bigint;
  v_bin bigint;
  v_expires_at timestamptz;
  v_id bigint;
begin
  if num_nonnulls(send.headers, send.delay_s, send.priority, send.group_id, send.dedup_id, send.retention_s) = 0 then
    select q.id, q.bin_id, v_now + make_interval(secs => q.retention_s), nextval('penstock.message_ids')
    into v_queue_id, v_bin, v_expires_at, v_id
    from penstock.queues as q
    where q.tenant_id = case
        when coalesce(current_setting('penstock.tenant', true), '') = '' then 1
        else penstock.current_tenant()
      end
      and q.name = send.queue
      and not q.fifo
      and not q.implicit
      and not q.lifo
      and q.delay_s = 0
      and q.max_length is null
      and octet_length(v_body) <= q.max_message_bytes;
  end if;
  if v_id is null then
    return penstock.send_one(
      send.queue, v_body, false, send.headers, send.delay_s, send.priority, send.group_id, send.dedup_id, send.retention_s
    );
  end if;
  insert into penstock.messages (bin_id, id, place, visible_at, sent_at, expires_at, priority, state, is_json, body)
  -- The place of priority 100; see place_of.
  values (v_bin, v_id, 4053239664633446400 + v_id, v_now, v_now, v_expires_at, 100, 0, false, v_body);
  insert into penstock.bin_changes (bin_id, arrived) values (v_bin, 1);
  if pg_sequence_last_value('penstock.waiting_until') >= date_part('epoch', v_now) then
    perform penstock.announce(array[v_queue_id], v_now);
  end if;
  return v_id;
end;
$$;

create or replace function penstock.send(
  queue text,
  message jsonb,
  headers jsonb default null,
  delay_s integer default null,
  priority integer default null,
  group_id text default null,
  dedup_id text default null,
  retention_s integer default null
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_body text := send.message::text;
  v_queue_id bigint;
  v_bin bigint;
  v_expires_at timestamptz;
  v_id bigint;
begin
  if num_nonnulls(send.headers, send.delay_s, send.priority, send.group_id, send.dedup_id, send.retention_s) = 0 then
    select q.id, q.bin_id, v_now + make_interval(secs => q.retention_s), nextval('penstock.message_ids')
    into v_queue_id, v_bin, v_expires_at, v_id
    from penstock.queues as q
    where q.tenant_id = case
        when coalesce(current_setting('penstock.tenant', true), '') = '' then 1
        else penstock.current_tenant()
      end
      and q.name = send.queue
      and not q.fifo
      and not q.implicit
      and not q.lifo
      and q.delay_s = 0
      and q.max_length is null
      and octet_length(v_body) <= q.max_message_bytes;
  end if;
  if v_id is null then
    return penstock.send_one(
      send.queue, v_body, true, send.headers, send.delay_s, send.priority, send.group_id, send.dedup_id, send.retention_s
    );
  end if;
  insert into penstock.messages (bin_id, id, place, visible_at, sent_at, expires_at, priority, state, is_json, body)
  -- The place of priority 100; see place_of.
  values (v_bin, v_id, 4053239664633446400 + v_id, v_now, v_now, v_expires_at, 100, 0, true, v_body);
  insert into penstock.bin_changes (bin_id, arrived) values (v_bin, 1);
  if pg_sequence_last_value('penstock.waiting_until') >= date_part('epoch', v_now) then
    perform penstock.announce(array[v_queue_id], v_now);
  end if;
  return v_id;
end;
$$;

-- Returns up to max_messages messages and hides them for visibility_timeout_s, by default that of the queue. id and
-- lease identify the delivery.
create or replace function penstock.receive(
  queue text, visibility_timeout_s integer default null, max_messages integer default 1
)
returns table (
  id bigint, lease bigint, body text, headers jsonb, attributes jsonb, receives integer, priority smallint, group_id text,
  sent_at timestamptz, visible_at timestamptz
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_limit integer := max_messages;
  v_lease bigint := penstock.next_lease(0, v_now);
  v_bin bigint;
  v_until timestamptz;
  v_hint bigint[] := nullif(current_setting('penstock.receive_hint', true), '')::bigint[];
  v_start bigint := penstock.hint_start(v_hint, v_now);
  v_since timestamptz := penstock.hint_since(v_hint, v_now);
  v_walked bigint := penstock.entries_walked();
  v_due boolean;
begin
  loop
    -- A standard queue without a receive limit, and no hint for another; with arguments out of bounds there is none.
    select q.bin_id, v_now + interval '1 second'
        * coalesce(receive.visibility_timeout_s, q.visibility_timeout_s, penstock.default_visibility_timeout_s()),
      exists (select from penstock.messages as m
        where m.bin_id = q.bin_id and m.state in (1, 2) and m.visible_at >= v_since and m.visible_at <= v_now)
    into v_bin, v_until, v_due
    from penstock.queues as q
    where q.tenant_id
        = case when coalesce(current_setting('penstock.tenant', true), '') = '' then 1 else penstock.current_tenant() end
      and q.name = receive.queue
      and not q.fifo and q.max_receives is null
      and (receive.visibility_timeout_s between 0 and 43200) is not false
      and (v_limit between 1 and 1000) is not false
      and (v_hint is null or q.bin_id = v_hint[1] and not q.lifo);
    if v_bin is null then
      return query select r.* from penstock.receive_from_any(receive.queue, visibility_timeout_s, v_limit, v_now) as r;
      return;
    end if;
    if v_due then
      v_start := least(v_start, penstock.release_due_in(receive.queue, v_since, v_now));
    end if;
    return query
    -- hot: receive
    with claimed as (
      update penstock.messages as m
      set state = 1, visible_at = v_until, lease = greatest(m.lease + 1, v_lease), receives = m.receives + 1,
          first_received_at = coalesce(m.first_received_at, v_now)
      where m.ctid = any (
        array(
          select n.ctid from penstock.messages as n
          where n.bin_id = v_bin and n.state = 0 and n.place >= v_start and n.expires_at > v_now
          order by n.place limit v_limit for update skip locked
        )
      )
      returning
        m.place, m.id, m.lease, m.body, m.headers, m.attributes, m.receives, m.priority, m.group_id, m.sent_at, m.visible_at
    )
    select c.id, c.lease, c.body, c.headers::jsonb, c.attributes::jsonb, c.receives, c.priority, c.group_id, c.sent_at,
      c.visible_at
    from claimed as c order by c.place;
    -- end
    exit when found or v_start = 0 or v_hint[4] > v_lease;
    v_start := 0;
    v_since := '-infinity';
  end loop;
  if penstock.saw_start(v_hint, v_due, v_walked, v_now) then
    perform penstock.remember_start(v_hint, receive.queue, v_start, v_since, v_walked, found, v_now);
  end if;
end;
$$;

-- Receives and deletes messages in one step: delivery is at most once.
create or replace function penstock.pop(queue text, max_messages integer default 1)
returns table (id bigint, body text, headers jsonb, attributes jsonb, sent_at timestamptz)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_time bigint := penstock.next_lease(0, v_now);
  v_limit integer := max_messages;
  v_bin bigint;
  v_hint bigint[] := nullif(current_setting('penstock.receive_hint', true), '')::bigint[];
  v_start bigint := penstock.hint_start(v_hint, v_now);
  v_since timestamptz := penstock.hint_since(v_hint, v_now);
  v_walked bigint := penstock.entries_walked();
  v_due boolean;
  v_count bigint;
begin
  loop
    -- As in receive; and deleted messages are not archived.
    select
      q.bin_id,
      exists (
        select from penstock.messages as m
        where m.bin_id = q.bin_id and m.state in (1, 2) and m.visible_at >= v_since and m.visible_at <= v_now
      )
    into v_bin, v_due
    from penstock.queues as q
    where q.tenant_id
        = case when coalesce(current_setting('penstock.tenant', true), '') = '' then 1 else penstock.current_tenant() end
      and q.name = pop.queue
      and not q.fifo and q.max_receives is null and not q.archive
      and (v_limit between 1 and 1000) is not false
      and (v_hint is null or q.bin_id = v_hint[1] and not q.lifo);
    if v_bin is null then
      return query select r.* from penstock.pop_from_any(pop.queue, pop.max_messages) as r;
      return;
    end if;
    if v_due then
      v_start := least(v_start, penstock.release_due_in(pop.queue, v_since, v_now));
    end if;
    return query
    -- hot: pop
    with gone as (
      delete from penstock.messages as m
      where m.ctid = any (
        array(
          select n.ctid from penstock.messages as n
          where n.bin_id = v_bin and n.state = 0 and n.place >= v_start and n.expires_at > v_now
          order by n.place limit v_limit for update skip locked
        )
      )
      returning m.place, m.id, m.body, m.headers, m.attributes, m.sent_at
    )
    select g.id, g.body, g.headers::jsonb, g.attributes::jsonb, g.sent_at from gone as g order by g.place;
    -- end
    get diagnostics v_count = row_count;
    exit when v_count > 0 or v_start = 0 or v_hint[4] > v_time;
    v_start := 0;
    v_since := '-infinity';
  end loop;
  if v_count > 0 then
    insert into penstock.bin_changes (bin_id, departed) values (v_bin, v_count);
  end if;
  if penstock.saw_start(v_hint, v_due, v_walked, v_now) then
    perform penstock.remember_start(v_hint, pop.queue, v_start, v_since, v_walked, v_count > 0, v_now);
  end if;
end;
$$;

-- Returns whether the message was there. With a lease, only if that delivery is the latest.
create or replace function penstock.delete(queue text, id bigint, lease bigint default null)
returns boolean
language sql
begin atomic
  select penstock.delete_one(queue, id, lease);
end;

-- Deletes many messages. Returns the ids of those that were there.
create or replace function penstock.delete_batch(queue text, ids bigint[], leases bigint[] default null)
returns bigint[]
language sql
begin atomic
  select penstock.finish_batch(queue, ids, leases, false);
end;

-- Deletes a message and keeps a copy in the archive. Returns whether it was there.
create or replace function penstock.archive(queue text, id bigint, lease bigint default null)
returns boolean
language sql
begin atomic
  select cardinality(penstock.finish_batch(queue, array[id], array[lease], true)) = 1;
end;

create or replace function penstock.archive_batch(queue text, ids bigint[], leases bigint[] default null)
returns bigint[]
language sql
begin atomic
  select penstock.finish_batch(queue, ids, leases, true);
end;

-- Returns when the message becomes visible; null when it does not exist or the lease is not the latest.
create or replace function penstock.change_visibility(
  queue text,
  id bigint,
  visibility_timeout_s integer,
  lease bigint default null
)
returns timestamptz
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.check_range('visibility_timeout_s', visibility_timeout_s, -43200, 43200);
  perform penstock.find_queue(penstock.current_tenant(), queue);
  return (penstock.change_visibility_many(
    array[penstock.current_tenant()], array[queue], array[id], array[lease], array[visibility_timeout_s],
    clock_timestamp()
  )).visible_at[1];
end;
$$;

create or replace function penstock.peek(queue text, max_messages integer default 1)
returns table (id bigint, body text, headers jsonb, attributes jsonb, receives integer, sent_at timestamptz)
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select penstock.check_range('max_messages', peek.max_messages, 1, 1000);
  select m.id, m.body, m.headers::jsonb, m.attributes::jsonb, m.receives, m.sent_at
  from penstock.peek_many(penstock.current_tenant(), peek.queue, peek.max_messages, false, clock_timestamp()) as m;
$$;
