-- Finding jobs by a value of their payload. Payloads never change, so a block of hashes is written once.

-- The values of a document as texts: numbers as written, texts as they are, true and false. The name of a field is not
-- a value.
create or replace function penstock.json_values(p_document json)
returns setof text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select v.value #>> '{}'
  -- jsonb has no null character.
  from jsonb_path_query(
    case when strpos(p_document::text, '\u0000') = 0 then p_document::jsonb else '{}'::jsonb end, 'strict $.**'
  ) as v (value)
  where jsonb_typeof(v.value) in ('string', 'number', 'boolean');
$$;

-- Jobs of a queue with ids after p_after, up to p_last, as they lie in both tables.
create or replace function penstock.job_payloads(p_queue integer, p_after bigint, p_last bigint, p_limit integer)
returns table (id bigint, state smallint, payload json)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select n.id, n.state, n.payload
  from (
    (
      select j.id, j.state, j.payload
      from penstock.jobs as j
      where j.queue_id = p_queue
        and j.id > p_after
        and j.id <= p_last
      order by j.id
      limit p_limit
    )
    union all
    (
      select f.id, f.state, f.payload
      from penstock.finished_jobs as f
      where f.queue_id = p_queue
        and f.id > p_after
        and f.id <= p_last
      order by f.id
      limit p_limit
    )
  ) as n
  order by n.id
  limit p_limit;
$$;

-- Which jobs are certain to be complete. A number is drawn shortly before its transaction has an id, so a number counts
-- from the round after the one that saw it.
create or replace function penstock.settle_job_numbers()
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_state penstock.job_block_state;
begin
  select s.* into v_state from penstock.job_block_state as s for update skip locked;
  if not found then
    return null;
  end if;
  if pg_snapshot_xmin(pg_current_snapshot()) >= v_state.horizon then
    update penstock.job_block_state
    set settled = v_state.number,
        number = v_state.next_number,
        horizon = pg_snapshot_xmax(pg_current_snapshot()),
        next_number = (select n.last_value from penstock.job_numbers as n);
    return v_state.number;
  end if;
  return v_state.settled;
end;
$$;

-- Write blocks for settled jobs, p_size jobs each, p_limit blocks at most. Answers how many blocks were written.
create or replace function penstock.write_job_blocks(p_size integer, p_limit integer)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_settled bigint := penstock.settle_job_numbers();
  v_queue record;
  v_block record;
  v_count integer := 0;
begin
  if v_settled is null then
    return 0;
  end if;
  for v_queue in
    select q.id, coalesce(b.last_id, 0) as done
    from penstock.job_queues as q
    left join lateral (
      select n.last_id from penstock.job_blocks as n where n.queue_id = q.id order by n.first_id desc limit 1
    ) as b on true
  loop
    while v_count < p_limit loop
      select
        min(p.id) as first_id, max(p.id) as last_id, count(distinct p.id) as jobs, array_agg(distinct h.hash) as hashes
      into v_block
      from penstock.job_payloads(v_queue.id, v_queue.done, v_settled, p_size) as p
      left join lateral (select hashtext(v.value) as hash from penstock.json_values(p.payload) as v (value)) as h on true;
      exit when v_block.jobs < p_size;
      insert into penstock.job_blocks (queue_id, first_id, last_id, hashes)
      values (v_queue.id, v_block.first_id, v_block.last_id, array_remove(v_block.hashes, null));
      v_queue.done := v_block.last_id;
      v_count := v_count + 1;
    end loop;
    exit when v_count >= p_limit;
  end loop;
  return v_count;
end;
$$;

-- Remove blocks whose jobs are forgotten. Jobs are forgotten from the oldest on.
create or replace function penstock.drop_job_blocks()
returns integer
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  with gone as (
    delete from penstock.job_blocks as b
    using (
      select distinct on (n.queue_id) n.queue_id, n.first_id, n.last_id
      from penstock.job_blocks as n
      order by n.queue_id, n.first_id
    ) as o
    where b.queue_id = o.queue_id
      and b.first_id = o.first_id
      and not exists (select from penstock.job_payloads(o.queue_id, o.first_id - 1, o.last_id, 1))
    returning 1
  )
  select count(*)::integer from gone;
$$;

-- Where jobs of a tenant may be that have the value: blocks with its hash, and what is in no block yet. Newest first.
create or replace function penstock.job_ranges(p_tenant bigint, p_queue text, p_value text, p_before bigint)
returns table (queue_id integer, after bigint, last bigint)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select b.queue_id, b.first_id - 1, least(b.last_id, p_before - 1) as last
  from penstock.job_queues as q
  join penstock.job_blocks as b on b.queue_id = q.id
  where q.tenant_id = p_tenant
    and (p_queue is null or q.name = p_queue)
    and b.first_id < p_before
    and hashtext(p_value) = any (b.hashes)
  union all
  select q.id, coalesce(t.last_id, 0), p_before - 1
  from penstock.job_queues as q
  left join lateral (
    select n.last_id from penstock.job_blocks as n where n.queue_id = q.id order by n.first_id desc limit 1
  ) as t on true
  where q.tenant_id = p_tenant
    and (p_queue is null or q.name = p_queue)
  order by last desc;
$$;

-- Jobs of a tenant in these states whose payload has the value, with numbers below p_before: the newest p_limit.
create or replace function penstock.find_jobs(
  p_tenant bigint,
  p_queue text,
  p_states integer[],
  p_value text,
  p_before bigint,
  p_limit integer
)
returns table (queue_id integer, id bigint)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_range record;
  v_queues integer[] := '{}';
  v_ids bigint[] := '{}';
begin
  for v_range in select r.* from penstock.job_ranges(p_tenant, p_queue, p_value, p_before) as r loop
    -- Ranges of several queues overlap: it is enough only when the rest is older than what is found.
    exit when cardinality(v_ids) >= p_limit
      and v_range.last < (select n.id from unnest(v_ids) as n (id) order by n.id desc offset p_limit - 1 limit 1);
    with found as (
      select p.id
      from penstock.job_payloads(v_range.queue_id, v_range.after, v_range.last, 100000) as p
      where p.state = any (p_states)
        and exists (select from penstock.json_values(p.payload) as v (value) where v.value = p_value)
      order by p.id desc
      limit p_limit
    )
    select v_queues || array_agg(v_range.queue_id), v_ids || array_agg(f.id)
    into v_queues, v_ids
    from found as f;
  end loop;
  return query
    select n.queue_id, n.id
    from unnest(v_queues, v_ids) as n (queue_id, id)
    order by n.id desc
    limit p_limit;
end;
$$;
