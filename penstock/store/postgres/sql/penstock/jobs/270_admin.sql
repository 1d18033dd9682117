-- What administrators do to jobs: limits of queues, dead jobs brought back or removed. Each act is written down.

create or replace function penstock.note_act(
  p_tenant bigint,
  p_actor text,
  p_act text,
  p_subject text,
  p_detail json,
  p_now timestamptz
)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  insert into penstock.audit (at, tenant_id, actor, act, subject, detail)
  values (p_now, p_tenant, p_actor, p_act, p_subject, coalesce(p_detail, '{}'));
$$;

create or replace function penstock.refuse_change()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception using errcode = 'PS050', message = 'the audit is only added to';
end;
$$;

drop trigger if exists audit_is_kept on penstock.audit;
create trigger audit_is_kept
before update or delete or truncate on penstock.audit
for each statement execute function penstock.refuse_change();

create or replace function penstock.limit_jobs(
  p_tenant bigint,
  p_queue text,
  p_concurrency integer,
  p_rate double precision,
  p_burst integer,
  p_actor text,
  p_now timestamptz
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue integer := (penstock.make_job_queues(array[p_tenant], array[p_queue], p_now))[1];
begin
  update penstock.job_queues as q
  set concurrency = p_concurrency,
      rate = p_rate,
      burst = p_burst,
      starts_left = null,
      filled_at = null
  where q.id = v_queue;
  perform penstock.note_act(
    p_tenant, p_actor, 'queue limits changed', p_queue,
    json_build_object('concurrency', p_concurrency, 'rate', p_rate, 'burst', p_burst), p_now
  );
  perform penstock.announce_jobs(array[v_queue], p_now);
end;
$$;

-- Dead jobs are new again, oldest first: those of p_numbers, or any. Answers how many.
create or replace function penstock.requeue_jobs(
  p_tenant bigint,
  p_queue integer,
  p_numbers bigint[],
  p_limit integer,
  p_actor text,
  p_now timestamptz
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer;
begin
  update penstock.jobs as j
  set state = 0,
      retry_count = 0,
      due_at = p_now,
      run_at = p_now,
      finished_at = null,
      dead_reason = null,
      updated_at = p_now
  where j.ctid = any (
    array(
      select n.ctid
      from penstock.jobs as n
      where n.queue_id = p_queue
        and n.tenant_id = p_tenant
        and n.state = 3
        and (p_numbers is null or n.id = any (p_numbers))
      order by n.id
      limit p_limit
      for update skip locked
    )
  );
  get diagnostics v_count = row_count;
  if v_count > 0 then
    insert into penstock.job_changes (queue_id, pending, dead) values (p_queue, v_count, -v_count);
    perform penstock.note_act(
      p_tenant, p_actor, 'dead jobs requeued', (select q.name from penstock.job_queues as q where q.id = p_queue),
      json_build_object('jobs', v_count), p_now
    );
    perform penstock.announce_jobs(array[p_queue], p_now);
  end if;
  return v_count;
end;
$$;

create or replace function penstock.purge_jobs(
  p_tenant bigint,
  p_queue integer,
  p_numbers bigint[],
  p_limit integer,
  p_actor text,
  p_now timestamptz
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer;
  v_gone bigint[];
begin
  with gone as (
    delete from penstock.jobs as j
    where j.ctid = any (
      array(
        select n.ctid
        from penstock.jobs as n
        where n.queue_id = p_queue
          and n.tenant_id = p_tenant
          and n.state = 3
          and (p_numbers is null or n.id = any (p_numbers))
        order by n.id
        limit p_limit
        for update skip locked
      )
    )
    returning j.id
  )
  select array_agg(g.id), count(*) into v_gone, v_count from gone as g;
  if v_count > 0 then
    perform penstock.make_job_day(p_now);
    perform penstock.cancel_waiting(array_fill(p_queue, array[v_count]), v_gone, p_now);
    insert into penstock.job_changes (queue_id, dead) values (p_queue, -v_count);
    perform penstock.note_act(
      p_tenant, p_actor, 'dead jobs purged', (select q.name from penstock.job_queues as q where q.id = p_queue),
      json_build_object('jobs', v_count), p_now
    );
  end if;
  return v_count;
end;
$$;

-- Take requests from a bucket that holds p_burst and fills at p_rate per second: what there is of p_wanted, and when
-- there is nothing, the seconds until there is one. Nodes take several at a time, so that few requests come here.
create or replace function penstock.take_requests(
  p_name text,
  p_rate double precision,
  p_burst double precision,
  p_wanted integer,
  p_now timestamptz,
  out taken integer,
  out wait_s double precision
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tokens double precision;
begin
  insert into penstock.rate_buckets as b (name, tokens, filled_at)
  values (p_name, p_burst, p_now)
  on conflict (name) do update
  set tokens = least(p_burst, b.tokens + p_rate * greatest(extract(epoch from p_now - b.filled_at), 0)),
      filled_at = greatest(b.filled_at, p_now)
  returning b.tokens into v_tokens;
  taken := least(p_wanted, floor(v_tokens + 1e-9)::integer);
  wait_s := case when taken > 0 then 0 else (1 - v_tokens) / p_rate end;
  if taken > 0 then
    update penstock.rate_buckets as b set tokens = b.tokens - taken where b.name = p_name;
  end if;
end;
$$;
