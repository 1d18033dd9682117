-- Roles, and the functions each may call. Functions run with the rights of their owner, so tables need no grants, and
-- PUBLIC gets nothing. The change triggers and their helpers run with the rights of the role that changes the table.

-- Brings an older installation up to date: roles and sequences that are missing are created and constraints that are no
-- longer needed are dropped. Returns 0, as in PgQ.
create or replace function pgque.upgrade_schema()
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_role text;
  v_constraint name;
  v_queue integer;
begin
  foreach v_role in array array['pgque_reader', 'pgque_writer', 'pgque_admin'] loop
    begin
      if to_regrole(v_role) is null then
        execute format('create role %I nologin', v_role);
      end if;
    exception
      -- A session in another database of this server creates it at the same time.
      when duplicate_object or unique_violation then null;
      when insufficient_privilege then
        raise warning 'role % does not exist and you may not create it; ask a superuser', v_role;
    end;
  end loop;
  for v_constraint in
    select c.conname
    from pg_constraint as c
    where c.conrelid = 'pgque.queue'::regclass
      and c.conname in ('queue_queue_per_tx_limit_check', 'queue_queue_extra_maint_check')
  loop
    execute format('alter table pgque.queue drop constraint %I', v_constraint);
  end loop;
  for v_queue in
    select q.queue_id
    from pgque.queue as q
    where to_regclass('pgque.event_' || q.queue_id || '_nack_seq') is null
  loop
    execute format('create sequence pgque.%I', 'event_' || v_queue || '_nack_seq');
  end loop;
  return 0;
end;
$$;

do $$
begin
  perform pgque.upgrade_schema();
end;
$$;

revoke all on schema pgque from public;
revoke all on all tables in schema pgque from public;
revoke all on all functions in schema pgque from public;

do $$
declare
  -- State of queues and consumers, without payloads.
  v_reading text[] := array[
    'version', 'status', 'get_queue_info', 'get_consumer_info', 'queue_stats', 'consumer_stats', 'queue_health',
    'throughput', 'latency_percentiles', 'error_rate', 'in_flight', 'stuck_consumers', 'otel_metrics'
  ];
  -- Producers and consumers.
  v_writing text[] := array[
    'insert_event', 'send', 'send_batch', 'send_once', 'send_at',
    'register_consumer', 'register_consumer_at', 'unregister_consumer', 'subscribe', 'unsubscribe',
    'next_batch', 'next_batch_info', 'next_batch_custom', 'get_batch_info', 'get_batch_events', 'get_batch_cursor',
    'finish_batch', 'event_retry', 'batch_retry', 'receive', 'ack', 'nack', 'event_dead', 'dlq_inspect',
    'subscribe_subconsumer', 'unsubscribe_subconsumer', 'touch_subconsumer', 'receive_coop',
    'subscribe_partitioned', 'unsubscribe_partitioned', 'claim_part',
    'ticker', 'force_tick', 'force_next_tick', 'tick_if_waiting', 'tick_now', 'expect_events',
    'test_send', 'test_consume', 'assert_empty', 'assert_dlq_empty',
    'jsontriga', 'logutriga', 'sqltriga', 'trigger_options', 'trigger_columns', 'row_values', 'row_expression',
    'json_value', 'json_row', 'url_text', 'url_row', 'sql_insert', 'sql_key', 'sql_update', 'encode_change',
    'key_changes', 'change_matters', 'event_field', 'check_trigger', 'describe_change', 'write_change', 'log_change',
    'track_table', 'untrack_table', 'change_triggers'
  ];
  v_function regprocedure;
  v_name text;
begin
  if (select count(*) from pg_roles where rolname in ('pgque_reader', 'pgque_writer', 'pgque_admin')) < 3 then
    return;
  end if;
  grant usage on schema pgque to pgque_reader, pgque_writer, pgque_admin;
  grant execute on all functions in schema pgque to pgque_admin;
  -- Except those that trust their arguments: a row of our tables that the caller made up could name any table.
  for v_function in
    select p.oid
    from pg_proc as p
    where p.pronamespace = 'pgque'::regnamespace
      and p.prosecdef
      and (
        select true
        from unnest(p.proargtypes) as a (type)
        join pg_type as t on t.oid = a.type
        where a.type = 'regclass'::regtype
          or (t.typnamespace = 'pgque'::regnamespace and a.type <> 'pgque.message'::regtype)
        limit 1
      )
  loop
    execute format('revoke execute on function %s from pgque_admin', v_function);
  end loop;
  for v_function, v_name in
    select p.oid::regprocedure, p.proname
    from pg_proc as p
    where p.pronamespace = 'pgque'::regnamespace
      and p.proname = any (v_reading || v_writing)
  loop
    execute format('grant execute on function %s to pgque_writer', v_function);
    if v_name = any (v_reading) then
      execute format('grant execute on function %s to pgque_reader', v_function);
    end if;
  end loop;
end;
$$;
