-- Jobs: their ids, their queues, and how they come in.

-- 60 bits of the number, then 28 of the database's salt and 32 of the queue, in the form of a UUID of version 8.
-- Ids sort by age. penstock/model/jobs.py reads and writes the same form.
create or replace function penstock.job_uuid(p_queue integer, p_number bigint)
returns uuid
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select (
    lpad(to_hex(p_number >> 12), 12, '0') || '8' || lpad(to_hex(p_number & 4095), 3, '0')
    || '8' || s.salt || lpad(to_hex(p_queue), 8, '0')
  )::uuid
  from penstock.job_space as s;
$$;

-- Where a job stands among the ready ones: higher priorities first, then by age.
create or replace function penstock.job_place(p_priority integer, p_number bigint)
returns bigint
language sql
immutable
parallel safe
as $$
  select p_number - p_priority::bigint * 281474976710656;
$$;

-- The queues of these names, in their order; those missing are made.
create or replace function penstock.make_job_queues(p_tenants bigint[], p_names text[], p_now timestamptz)
returns integer[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.check_that(
    'queue_name',
    n ~ '^[A-Za-z0-9_-]+(\.fifo)?$' and length(n) <= 80,
    'have 1 to 80 letters, digits, hyphens and underscores'
  )
  from unnest(p_names) as n;
  insert into penstock.job_queues (tenant_id, name, created_at)
  select m.tenant_id, m.name, p_now
  from (
    select distinct e.tenant_id, e.name
    from unnest(p_tenants, p_names) as e (tenant_id, name)
    left join penstock.job_queues as q on q.tenant_id = e.tenant_id and q.name = e.name
    where q.id is null
    -- In one order, so that two who make the same queues do not wait for each other.
    order by e.tenant_id, e.name
  ) as m
  on conflict (tenant_id, name) do nothing;
  return (
    select array_agg(q.id order by e.position)
    from unnest(p_tenants, p_names) with ordinality as e (tenant_id, name, position)
    join penstock.job_queues as q on q.tenant_id = e.tenant_id and q.name = e.name
  );
end;
$$;

-- Tell nodes where someone waits on these queues. Nobody waiting anywhere is the usual case, and costs one look.
create or replace function penstock.announce_jobs(
  p_queues integer[],
  p_now timestamptz,
  p_to_all boolean default false
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform from penstock.job_waiting limit 1;
  if not found then
    return;
  end if;
  perform pg_notify('penstock_arrivals', n.tenant_id || ' jobs/' || n.name)
  from (
    select distinct q.tenant_id, q.name
    from unnest(p_queues) as e (queue_id)
    join penstock.job_queues as q on q.id = e.queue_id
  ) as n
  where (
    select true
    from penstock.job_waiting as w
    where w.tenant_id = n.tenant_id
      and w.queue = n.name
      and w.until > p_now
      and (p_to_all or w.node <> coalesce(current_setting('penstock.node', true), ''))
    limit 1
  );
end;
$$;

-- {"base": 5, "cap": 600} or {"delays": [10, 60, 300]}, in seconds.
create or replace function penstock.check_backoff(p_backoff jsonb)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_delay jsonb;
begin
  if p_backoff is null then
    return;
  end if;
  perform penstock.check_that('backoff', jsonb_typeof(p_backoff) = 'object', 'be an object');
  perform penstock.check_that('backoff', p_backoff - array['base', 'cap', 'delays'] = '{}', 'have base and cap, or delays');
  perform penstock.check_that('delays', coalesce(jsonb_typeof(p_backoff -> 'delays'), 'array') = 'array', 'be an array');
  perform penstock.check_that(
    'delays', coalesce(jsonb_array_length(p_backoff -> 'delays'), 1) between 1 and 100, 'have 1 to 100 entries'
  );
  for v_delay in
    select d
    from jsonb_array_elements(
      coalesce(p_backoff -> 'delays', '[]') || jsonb_build_array(coalesce(p_backoff -> 'base', '1'), coalesce(p_backoff -> 'cap', '1'))
    ) as d
  loop
    perform penstock.check_that('backoff', jsonb_typeof(v_delay) = 'number', 'hold numbers');
    perform penstock.check_that('backoff', v_delay::numeric between 0 and 2592000, 'hold seconds from 0 to 2592000');
  end loop;
end;
$$;

-- Checks of jobs that hold for every queue.
drop function if exists penstock.check_jobs(text[], integer[], text[]);
create or replace function penstock.check_jobs(
  p_payloads text[],
  p_priorities integer[],
  p_keys text[],
  p_run_ats timestamptz[]
)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.check_that('payload', array_position(p_payloads, null) is null, 'not be null');
  perform penstock.check_that('payload', max(octet_length(p)) <= 1048576, 'have at most 1048576 bytes')
  from unnest(p_payloads) as p;
  perform penstock.check_json('payload', p_payloads);
  perform penstock.check_that(
    'priority', -32767 <= all (p_priorities) and 32767 >= all (p_priorities), 'be between -32767 and 32767'
  );
  perform penstock.check_moments('run_at', p_run_ats);
  if num_nonnulls(variadic p_keys) > 0 then
    perform penstock.check_that('unique_key', bool_and(length(k) between 1 and 256), 'have 1 to 256 characters')
    from unnest(p_keys) as k;
  end if;
end;
$$;

-- Store jobs; answers their numbers in the order of the entries, and which of them were there already by their key.
-- Tenants and queues have one value for all entries, or one for each.
create or replace function penstock.enqueue_jobs(
  p_tenants bigint[],
  p_queues integer[],
  p_payloads text[],
  p_priorities integer[],
  p_retries integer[],
  p_run_ats timestamptz[],
  p_backoffs text[],
  p_keys text[],
  p_windows integer[],
  p_now timestamptz,
  out numbers bigint[],
  out existing boolean[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_keyed bigint[];
begin
  if p_keys is not null then
    if cardinality(p_queues) < cardinality(p_keys) then
      p_queues := array_fill(p_queues[1], array[cardinality(p_keys)]);
    end if;
    select k.numbers, k.existing
    into v_keyed, existing
    from penstock.claim_job_keys(p_queues, p_keys, p_windows, p_now) as k;
  end if;

  -- Numbers rise in the order of the entries. They are drawn first, so that the jobs pass through one insert only,
  -- and are not laid down and sorted on the way.
  numbers := array(
    select coalesce(v_keyed[n], nextval('penstock.job_numbers')) from generate_series(1, cardinality(p_payloads)) as n
  );

  -- job path: enqueue
  insert into penstock.jobs (
    queue_id, id, tenant_id, place, due_at, run_at, created_at, updated_at, priority, max_retries, state, backoff,
    payload
  )
  select
    coalesce(e.queue_id, p_queues[1]),
    e.id,
    coalesce(e.tenant_id, p_tenants[1]),
    penstock.job_place(coalesce(e.priority, 0), e.id),
    coalesce(e.run_at, p_now),
    coalesce(e.run_at, p_now),
    p_now,
    p_now,
    coalesce(e.priority, 0),
    coalesce(e.retries, 3),
    case when e.run_at > p_now then 2 else 0 end,
    e.backoff::json,
    e.payload::json
  from unnest(
    p_tenants, p_queues, numbers, p_payloads, p_priorities, p_retries, p_run_ats, p_backoffs, existing
  ) as e (tenant_id, queue_id, id, payload, priority, retries, run_at, backoff, existing)
  where e.existing is not true;
  -- end

  insert into penstock.job_changes (queue_id, pending)
  select coalesce(e.queue_id, p_queues[1]), count(*)
  from unnest(numbers, p_queues, existing) as e (id, queue_id, existing)
  where e.existing is not true
  group by 1;

  perform penstock.announce_jobs(p_queues, p_now);
end;
$$;

-- For entries with a key: the number of the job it stands for, and whether that job was there before.
create or replace function penstock.claim_job_keys(
  p_queues integer[],
  p_keys text[],
  p_windows integer[],
  p_now timestamptz,
  out numbers bigint[],
  out existing boolean[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_entry record;
  v_number bigint;
begin
  numbers := array_fill(null::bigint, array[cardinality(p_queues)]);
  existing := array_fill(false, array[cardinality(p_queues)]);
  for v_entry in
    select e.*
    from unnest(p_queues, p_keys, p_windows) with ordinality as e (queue_id, key, seconds, position)
    where e.key is not null
    -- Held until commit, and taken in one order by everyone.
    order by e.queue_id, e.key, e.position
  loop
    insert into penstock.job_keys as k (queue_id, key, job_id, expires_at)
    values (
      v_entry.queue_id,
      v_entry.key,
      nextval('penstock.job_numbers'),
      p_now + make_interval(secs => coalesce(v_entry.seconds, 3600))
    )
    on conflict (queue_id, key) do update
    set job_id = excluded.job_id,
        expires_at = excluded.expires_at
    where k.expires_at <= p_now
    returning k.job_id into v_number;
    if not found then
      select k.job_id
      into v_number
      from penstock.job_keys as k
      where k.queue_id = v_entry.queue_id
        and k.key = v_entry.key;
      -- It may have expired and been swept in between: then this entry goes without.
      existing[v_entry.position] := v_number is not null;
    end if;
    numbers[v_entry.position] := v_number;
  end loop;
end;
$$;
