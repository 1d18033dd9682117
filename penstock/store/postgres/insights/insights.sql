-- Insights, as the server reads them.

-- name: list_insights
select r.*
from penstock.insights as r
where r.tenant_id = $1
  and r.step = $2
  and r.starts_at >= $5
  and r.starts_at < $6
  and ($3::text is null or r.kind = $3)
  and ($4::text[] is null or r.name = any ($4))
  and (
    $8::timestamptz is null
    or r.starts_at < $8
    or (r.starts_at = $8 and (r.kind, r.name) > ($9::text, $10::text))
  )
order by r.starts_at desc, r.kind, r.name
limit $7;

-- name: list_insight_names
select r.name
from penstock.insights as r
where r.tenant_id = $1
  and r.step in ('hour', 'day')
  and r.starts_at >= $2
  and r.starts_at < $3
union
select e.name
from penstock.insight_errors as e
where e.tenant_id = $1
  and e.starts_at >= $2
  and e.starts_at < $3;

-- name: top_insight_errors
select
  r.kind, r.name, r.shape, sum(r.count)::bigint as count, min(r.example) as example,
  min(r.starts_at) as first_at, max(r.starts_at) as last_at
from penstock.insight_errors as r
where r.tenant_id = $1
  and r.starts_at >= $4
  and r.starts_at < $5
  and ($2::text is null or r.kind = $2)
  and ($3::text[] is null or r.name = any ($3))
group by r.kind, r.name, r.shape
order by sum(r.count) desc, r.kind, r.name, r.shape
limit $6;

-- name: list_findings
-- Compares the last day with the seven days before. Of all tenants, the growth of each tenant is shown too.
with hours as (
  select r.tenant_id, r.kind, r.name, r.starts_at >= $2::timestamptz - interval '1 day' as recent, r.sent, r.done + r.dead as ended,
    r.p95_s
  from penstock.insights as r
  where r.step = 'hour'
    and r.starts_at >= $2::timestamptz - interval '8 days'
    and r.starts_at < $2::timestamptz
    and (r.tenant_id = $1 or $3::boolean)
), names as (
  select
    h.kind, h.name,
    sum(h.sent) filter (where h.recent)::float8 as sent,
    sum(h.sent) filter (where not h.recent)::float8 / 7 as sent_before,
    sum(h.ended) filter (where h.recent and h.p95_s is not null) as ended,
    sum(h.ended) filter (where not h.recent and h.p95_s is not null) as ended_before,
    sum(h.p95_s * h.ended) filter (where h.recent)
      / nullif(sum(h.ended) filter (where h.recent and h.p95_s is not null), 0) as p95,
    sum(h.p95_s * h.ended) filter (where not h.recent)
      / nullif(sum(h.ended) filter (where not h.recent and h.p95_s is not null), 0) as p95_before
  from hours as h
  where h.tenant_id = $1
  group by h.kind, h.name
), depths as (
  select
    s.kind, s.name,
    (array_agg(s.waiting order by s.starts_at desc))[1]::float8 as waiting,
    regr_slope(s.waiting, extract(epoch from s.starts_at)) as slope
  from penstock.samples as s
  where s.tenant_id = $1
    and s.step = 1
    and s.name <> ''
    and s.kind in ('queue', 'job')
    and s.starts_at >= $2::timestamptz - interval '3 hours'
    and s.starts_at < $2::timestamptz
  group by s.kind, s.name
  having count(*) >= 10
), found as (
  select 'slower' as question, n.kind, n.name, n.p95_before as before, n.p95 as now, null as detail
  from names as n
  where n.ended >= 10 and n.ended_before >= 10 and n.p95 >= 1.5 * n.p95_before
  union all
  select 'growing', n.kind, n.name, coalesce(n.sent_before, 0), n.sent, null
  from names as n
  where n.sent >= 100 and n.sent >= 2 * coalesce(n.sent_before, 0)
  union all
  select 'tenant_growing', null, t.name, coalesce(sum(h.sent) filter (where not h.recent), 0)::float8 / 7,
    sum(h.sent) filter (where h.recent)::float8, null
  from hours as h
  join penstock.tenants as t on t.id = h.tenant_id
  where $3
  group by t.name
  having sum(h.sent) filter (where h.recent) >= 100
    and sum(h.sent) filter (where h.recent)
      >= 2 * coalesce(sum(h.sent) filter (where not h.recent), 0)::float8 / 7
  union all
  select 'new_error', e.kind, e.name, 0, sum(e.count)::float8, min(e.example)
  from penstock.insight_errors as e
  where e.tenant_id = $1
    and e.starts_at >= $2::timestamptz - interval '1 day'
    and e.starts_at < $2::timestamptz
    and e.shape <> '(others)'
    and not exists (
      select
      from penstock.insight_errors as o
      where o.tenant_id = e.tenant_id
        and o.kind = e.kind
        and o.name = e.name
        and o.shape = e.shape
        and o.starts_at < $2::timestamptz - interval '1 day'
    )
  group by e.kind, e.name, e.shape
  union all
  select 'filling', d.kind, d.name, d.waiting, greatest(d.waiting + d.slope * 3600, 0), null
  from depths as d
  where d.slope * 3600 >= greatest(d.waiting * 0.2, 10)
)
select r.question, r.kind, r.name, r.before, r.now, r.detail
from (
  select f.*, row_number() over (partition by f.question order by f.now / greatest(f.before, 0.001) desc, f.name) as place
  from found as f
) as r
where r.place <= $4
order by r.question, r.place;
