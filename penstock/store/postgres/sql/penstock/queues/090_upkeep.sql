-- Upkeep: what any node may do at any time, a bounded piece per call.

create or replace function penstock.sweep(p_now timestamptz, p_limit integer)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_removed integer := 0;
begin
  -- One node at a time; who comes second has nothing to add.
  if not pg_try_advisory_xact_lock(1885695604, 1) then
    return 0;
  end if;
  v_removed := penstock.sweep_abandoned(p_limit);
  v_removed := v_removed + penstock.sweep_expired(p_now, p_limit);
  delete from penstock.dedup as d
  where d.ctid = any (
    array(select e.ctid from penstock.dedup as e where e.expires_at <= p_now limit p_limit for update skip locked)
  );
  delete from penstock.waiting as w where w.until <= p_now;
  perform penstock.fold_counts();
  return v_removed;
end;
$$;

create or replace function penstock.sweep_abandoned(p_limit integer)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bin bigint;
  v_count integer;
  v_removed integer := 0;
begin
  for v_bin in select a.bin_id from penstock.abandoned_bins as a order by a.bin_id loop
    delete from penstock.messages as m
    where m.ctid = any (
      array(
        select e.ctid
        from penstock.messages as e
        where e.bin_id = v_bin
        limit p_limit - v_removed
        for update skip locked
      )
    );
    get diagnostics v_count = row_count;
    v_removed := v_removed + v_count;
    exit when v_removed >= p_limit;
    -- A sender that found the bin before it was given up may still commit into it, and someone may hold a
    -- message of it: the bin is forgotten only once nobody from then can be left and it is empty.
    delete from penstock.dedup as d where d.bin_id = v_bin;
    delete from penstock.bin_changes as c where c.bin_id = v_bin;
    delete from penstock.bin_counts as c where c.bin_id = v_bin;
    delete from penstock.abandoned_bins as a
    where a.bin_id = v_bin
      and a.given_up_in < pg_snapshot_xmin(pg_current_snapshot())
      and not exists (select from penstock.messages as m where m.bin_id = v_bin);
  end loop;
  return v_removed;
end;
$$;

create or replace function penstock.sweep_expired(p_now timestamptz, p_limit integer)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_batch record;
  v_group text;
  v_removed integer := 0;
begin
  for v_batch in
    select
      f.bin_id,
      array_agg(f.id) as ids,
      array_agg(distinct f.group_id) filter (where f.fifo) as groups
    from (
      select m.bin_id, m.id, m.group_id, coalesce(q.fifo, false) as fifo
      from penstock.messages as m
      left join penstock.queues as q on q.bin_id = m.bin_id
      where m.expires_at <= p_now
      limit p_limit
      for update of m skip locked
    ) as f
    -- What someone holds, a message or a group, is left for the next sweep.
    where not f.fifo
      or penstock.try_hold_group(f.bin_id, f.group_id)
    group by f.bin_id
  loop
    v_removed := v_removed + penstock.remove_messages(v_batch.bin_id, v_batch.ids);
    continue when v_batch.groups is null;
    foreach v_group in array v_batch.groups loop
      perform penstock.settle_group(v_batch.bin_id, v_group, p_now);
    end loop;
  end loop;
  return v_removed;
end;
$$;

-- Messages of implicit queues that were received p_max times or more, unless they are in flight: nobody names a
-- dead-letter queue for them, and without an end they would be received for as long as they are kept.
create or replace function penstock.sweep_poison(p_max integer, p_now timestamptz, p_limit integer)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bin bigint;
  v_removed integer := 0;
begin
  for v_bin in select q.bin_id from penstock.queues as q where q.implicit order by q.id loop
    v_removed := v_removed + penstock.remove_messages(
      v_bin,
      array(
        select m.id
        from penstock.messages as m
        where m.bin_id = v_bin
          and m.receives >= p_max
          and (m.state <> 1 or m.visible_at <= p_now)
        limit p_limit - v_removed
        for update skip locked
      )
    );
    exit when v_removed >= p_limit;
  end loop;
  return v_removed;
end;
$$;

create or replace function penstock.add_counts(p_bin bigint, p_arrived bigint, p_departed bigint)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into penstock.bin_counts as c (bin_id, arrived, departed)
  values (p_bin, p_arrived, p_departed)
  on conflict (bin_id) do update
  set arrived = c.arrived + excluded.arrived,
      departed = c.departed + excluded.departed;
end;
$$;

-- Fold what changed into the counters. The rows it removes stay as dead ones while a long transaction anywhere
-- holds vacuum off, and every fold would walk over them: once they are many, the table is emptied instead, at a
-- moment when nobody is writing to it.
create or replace function penstock.fold_counts()
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_alone boolean := false;
  v_change record;
begin
  if pg_relation_size('penstock.bin_changes') > 2097152 then
    begin
      lock table penstock.bin_changes in access exclusive mode nowait;
      v_alone := true;
    exception
      when lock_not_available then null;
    end;
  end if;
  if v_alone then
    perform penstock.add_counts(c.bin_id, sum(c.arrived), sum(c.departed))
    from penstock.bin_changes as c
    group by c.bin_id;
    truncate penstock.bin_changes;
  else
    for v_change in
      with taken as (
        delete from penstock.bin_changes
        returning bin_id, arrived, departed
      )
      select t.bin_id, sum(t.arrived) as arrived, sum(t.departed) as departed
      from taken as t
      group by t.bin_id
    loop
      perform penstock.add_counts(v_change.bin_id, v_change.arrived, v_change.departed);
    end loop;
  end if;
end;
$$;
