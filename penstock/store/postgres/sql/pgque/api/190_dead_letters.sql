-- Failures. An event that failed is delivered again, up to the number of retries of the queue. Then it becomes a dead
-- letter of the consumer that failed; other consumers are not affected.

-- Times of failures, for pgque.error_rate. nack writes them; they are deleted after a week.
create table if not exists pgque.failure (
  fa_id bigint generated always as identity primary key,
  fa_queue integer not null,
  fa_consumer integer not null,
  fa_time timestamptz not null default clock_timestamp(),
  fa_dead boolean not null
);

create index if not exists failure_queue_time on pgque.failure (fa_queue, fa_time);

-- Stores a failure and counts it. The count is a sequence of the queue: a counter that sessions need not wait for, and
-- that stays when old failures are deleted.
create or replace function pgque.note_failure(i_queue_id integer, i_consumer_id integer, i_dead boolean)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into pgque.failure (fa_queue, fa_consumer, fa_dead) values (i_queue_id, i_consumer_id, i_dead);
  perform nextval(format('pgque.%I', 'event_' || i_queue_id || '_nack_seq')::regclass);
end;
$$;

-- An event is a dead letter of a consumer once, however often it is reported.
create unique index if not exists dead_letter_event on pgque.dead_letter (dl_queue_id, dl_consumer_id, ev_id);

-- The consumer that has the batch; for a cooperative group, its main consumer.
create or replace function pgque.consumer_of(i_batch pgque.batch)
returns pgque.consumer
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select c
  from pgque.subscriber as s
  join pgque.consumer as c on c.co_id = s.sub_consumer
  where s.sub_id = i_batch.sub_id
    and s.sub_role <> 'member';
$$;

-- An open batch, locked until the end of the transaction.
create or replace function pgque.locked_batch(i_batch_id bigint)
returns pgque.batch
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pgque.lock_batch(i_batch_id);
  return pgque.open_batch(i_batch_id);
end;
$$;

-- The event as it is stored: what a caller holds may be old, or made up.
create or replace function pgque.stored_event(i_batch_id bigint, i_event_id bigint)
returns pgque.event
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_event pgque.event;
begin
  select e.* into v_event
  from pgque.batch_event(i_batch_id, i_event_id) as e
  order by e.ev_retry desc nulls last
  limit 1;
  if not found then
    raise exception 'event not found in batch %: %', i_batch_id, i_event_id using errcode = 'PS010';
  end if;
  return v_event;
end;
$$;

-- 1, or 0 when the event is a dead letter already.
create or replace function pgque.event_dead(i_batch_id bigint, i_event_id bigint, i_reason text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_batch pgque.batch := pgque.locked_batch(i_batch_id);
  v_event pgque.event := pgque.stored_event(i_batch_id, i_event_id);
  v_consumer pgque.consumer := pgque.consumer_of(v_batch);
begin
  insert into pgque.dead_letter (
    dl_queue_id, dl_consumer_id, dl_consumer_name, dl_time, dl_reason,
    ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
  )
  values (
    v_batch.sub_queue, v_consumer.co_id, v_consumer.co_name, clock_timestamp(), left(i_reason, 10000),
    v_event.ev_id, v_event.ev_time, v_event.ev_txid, v_event.ev_retry, v_event.ev_type, v_event.ev_data,
    v_event.ev_extra1, v_event.ev_extra2, v_event.ev_extra3, v_event.ev_extra4
  )
  on conflict (dl_queue_id, dl_consumer_id, ev_id) do nothing;
  if not found then
    return 0;
  end if;
  perform pgque.note_failure(v_batch.sub_queue, v_consumer.co_id, true);
  perform pgque.log_event(
    'warning', 'dead_letter', 'stored',
    jsonb_build_object(
      'queue', (select q.queue_name from pgque.queue as q where q.queue_id = v_batch.sub_queue),
      'consumer', v_consumer.co_name, 'event', v_event.ev_id, 'retries', coalesce(v_event.ev_retry, 0)
    )
  );
  return 1;
end;
$$;

-- The same with the fields of the event, which are not looked at.
create or replace function pgque.event_dead(
  i_batch_id bigint,
  i_event_id bigint,
  i_reason text,
  i_ev_time timestamptz,
  i_ev_txid xid8,
  i_ev_retry integer,
  i_ev_type text,
  i_ev_data text,
  i_ev_extra1 text default null,
  i_ev_extra2 text default null,
  i_ev_extra3 text default null,
  i_ev_extra4 text default null
)
returns integer
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select pgque.event_dead(i_batch_id, i_event_id, i_reason);
$$;

-- Newest first.
create or replace function pgque.dlq_inspect(i_queue text, i_limit integer default 100)
returns setof pgque.dead_letter
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer := pgque.check_consume(i_queue);
begin
  return query
  select d.*
  from pgque.dead_letter as d
  where d.dl_queue_id = v_queue
  order by d.dl_time desc, d.dl_id desc
  limit least(greatest(i_limit, 0), 10000);
end;
$$;

-- Sends a dead letter again, as a new event that was never tried; the id of that, or null when the dead letter is gone.
-- It goes to the consumer that could not handle it, since the others did; to all of them when it has left the queue,
-- or when asked to.
create or replace function pgque.dlq_replay(i_dead_letter_id bigint, i_to_all boolean default false)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue text;
  v_letter pgque.dead_letter;
begin
  select q.queue_name into v_queue
  from pgque.dead_letter as d
  join pgque.queue as q on q.queue_id = d.dl_queue_id
  where d.dl_id = i_dead_letter_id;
  if not found then
    return null;
  end if;
  perform pgque.check_consume(v_queue);
  delete from pgque.dead_letter as d where d.dl_id = i_dead_letter_id returning d.* into v_letter;
  if not found then
    return null;
  end if;
  return pgque.insert_event_raw(
    v_queue, null, now(), case when not i_to_all then pgque.owner_of(v_letter) end, null,
    v_letter.ev_type, v_letter.ev_data, v_letter.ev_extra1, v_letter.ev_extra2, v_letter.ev_extra3, v_letter.ev_extra4
  );
end;
$$;

-- What an event names as its owner when only the consumer of this dead letter is to see it. By name: a consumer that
-- left and came back is another one to the tables, but not to its users.
create or replace function pgque.owner_of(i_letter pgque.dead_letter)
returns integer
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.sub_id
  from pgque.consumer as c
  join pgque.subscriber as s on s.sub_consumer = c.co_id
  where c.co_name = i_letter.dl_consumer_name
    and s.sub_queue = i_letter.dl_queue_id;
$$;

-- All dead letters of a queue, oldest first; how many.
create or replace function pgque.dlq_replay_all(i_queue text, i_to_all boolean default false)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer := pgque.check_consume(i_queue);
  v_letter bigint;
  v_replayed integer := 0;
begin
  for v_letter in
    select d.dl_id from pgque.dead_letter as d where d.dl_queue_id = v_queue order by d.dl_id for update skip locked
  loop
    perform pgque.dlq_replay(v_letter, i_to_all);
    v_replayed := v_replayed + 1;
  end loop;
  return v_replayed;
end;
$$;

-- Forgets dead letters older than this; how many.
create or replace function pgque.dlq_purge(i_queue text, i_older_than interval default '30 days')
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer := pgque.check_consume(i_queue);
  v_gone integer;
begin
  delete from pgque.dead_letter as d
  where d.dl_queue_id = v_queue
    and d.dl_time <= clock_timestamp() - i_older_than;
  get diagnostics v_gone = row_count;
  return v_gone;
end;
$$;

create or replace function pgque.maint_forget_failures()
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_gone integer;
begin
  -- In the order of their ids, which is near that of their times and needs no other index.
  delete from pgque.failure as f
  using (
    select o.fa_id
    from (select * from pgque.failure as a order by a.fa_id limit 10000) as o
    where o.fa_time < clock_timestamp() - interval '7 days'
  ) as old
  where f.fa_id = old.fa_id;
  get diagnostics v_gone = row_count;
  return v_gone;
end;
$$;
