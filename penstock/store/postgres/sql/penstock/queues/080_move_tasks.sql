-- The way back from a dead-letter queue: tasks that move messages within a rate.

create or replace function penstock.start_move_task(
  p_tenant bigint,
  p_source text,
  p_destination text,
  p_rate integer,
  p_now timestamptz
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_source penstock.queues := penstock.find_queue(p_tenant, p_source);
  v_destination bigint;
  v_id bigint;
begin
  if p_destination is not null then
    v_destination := (penstock.find_queue(p_tenant, p_destination)).id;
  end if;
  insert into penstock.move_tasks (
    tenant_id, source_id, destination_id, destination, has_destination, rate, to_move, started_at, stepped_at
  )
  values (
    p_tenant, v_source.id, v_destination, p_destination, p_destination is not null, p_rate,
    penstock.bin_total(v_source.bin_id), p_now, p_now
  )
  on conflict (source_id) where state = 'running' do nothing
  returning id into v_id;
  if v_id is null then
    raise exception using errcode = 'PS033', message = 'A move task is already running for this queue.';
  end if;
  return v_id;
end;
$$;

create or replace function penstock.cancel_move_task(p_tenant bigint, p_task bigint)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_state text;
begin
  select t.state into v_state from penstock.move_tasks as t where t.id = p_task and t.tenant_id = p_tenant for update;
  if not found then
    raise exception using errcode = 'PS023', message = 'The move task does not exist.';
  elsif v_state <> 'running' then
    raise exception using errcode = 'PS030', message = format('The move task is already %s.', v_state);
  end if;
  update penstock.move_tasks set state = 'cancelled' where id = p_task;
end;
$$;

-- Carry every running task on by one step. Nodes that try at the same time skip each other's tasks.
create or replace function penstock.run_move_tasks(
  p_now timestamptz,
  out moved integer,
  out tenants bigint[],
  out queues text[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task penstock.move_tasks;
  v_source penstock.queues;
  v_target penstock.queues;
  v_budget integer;
  v_batch record;
  v_step integer;
begin
  moved := 0;
  for v_task in
    select t.* from penstock.move_tasks as t where t.state = 'running' order by t.id for update skip locked
  loop
    v_budget := case
      when v_task.rate is null then 1000
      else floor(v_task.rate * extract(epoch from p_now - v_task.stepped_at))
    end;
    continue when v_budget < 1;
    select q.* into v_source from penstock.queues as q where q.id = v_task.source_id;
    v_step := 0;
    for v_batch in
      select
        case when v_task.has_destination then v_task.destination_id else f.dead_letter_source end as target_id,
        array_agg(f.id order by f.id) as ids
      from (
        select m.id, m.dead_letter_source
        from penstock.messages as m
        where m.bin_id = v_source.bin_id
          and (m.state in (0, 3) or m.visible_at <= p_now)
        order by m.id
        limit least(v_budget, 1000)
      ) as f
      group by 1
    loop
      select q.* into v_target from penstock.queues as q where q.id = v_batch.target_id;
      if not found then
        update penstock.move_tasks
        set state = 'failed',
            failure = case
              when v_task.has_destination then 'The destination queue no longer exists.'
              else 'A message has no source queue to return to.'
            end
        where id = v_task.id;
        v_step := null;
        exit;
      end if;
      v_step := v_step + penstock.move_home(v_source, v_batch.ids, v_target, p_now);
      tenants := tenants || v_target.tenant_id;
      queues := queues || v_target.name;
    end loop;
    continue when v_step is null;
    moved := moved + v_step;
    update penstock.move_tasks as t
    set moved = t.moved + v_step,
        stepped_at = p_now,
        state = case
          when exists (
            select
            from penstock.messages as m
            where m.bin_id = v_source.bin_id
              and (m.state in (0, 3) or m.visible_at <= p_now)
          ) then 'running'
          else 'completed'
        end
    where t.id = v_task.id;
  end loop;
end;
$$;

-- Move these messages to a destination, or home without one. Those that somebody is receiving stay.
create or replace function penstock.move_by_ids(
  p_tenant bigint,
  p_source text,
  p_ids bigint[],
  p_destination text,
  p_now timestamptz,
  out moved integer,
  out tenants bigint[],
  out queues text[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_source penstock.queues := penstock.find_queue(p_tenant, p_source);
  v_destination bigint;
  v_target penstock.queues;
  v_batch record;
begin
  moved := 0;
  if p_destination is not null then
    v_destination := (penstock.find_queue(p_tenant, p_destination)).id;
  end if;
  for v_batch in
    select coalesce(v_destination, m.dead_letter_source) as target_id, array_agg(m.id order by m.id) as ids
    from penstock.messages as m
    where m.ctid = any (array(select penstock.tids_of(v_source.bin_id, p_ids)))
    group by 1
  loop
    select q.* into v_target from penstock.queues as q where q.id = v_batch.target_id;
    if not found then
      raise exception using errcode = 'PS030', message = 'A message has no source queue to return to.';
    end if;
    moved := moved + penstock.move_home(v_source, v_batch.ids, v_target, p_now);
    tenants := tenants || v_target.tenant_id;
    queues := queues || v_target.name;
  end loop;
end;
$$;

-- Move what nobody is receiving right now, keeping FIFO groups on both sides in order.
create or replace function penstock.move_home(
  p_source penstock.queues,
  p_ids bigint[],
  p_target penstock.queues,
  p_now timestamptz
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ids bigint[];
  v_groups text[];
  v_group text;
  v_moved integer;
begin
  if p_source.fifo then
    select array_agg(g.group_id)
    into v_groups
    from (
      select distinct m.group_id
      from penstock.messages as m
      where m.ctid = any (array(select penstock.tids_of(p_source.bin_id, p_ids)))
    ) as g
    where penstock.try_hold_group(p_source.bin_id, g.group_id);
  end if;
  select array_agg(f.id)
  into v_ids
  from (
    select m.id
    from penstock.messages as m
    where m.ctid = any (array(select penstock.tids_of(p_source.bin_id, p_ids)))
      and (m.state in (0, 3) or m.visible_at <= p_now)
      and (not p_source.fifo or m.group_id = any (v_groups))
    order by m.id
    for update skip locked
  ) as f;
  if v_ids is null then
    return 0;
  end if;
  v_moved := penstock.move_messages(p_source.bin_id, v_ids, p_target, null, true, p_now);
  if p_source.fifo then
    foreach v_group in array v_groups loop
      perform penstock.settle_group(p_source.bin_id, v_group, p_now);
    end loop;
  end if;
  return v_moved;
end;
$$;
