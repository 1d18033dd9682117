-- name: now
select (extract(epoch from now()) * 1000000)::bigint;

-- name: count_streams
select count(*) from pgque.queue as q;

-- name: tenants
select t.id, t.name from penstock.tenants as t;

-- name: record_insights
select penstock.record_insights($1::text::jsonb, to_timestamp($2 / 1000000.0));

-- name: record_errors
select penstock.record_insight_errors($1::text::jsonb, to_timestamp($2 / 1000000.0));

-- name: settle
select penstock.settle_insights(
  to_timestamp($1 / 1000000.0), to_timestamp($2 / 1000000.0), make_interval(days => $3::integer),
  make_interval(days => $4::integer)
);

-- name: findings
select t.name as tenant, f.question, f.kind, f.name, f.before, f.now, f.detail
from penstock.tenants as t
cross join lateral penstock.findings(t.id, to_timestamp($1 / 1000000.0), t.id = 1) as f
order by t.name, f.question, f.name, f.detail;
