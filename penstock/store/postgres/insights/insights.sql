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
select r.question, r.kind, r.name, r.before, r.now, r.detail
from (
  select f.*, row_number() over (partition by f.question order by f.now / greatest(f.before, 0.001) desc, f.name) as place
  from penstock.findings($1, $2, $3) as f
) as r
where r.place <= $4
order by r.question, r.place;

-- name: list_finding_points
select f.place, p.at, p.value
from unnest($3::text[], $4::text[], $5::text[]) with ordinality as f (question, kind, name, place),
  penstock.finding_points($1, $2, f.question, f.kind, f.name) as p
where p.value is not null
order by f.place, p.at;
