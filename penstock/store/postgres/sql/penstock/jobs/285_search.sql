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

-- Where jobs of a tenant may be that have the value: blocks with its hash, and what is in no block yet. With p_dead only
-- dead jobs are wanted: an index has them, so each queue is one range.
drop function if exists penstock.find_jobs(bigint, text, integer[], text, bigint, integer);
drop function if exists penstock.job_ranges(bigint, text, text, bigint);
create or replace function penstock.job_ranges(
  p_tenant bigint, p_queue text, p_value text, p_before bigint, p_dead boolean
)
returns table (queue_id integer, after bigint, last bigint, whole boolean)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select b.queue_id, b.first_id - 1, least(b.last_id, p_before - 1), true
  from penstock.job_queues as q
  join penstock.job_blocks as b on b.queue_id = q.id
  where q.tenant_id = p_tenant
    and (p_queue is null or q.name = p_queue)
    and b.first_id < p_before
    and hashtext(p_value) = any (b.hashes)
    and not p_dead
  union all
  select q.id, coalesce(t.last_id, 0), n.last, false
  from penstock.job_queues as q
  left join lateral (
    select n.last_id from penstock.job_blocks as n where n.queue_id = q.id and not p_dead order by n.first_id desc limit 1
  ) as t on true
  cross join lateral (
    select greatest(
      (select max(j.id) from penstock.jobs as j where j.queue_id = q.id and j.id < p_before),
      (select max(f.id) from penstock.finished_jobs as f where f.queue_id = q.id and f.id < p_before)
    ) as last
  ) as n
  where q.tenant_id = p_tenant
    and (p_queue is null or q.name = p_queue)
    and n.last > coalesce(t.last_id, 0);
$$;

-- After which number the newest p_count jobs of a range begin; the beginning of the range when it has fewer.
create or replace function penstock.job_piece(
  p_queue integer, p_after bigint, p_last bigint, p_count integer, p_dead boolean
)
returns bigint
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_after bigint;
begin
  if p_dead then
    select j.id into v_after
    from penstock.jobs as j
    where j.queue_id = p_queue and j.state = 3 and j.id > p_after and j.id <= p_last
    order by j.id desc
    offset p_count
    limit 1;
  else
    select n.id into v_after
    from (
      (
        select j.id
        from penstock.jobs as j
        where j.queue_id = p_queue and j.id > p_after and j.id <= p_last
        order by j.id desc
        limit p_count + 1
      )
      union all
      (
        select f.id
        from penstock.finished_jobs as f
        where f.queue_id = p_queue and f.id > p_after and f.id <= p_last
        order by f.id desc
        limit p_count + 1
      )
    ) as n
    order by n.id desc
    offset p_count
    limit 1;
  end if;
  return coalesce(v_after, p_after);
end;
$$;

-- Jobs of a range in these states whose payload has the value, newest first. A text that has neither the value nor a
-- backslash, with which JSON writes some characters, need not be parsed.
create or replace function penstock.match_jobs(
  p_queue integer, p_states integer[], p_value text, p_after bigint, p_last bigint, p_limit integer
)
returns bigint[]
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_states = '{3}' then
    return array(
      select j.id
      from penstock.jobs as j
      where j.queue_id = p_queue and j.state = 3 and j.id > p_after and j.id <= p_last
        and (strpos(j.payload::text, p_value) > 0 or strpos(j.payload::text, '\') > 0)
        and p_value in (select penstock.json_values(j.payload))
      order by j.id desc
      limit p_limit
    );
  end if;
  return array(
    select n.id
    from (
      select j.id
      from penstock.jobs as j
      where j.queue_id = p_queue and j.id > p_after and j.id <= p_last and j.state = any (p_states)
        and (strpos(j.payload::text, p_value) > 0 or strpos(j.payload::text, '\') > 0)
        and p_value in (select penstock.json_values(j.payload))
      union all
      select f.id
      from penstock.finished_jobs as f
      where f.queue_id = p_queue and f.id > p_after and f.id <= p_last and f.state = any (p_states)
        and (strpos(f.payload::text, p_value) > 0 or strpos(f.payload::text, '\') > 0)
        and p_value in (select penstock.json_values(f.payload))
    ) as n
    order by n.id desc
    limit p_limit
  );
end;
$$;

-- Jobs of a tenant in these states whose payload has the value, with numbers below p_before: the newest p_limit. A search
-- ends after p_ms milliseconds, too: then a row without a queue says before which number it goes on.
create or replace function penstock.find_jobs(
  p_tenant bigint,
  p_queue text,
  p_states integer[],
  p_value text,
  p_before bigint,
  p_limit integer,
  p_ms integer
)
returns table (queue_id integer, id bigint)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  c_piece constant integer := 5000;
  v_end timestamptz := clock_timestamp() + make_interval(secs => p_ms / 1000.0);
  v_dead boolean := p_states = '{3}';
  v_queue_ids integer[];
  v_afters bigint[];
  v_lasts bigint[];
  v_whole boolean[];
  v_place integer;
  v_from bigint;
  v_found bigint[];
  v_queues integer[] := '{}';
  v_ids bigint[] := '{}';
  v_stop bigint;
begin
  select array_agg(r.queue_id), array_agg(r.after), array_agg(r.last), array_agg(r.whole)
  into v_queue_ids, v_afters, v_lasts, v_whole
  from penstock.job_ranges(p_tenant, p_queue, p_value, p_before, v_dead) as r;
  loop
    -- The range that has the newest jobs left. Ranges of several queues overlap.
    select r.place into v_place
    from unnest(v_lasts) with ordinality as r (last, place)
    where r.last is not null
    order by r.last desc
    limit 1;
    exit when v_place is null;
    exit when cardinality(v_ids) >= p_limit
      and v_lasts[v_place] < (select n.id from unnest(v_ids) as n (id) order by n.id desc offset p_limit - 1 limit 1);
    if v_from is not null and clock_timestamp() > v_end then
      v_stop := v_lasts[v_place];
      exit;
    end if;
    v_from := v_afters[v_place];
    if not v_whole[v_place] then
      v_from := penstock.job_piece(v_queue_ids[v_place], v_from, v_lasts[v_place], c_piece, v_dead);
    end if;
    v_found := penstock.match_jobs(v_queue_ids[v_place], p_states, p_value, v_from, v_lasts[v_place], p_limit);
    v_ids := v_ids || v_found;
    v_queues := v_queues || array_fill(v_queue_ids[v_place], array[cardinality(v_found)]);
    v_lasts[v_place] := case when v_from > v_afters[v_place] then v_from end;
  end loop;
  return query
    select n.queue_id, n.id
    from unnest(v_queues, v_ids) as n (queue_id, id)
    where v_stop is null or n.id > v_stop
    order by n.id desc
    limit p_limit;
  if v_stop is not null then
    return query select null::integer, v_stop + 1;
  end if;
end;
$$;

-- The same for jobs with a tag; p_value may be null.
create or replace function penstock.find_tagged_jobs(
  p_tenant bigint,
  p_queue text,
  p_states integer[],
  p_value text,
  p_before bigint,
  p_limit integer,
  p_ms integer,
  p_tag text
)
returns table (queue_id integer, id bigint)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  c_piece constant integer := 1000;
  v_end timestamptz := clock_timestamp() + make_interval(secs => p_ms / 1000.0);
  v_before bigint := p_before;
  v_left integer := p_limit;
  v_piece record;
  v_count bigint;
begin
  loop
    select array_agg(t.queue_id) as queues, array_agg(t.job_id) as ids, min(t.job_id) as first, count(*) as jobs
    into v_piece
    from (
      select n.queue_id, n.job_id
      from penstock.job_tags as n
      where n.tenant_id = p_tenant
        and n.tag = p_tag
        and n.job_id < v_before
        and (
          p_queue is null
          or n.queue_id = (select q.id from penstock.job_queues as q where q.tenant_id = p_tenant and q.name = p_queue)
        )
      order by n.job_id desc
      limit c_piece
    ) as t;
    exit when v_piece.jobs = 0;
    return query
      select t.queue_id, t.id
      from unnest(v_piece.queues, v_piece.ids) as t (queue_id, id)
      cross join lateral (
        select j.state, j.payload from penstock.jobs as j where j.queue_id = t.queue_id and j.id = t.id
        union all
        select f.state, f.payload from penstock.finished_jobs as f where f.queue_id = t.queue_id and f.id = t.id
      ) as n
      where n.state = any (p_states)
        and (p_value is null or p_value in (select penstock.json_values(n.payload)))
      order by t.id desc
      limit v_left;
    get diagnostics v_count = row_count;
    v_left := v_left - v_count;
    v_before := v_piece.first;
    exit when v_left <= 0 or v_piece.jobs < c_piece;
    if clock_timestamp() > v_end then
      return query select null::integer, v_before;
      exit;
    end if;
  end loop;
end;
$$;
