-- Webhook deliveries: claimed under a lease, so that no transaction waits for an endpoint; then finished, or tried again.

-- A lane is one endpoint. The walk goes from lane to lane and takes a few of each: an endpoint with a long backlog costs
-- the others nothing. It begins behind p_after and goes round.
create or replace function penstock.claim_deliveries(
  p_limit integer,
  p_each integer,
  p_busy_lanes bigint[],
  p_busy_counts integer[],
  p_after bigint,
  p_lease interval,
  p_now timestamptz
)
returns setof penstock.deliveries
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_lane bigint := p_after;
  v_due timestamptz;
  v_left integer := p_limit;
  v_round integer := 1;
  v_free integer;
  v_claimed integer;
begin
  for v_step in 1 .. 1000 loop
    exit when v_left <= 0;
    select d.lane, d.due_at
    into v_lane, v_due
    from penstock.deliveries as d
    where d.state < 2
      and d.lane > v_lane
    order by d.lane, d.due_at
    limit 1;
    if not found then
      exit when v_round = 2 or p_after = -9223372036854775808;
      v_round := 2;
      v_lane := -9223372036854775808;
      continue;
    end if;
    exit when v_round = 2 and v_lane > p_after;
    continue when v_due > p_now;
    v_free := p_each - coalesce(p_busy_counts[array_position(p_busy_lanes, v_lane)], 0);
    continue when v_free <= 0;
    return query
    update penstock.deliveries as d
    set state = 1,
        lease = d.lease + 1,
        attempts = d.attempts + 1,
        due_at = p_now + p_lease
    where d.id = any (
      array(
        select e.id
        from penstock.deliveries as e
        where e.state < 2
          and e.lane = v_lane
          and e.due_at <= p_now
        order by e.due_at
        limit least(v_free, v_left)
        for update skip locked
      )
    )
    returning d.*;
    get diagnostics v_claimed = row_count;
    v_left := v_left - v_claimed;
  end loop;
end;
$$;

-- Lock order: deliveries by id, then what a send locks. True for each whose lease was the last.
create or replace function penstock.finish_deliveries(
  p_ids bigint[],
  p_leases bigint[],
  p_delivered boolean[],
  p_retry_at timestamptz[],
  p_statuses integer[],
  p_errors text[],
  p_now timestamptz
)
returns boolean[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_done bigint[];
  v_dead record;
begin
  perform d.id
  from penstock.deliveries as d
  where d.id = any (p_ids)
  order by d.id
  for update;
  with finished as (
    update penstock.deliveries as d
    set state = case when a.delivered then 2 when a.retry_at is null then 3 else 0 end,
        due_at = coalesce(a.retry_at, d.due_at),
        finished_at = case when a.delivered or a.retry_at is null then p_now end,
        last_status = a.status,
        last_error = a.error
    from unnest(p_ids, p_leases, p_delivered, p_retry_at, p_statuses, p_errors)
      as a (id, lease, delivered, retry_at, status, error)
    where d.id = a.id
      and d.lease = a.lease
      and d.state = 1
    returning d.*
  )
  select
    array_agg(f.id) as done,
    array_agg(f.tenant_id) filter (where f.state = 3 and f.dead_letter_queue is not null) as tenants,
    array_agg(f.dead_letter_queue) filter (where f.state = 3 and f.dead_letter_queue is not null) as queues,
    array_agg(f.body) filter (where f.state = 3 and f.dead_letter_queue is not null) as bodies
  into v_dead
  from finished as f;
  v_done := v_dead.done;
  if v_dead.tenants is not null then
    perform penstock.send_dead_letters(v_dead.tenants, v_dead.queues, v_dead.bodies, null, null, null, null, p_now);
  end if;
  return array(
    select coalesce(i.id = any (v_done), false)
    from unnest(p_ids) with ordinality as i (id, position)
    order by i.position
  );
end;
$$;

create or replace function penstock.replay_delivery_row(p_tenant bigint, p_id bigint, p_now timestamptz)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_state smallint;
begin
  select d.state
  into v_state
  from penstock.deliveries as d
  where d.tenant_id = p_tenant
    and d.id = p_id
  for update;
  if not found then
    raise exception using errcode = 'PS027', message = 'The delivery does not exist.';
  elsif v_state < 2 then
    raise exception using errcode = 'PS030', message = 'The delivery is still in progress.';
  end if;
  update penstock.deliveries as d
  set state = 0,
      attempts = 0,
      due_at = p_now,
      finished_at = null
  where d.id = p_id;
end;
$$;
