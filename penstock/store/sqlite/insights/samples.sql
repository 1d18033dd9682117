-- Samples for charts.

-- name: latest_sample
select starts_at
from samples
where step = :step
order by starts_at desc
limit 1;

-- name: add_samples
insert into samples (step, starts_at, tenant_id, kind, name, arrived, departed, waiting, oldest_s)
select
  :step,
  :starts_at,
  value ->> 0,
  value ->> 1,
  value ->> 2,
  value ->> 3,
  value ->> 4,
  value ->> 5,
  value ->> 6
from json_each(:rows)
where true
on conflict do nothing;

-- name: sample_series
select starts_at, arrived, departed, waiting, oldest_s
from samples
where tenant_id = :tenant
  and kind = :kind
  and name = :name
  and step = :step
  and starts_at >= coalesce(
    (
      select max(starts_at)
      from samples
      where tenant_id = :tenant
        and kind = :kind
        and name = :name
        and step = :step
        and starts_at < :since
    ),
    :since
  )
order by starts_at;

-- name: sampled_waiting
select name, waiting
from samples
where step = 1
  and starts_at = :at
  and tenant_id = :tenant
  and kind = :kind;

-- name: add_outcome
insert into outcomes (tenant_id, kind, step, starts_at, good, bad)
values (:tenant, :kind, :step, :starts_at, :good, :bad)
on conflict (tenant_id, kind, step, starts_at) do update
set good = good + excluded.good, bad = bad + excluded.bad;

-- name: list_outcomes
select kind, starts_at, good, bad
from outcomes
where tenant_id = :tenant
  and step = :step
  and starts_at >= :since
order by starts_at;

-- name: sweep_outcomes
delete from outcomes
where (tenant_id, kind, step, starts_at) in (
  select tenant_id, kind, step, starts_at
  from outcomes
  where step = :step
    and starts_at < :before
  order by starts_at
  limit :limit
);

-- name: sweep_samples
delete from samples
where (tenant_id, kind, name, step, starts_at) in (
  select tenant_id, kind, name, step, starts_at
  from samples
  where step = :step
    and starts_at < :before
  order by starts_at
  limit :limit
);
