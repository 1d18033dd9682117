-- Maintenance as a whole: what is due, and all of it in one call.

-- Duties without a counterpart in PgQ that have something to do. Those that lock tables come last.
create or replace function pgque.duties_due()
returns setof text
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
  select d.name
  from (
    values
      (
        'pgque.maint_deliver_delayed',
        (select true from pgque.delayed_events as e where e.de_deliver_at <= clock_timestamp() limit 1)
      ),
      (
        'pgque.maint_expire_keys',
        (select true from pgque.send_keys as k where k.sk_expires <= clock_timestamp() limit 1)
      ),
      (
        'pgque.maint_forget_failures',
        (select f.fa_time < clock_timestamp() - interval '7 days' from pgque.failure as f order by f.fa_id limit 1)
      ),
      ('pgque.maint_drop_loads', (select true from pgque.load limit 1)),
      (
        'pgque.maint_empty_tables',
        (select bool_or(pg_relation_size(t) > 1048576) from unnest(pgque.tables_to_empty()) as t)
      ),
      ('pgque.maint_progress', pgque.progress_is_due())
  ) as d (name, due)
  where d.due
$$;

-- The calls that are due now: functions, each with the name of a queue or null, and tables to vacuum. The list is that
-- of PgQ, which has no retries in it (call maint_retry_events as well), and the duties that PgQ does not have.
create or replace function pgque.maint_operations(out func_name text, out func_arg text)
returns setof record
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
  (select 'pgque.maint_rotate_tables_step1', q.queue_name
   from pgque.queue as q
   where q.queue_switch_step2 is not null
     and q.queue_switch_time + q.queue_rotation_period < now()
   order by q.queue_name)
  union all
  (select 'pgque.maint_rotate_tables_step2', null
   from pgque.queue as q
   where q.queue_switch_step2 is null
     or q.queue_switch_time + q.queue_rotation_period < now()
   limit 1)
  union all
  (select e.name, q.queue_name
   from pgque.queue as q
   cross join lateral unnest(q.queue_extra_maint) with ordinality as e (name, place)
   order by q.queue_name, e.place)
  union all
  select d.name, null from pgque.duties_due() as d (name)
  union all
  select 'vacuum', v.name from pgque.maint_tables_to_vacuum() as v (name)
$$;

-- Calls one function of queue_extra_maint, with the rights of the caller; its result. The name is looked up, never
-- executed as SQL.
create or replace function pgque.call_extra_maint(i_function text, i_queue_name text)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_function regprocedure := to_regprocedure(i_function || '(text)');
  v_result text;
begin
  if v_function is null then
    raise exception 'function %(text) of queue_extra_maint does not exist', i_function using errcode = '42883';
  end if;
  execute format('select %s($1)', v_function::regproc) into v_result using i_queue_name;
  return case when v_result ~ '^\d{1,9}$' then v_result::integer else 0 end;
end;
$$;

-- All maintenance in one call, for a scheduler such as pg_cron. What locks tables comes last. Step 2 of a rotation is
-- done by the next call, in a transaction of its own. A function of queue_extra_maint that fails is a warning.
create or replace function pgque.maint()
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_done integer := 0;
  v_name text;
  v_extra text;
begin
  perform pgque.maint_rotate_tables_step2();
  for v_extra, v_name in
    select e.name, q.queue_name from pgque.queue as q cross join lateral unnest(q.queue_extra_maint) as e (name)
  loop
    begin
      v_done := v_done + pgque.call_extra_maint(v_extra, v_name);
    exception
      when others then
        raise warning 'maintenance function % failed for queue %: %', v_extra, v_name, sqlerrm;
    end;
  end loop;
  v_done := v_done + pgque.maint_retry_events() + pgque.maint_deliver_delayed() + pgque.maint_expire_keys()
    + pgque.maint_forget_failures() + pgque.maint_drop_loads();
  for v_name in select q.queue_name from pgque.queue as q order by q.queue_id loop
    perform pgque.maint_rotate_tables_step1(v_name);
  end loop;
  v_done := v_done + pgque.maint_empty_tables() + pgque.maint_progress();
  return v_done;
end;
$$;
