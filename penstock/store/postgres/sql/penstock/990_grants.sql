-- Who may call what. The functions act with their owner's rights, so tables need no grants at all; nobody
-- gets anything by default.

do $$
declare
  v_role text;
begin
  foreach v_role in array array['penstock_reader', 'penstock_writer', 'penstock_admin'] loop
    begin
      execute format('create role %I nologin', v_role);
    exception
      -- Another database of this server made it, or is making it right now.
      when duplicate_object or unique_violation then null;
      when insufficient_privilege then
        raise warning 'role % is missing and may not be created; ask a superuser', v_role;
    end;
  end loop;
end;
$$;

revoke all on schema penstock from public;
revoke all on all functions in schema penstock from public;

do $$
declare
  v_function regprocedure;
  v_name text;
begin
  if (select count(*) from pg_roles where rolname in ('penstock_reader', 'penstock_writer', 'penstock_admin')) < 3 then
    return;
  end if;
  grant usage on schema penstock to penstock_reader, penstock_writer, penstock_admin;
  for v_function, v_name in
    select p.oid::regprocedure, p.proname
    from pg_proc as p
    where p.pronamespace = 'penstock'::regnamespace
  loop
    if v_name in ('list_queues', 'list_schedules', 'list_topics', 'metrics', 'peek') then
      execute format('grant execute on function %s to penstock_reader, penstock_writer, penstock_admin', v_function);
    elsif v_name = 'enqueue_job' then
      execute format('grant execute on function %s to penstock_writer, penstock_admin', v_function);
    elsif v_name in ('publish', 'publish_event') then
      execute format('grant execute on function %s to penstock_writer, penstock_admin', v_function);
    elsif v_name in ('create_topic', 'drop_topic', 'subscribe', 'subscribe_events', 'unsubscribe') then
      execute format('grant execute on function %s to penstock_admin', v_function);
    -- delete, archive and their batches are inlined into the caller's statement, which then calls delete_one and
    -- finish_batch.
    elsif v_name in (
      'send', 'send_batch', 'receive', 'receive_wait', 'expect_messages', 'pop', 'delete', 'delete_one', 'delete_batch', 'archive',
      'archive_batch', 'finish_batch', 'change_visibility'
    ) then
      execute format('grant execute on function %s to penstock_writer, penstock_admin', v_function);
    elsif v_name in (
      'create_queue', 'alter_queue', 'drop_queue', 'purge_queue', 'redrive', 'create_schedule', 'pause_schedule',
      'resume_schedule', 'drop_schedule'
    ) then
      execute format('grant execute on function %s to penstock_admin', v_function);
    end if;
  end loop;
end;
$$;
