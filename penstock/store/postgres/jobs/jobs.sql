-- What the server says to PostgreSQL about jobs. The rules are in the functions; these are the calls.

-- name: job_salt
select s.salt from penstock.job_space as s;

-- name: make_job_queues
select penstock.make_job_queues($1, $2, $3);

-- name: find_job_queues
select q.id, q.tenant_id, q.name
from unnest($1::bigint[], $2::text[]) as e (tenant_id, name)
join penstock.job_queues as q on q.tenant_id = e.tenant_id and q.name = e.name;

-- name: enqueue_jobs
select e.numbers, e.existing from penstock.enqueue_jobs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) as e;

-- name: enqueue_traced_jobs
select e.numbers, e.existing
from penstock.enqueue_traced_jobs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) as e;

-- name: job_traces
select e.position::integer, t.trace
from unnest($1::integer[], $2::bigint[]) with ordinality as e (queue_id, job_id, position)
join penstock.job_traces as t on t.queue_id = e.queue_id and t.job_id = e.job_id;

-- name: traced_jobs
select t.queue_id, t.job_id
from (
  select r.queue_id, r.job_id, r.trace, r.created_at
  from penstock.job_traces as r
  order by r.created_at desc
  limit $3
) as t
join penstock.job_queues as q on q.id = t.queue_id and q.tenant_id = $1
where exists (select from unnest($2::text[]) as b (beginning) where starts_with(t.trace, b.beginning))
order by t.created_at, t.job_id
limit $4;

-- name: enqueue_jobs_after
select e.numbers, e.existing
from penstock.enqueue_jobs_after($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) as e;

-- name: enqueue_tagged_jobs
select e.numbers, e.existing
from penstock.enqueue_tagged_jobs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) as e;

-- name: lease_jobs
select r.* from penstock.lease_jobs($1, $2, $3, $4, $5, $6, $7, $8) as r;

-- name: complete_jobs
select c.answers, c.tenants, c.queues from penstock.complete_jobs($1, $2, $3, $4, $5, $6) as c;

-- name: fail_jobs
select f.answers, f.run_ats, f.queues from penstock.fail_jobs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) as f;

-- name: beat_jobs
select penstock.beat_jobs($1, $2, $3, $4, $5, $6, $7, $8);

-- name: release_jobs
select penstock.release_jobs($1, $2, $3, $4, $5);

-- name: cancel_job
select penstock.cancel_job($1, $2, $3, $4);

-- name: get_job
select q.name as queue, f.*
from (
  (
    select j.*
    from penstock.live_jobs as j
    where j.queue_id = $2
      and j.id = $3
      and j.tenant_id = $1
  )
  union all
  (
    select d.*
    from penstock.done_jobs as d
    where d.queue_id = $2
      and d.id = $3
      and d.tenant_id = $1
  )
  limit 1
) as f
join penstock.job_queues as q on q.id = f.queue_id;

-- name: job_attempts
-- The latest, as many as fit into $3 bytes.
select n.attempt, n.worker, n.started_at, n.ended_at, n.outcome, n.error
from (
  select
    a.*,
    sum(octet_length(coalesce(a.error, '')) + 100) over (
      order by a.attempt desc, a.ended_at desc rows unbounded preceding
    ) as bytes
  from penstock.job_attempts as a
  where a.queue_id = $1
    and a.job_id = $2
) as n
where n.bytes <= $3
order by n.attempt, n.ended_at;

-- name: job_edges
select e.queue_id, e.job_id, e.after_queue_id, e.after_id, e.done
from unnest($1::integer[], $2::bigint[]) as n (queue_id, id)
join penstock.job_edges as e on e.queue_id = n.queue_id and e.job_id = n.id
order by e.after_id;

-- name: list_jobs
select l.queue, (l.job).* from penstock.list_jobs($1, $2, $3, $4, $5, $6) as l;

-- name: find_job_names
select f.queue_id, f.id from penstock.find_jobs($1, $2, $3, $4, $5, $6, $7) as f;

-- name: find_tagged_job_names
select f.queue_id, f.id from penstock.find_tagged_jobs($1, $2, $3, $4, $5, $6, $7, $8) as f;

-- name: get_jobs
select q.name as queue, n.*
from (
  select j.*
  from unnest($2::integer[], $3::bigint[]) as f (queue_id, id)
  join penstock.live_jobs as j on j.queue_id = f.queue_id and j.id = f.id
  where j.tenant_id = $1
  union all
  select d.*
  from unnest($2::integer[], $3::bigint[]) as f (queue_id, id)
  join penstock.done_jobs as d on d.queue_id = f.queue_id and d.id = f.id
  where d.tenant_id = $1
) as n
join penstock.job_queues as q on q.id = n.queue_id
order by n.id desc;

-- name: job_tags
select t.queue_id, t.job_id, t.tag
from unnest($1::integer[], $2::bigint[]) as n (queue_id, id)
join penstock.job_tags as t on t.queue_id = n.queue_id and t.job_id = n.id
order by t.tag;

-- name: write_job_blocks
select penstock.write_job_blocks($1, $2);

-- name: drop_job_blocks
select penstock.drop_job_blocks();

-- name: count_jobs
select c.* from penstock.count_jobs($1, $2) as c;

-- name: job_limits
select q.concurrency, q.rate, q.burst
from penstock.job_queues as q
where q.tenant_id = $1
  and q.name = $2;

-- name: limit_jobs
select penstock.limit_jobs($1, $2, $3, $4, $5, $6, $7);

-- name: requeue_jobs
select penstock.requeue_jobs($1, $2, $3, $4, $5, $6);

-- name: purge_jobs
select penstock.purge_jobs($1, $2, $3, $4, $5, $6);

-- name: tend_jobs
select t.done, t.tenants, t.queues from penstock.tend_jobs($1, $2, $3) as t;

-- name: expect_jobs
insert into penstock.job_waiting (tenant_id, queue, node, until)
values ($1, $2, $3, $4::timestamptz + interval '30 s')
on conflict (tenant_id, queue, node) do update
set until = excluded.until;
