-- Queues: created, dropped, configured.

create or replace function pgque.event_table(i_queue_id integer, i_number integer)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select format('pgque.%I', 'event_' || i_queue_id || '_' || i_number)
$$;

create or replace function pgque.create_queue(i_queue_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_id integer;
begin
  if i_queue_name is null then
    raise exception 'Invalid NULL value' using errcode = '22004';
  end if;
  -- The name is part of the channels pgque_<name> and pgque_wake_<name>, and a channel has at most 63 bytes.
  if octet_length(i_queue_name) not between 1 and 52 then
    raise exception 'a queue name has 1 to 52 bytes' using errcode = 'PS011';
  end if;
  -- A session that creates the same queue at the same time waits here and then finds it created.
  insert into pgque.queue (queue_id, queue_name, queue_data_pfx, queue_event_seq, queue_tick_seq)
  select n.id, i_queue_name, 'pgque.event_' || n.id, 'pgque.event_' || n.id || '_id_seq',
    'pgque.event_' || n.id || '_tick_seq'
  from (select nextval('pgque.queue_queue_id_seq') as id) as n
  on conflict (queue_name) do nothing
  returning queue_id into v_id;
  if v_id is null then
    return 0;
  end if;
  execute format('create sequence pgque.%I', 'event_' || v_id || '_tick_seq');
  execute format('create sequence pgque.%I', 'event_' || v_id || '_id_seq');
  execute format('create sequence pgque.%I', 'event_' || v_id || '_wait_seq');
  execute format('create sequence pgque.%I', 'event_' || v_id || '_nack_seq');
  execute format('create table pgque.%I () inherits (pgque.event_template)', 'event_' || v_id);
  for v_number in 0 .. 2 loop
    perform pgque.create_event_table(v_id, v_number);
  end loop;
  perform pgque.ticker(i_queue_name);
  perform pgque.log_event('info', 'queue', 'created', jsonb_build_object('queue', i_queue_name));
  return 1;
end;
$$;

create or replace function pgque.create_event_table(i_queue_id integer, i_number integer)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name text := 'event_' || i_queue_id || '_' || i_number;
begin
  -- Never vacuumed: its only dead rows are those of failed transactions, and TRUNCATE removes them. The index on
  -- ev_txid finds the events of a batch, the index on ev_id finds one event or the next portion.
  execute format(
    'create table pgque.%I () inherits (pgque.%I)'
      || ' with (autovacuum_enabled = off, toast.autovacuum_enabled = off)',
    v_name, 'event_' || i_queue_id
  );
  execute format(
    'alter table pgque.%I alter column ev_id set default nextval(%L)',
    v_name, 'pgque.event_' || i_queue_id || '_id_seq'
  );
  execute format('create index %I on pgque.%I (ev_txid)', v_name || '_txid_idx', v_name);
  execute format('create index %I on pgque.%I (ev_id)', v_name || '_id_idx', v_name);
end;
$$;

create or replace function pgque.create_queue(i_queue_name text, i_options jsonb)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_made integer := pgque.create_queue(i_queue_name);
  v_option record;
begin
  if jsonb_typeof(coalesce(i_options, '{}')) <> 'object' then
    raise exception 'the options of a queue are an object' using errcode = 'PS010';
  end if;
  -- A queue that was there keeps its options: set_queue_config is for changing them.
  if v_made = 1 then
    for v_option in select o.key, o.value from jsonb_each_text(coalesce(i_options, '{}')) as o loop
      perform pgque.set_queue_config(i_queue_name, v_option.key, v_option.value);
    end loop;
  end if;
  return v_made;
end;
$$;

create or replace function pgque.set_queue_config(x_queue_name text, x_param_name text, x_param_value text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if x_queue_name is null or x_param_name is null then
    raise exception 'Invalid NULL value' using errcode = '22004';
  end if;
  perform pgque.queue_id(x_queue_name);
  case x_param_name
    when 'ticker_max_count' then
      update pgque.queue set queue_ticker_max_count = x_param_value::integer where queue_name = x_queue_name;
    when 'ticker_max_lag' then
      update pgque.queue set queue_ticker_max_lag = x_param_value::interval where queue_name = x_queue_name;
    when 'ticker_idle_period' then
      update pgque.queue set queue_ticker_idle_period = x_param_value::interval where queue_name = x_queue_name;
    when 'ticker_paused' then
      update pgque.queue set queue_ticker_paused = x_param_value::boolean where queue_name = x_queue_name;
    when 'rotation_period' then
      update pgque.queue set queue_rotation_period = x_param_value::interval where queue_name = x_queue_name;
    when 'external_ticker' then
      update pgque.queue set queue_external_ticker = x_param_value::boolean where queue_name = x_queue_name;
    when 'disable_insert' then
      update pgque.queue set queue_disable_insert = x_param_value::boolean where queue_name = x_queue_name;
    when 'max_retries' then
      update pgque.queue set queue_max_retries = x_param_value::integer where queue_name = x_queue_name;
    when 'event_ttl' then
      update pgque.queue set queue_event_ttl = x_param_value::interval where queue_name = x_queue_name;
    else
      raise exception 'cannot change parameter "%"', x_param_name using errcode = 'PS010';
  end case;
  return 1;
end;
$$;

create or replace function pgque.pause_queue(i_queue_name text)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select from pgque.set_queue_config(i_queue_name, 'ticker_paused', 'true')
$$;

create or replace function pgque.resume_queue(i_queue_name text)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select from pgque.set_queue_config(i_queue_name, 'ticker_paused', 'false')
$$;

create or replace function pgque.drop_queue(x_queue_name text, x_force boolean)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_id integer;
  v_consumer text;
begin
  select q.queue_id into v_id from pgque.queue as q where q.queue_name = x_queue_name for update;
  if v_id is null then
    raise exception 'No such event queue (queue not found: %)', x_queue_name using errcode = 'PS029';
  end if;
  if not coalesce(x_force, false) and (select true from pgque.subscriber as s where s.sub_queue = v_id limit 1) then
    raise exception 'cannot drop queue, consumers still attached' using errcode = 'PS030';
  end if;
  for v_consumer in
    select c.co_name
    from pgque.subscriber as s
    join pgque.consumer as c on c.co_id = s.sub_consumer
    where s.sub_queue = v_id
    order by s.sub_role desc, s.sub_member
  loop
    perform pgque.unregister_consumer(x_queue_name, v_consumer);
  end loop;
  for v_number in 0 .. 2 loop
    execute format('drop table %s', pgque.event_table(v_id, v_number));
  end loop;
  execute format('drop table pgque.%I', 'event_' || v_id);
  execute format('drop sequence pgque.%I', 'event_' || v_id || '_tick_seq');
  -- Loads that are still open take their ids from it.
  execute format('drop sequence pgque.%I cascade', 'event_' || v_id || '_id_seq');
  execute format('drop sequence pgque.%I', 'event_' || v_id || '_wait_seq');
  execute format('drop sequence if exists pgque.%I', 'event_' || v_id || '_nack_seq');
  delete from pgque.tick as t where t.tick_queue = v_id;
  delete from pgque.retry_queue as r where r.ev_queue = v_id;
  delete from pgque.dead_letter as d where d.dl_queue_id = v_id;
  delete from pgque.send_keys as k where k.sk_queue = v_id;
  delete from pgque.queue as q where q.queue_id = v_id;
  perform pgque.log_event('info', 'queue', 'dropped', jsonb_build_object('queue', x_queue_name));
  return 1;
end;
$$;

create or replace function pgque.drop_queue(x_queue_name text)
returns integer
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select pgque.drop_queue(x_queue_name, false)
$$;
