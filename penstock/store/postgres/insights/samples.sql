-- Samples for charts.

-- name: latest_sample
select s.starts_at
from penstock.samples as s
where s.step = $1
order by s.starts_at desc
limit 1;

-- name: add_samples
insert into penstock.samples (step, starts_at, tenant_id, kind, name, arrived, departed, waiting, oldest_s)
select $1, $2, s.tenant_id, s.kind, s.name, s.arrived, s.departed, s.waiting, s.oldest_s
from unnest($3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::float8[])
  as s (tenant_id, kind, name, arrived, departed, waiting, oldest_s)
on conflict do nothing;

-- name: sample_series
select s.starts_at, s.arrived, s.departed, s.waiting, s.oldest_s
from penstock.samples as s
where s.tenant_id = $1
  and s.kind = $2
  and s.name = $3
  and s.step = $4
  and s.starts_at >= coalesce(
    (
      select max(p.starts_at)
      from penstock.samples as p
      where p.tenant_id = $1
        and p.kind = $2
        and p.name = $3
        and p.step = $4
        and p.starts_at < $5
    ),
    $5
  )
order by s.starts_at;

-- name: sampled_waiting
select s.name, s.waiting
from penstock.samples as s
where s.step = 1
  and s.starts_at = $3
  and s.tenant_id = $1
  and s.kind = $2;

-- name: add_outcomes
insert into penstock.outcomes as o (step, starts_at, tenant_id, kind, good, bad)
select $1, $2, n.tenant_id, n.kind, n.good, n.bad
from unnest($3::bigint[], $4::text[], $5::bigint[], $6::bigint[]) as n (tenant_id, kind, good, bad)
order by n.tenant_id, n.kind
on conflict (tenant_id, kind, step, starts_at) do update
set good = o.good + excluded.good, bad = o.bad + excluded.bad;

-- name: list_outcomes
select o.kind, o.starts_at, o.good, o.bad
from penstock.outcomes as o
where o.tenant_id = $1
  and o.step = $2
  and o.starts_at >= $3
order by o.starts_at;

-- name: sweep_outcomes
with removed as (
  delete from penstock.outcomes as s
  where s.ctid = any (
    array(
      select o.ctid from penstock.outcomes as o where o.step = $1 and o.starts_at < $2 order by o.starts_at limit $3
    )
  )
  returning 1
)
select count(*) from removed;

-- name: sweep_samples
with removed as (
  delete from penstock.samples as s
  where s.ctid = any (
    array(
      select o.ctid
      from penstock.samples as o
      where o.step = $1
        and o.starts_at < $2
      order by o.starts_at
      limit $3
    )
  )
  returning 1
)
select count(*) from removed;
