-- Each name in the last day, and in the seven days before as an average day.
create or replace function penstock.compared_names(p_tenant bigint, p_now timestamptz)
returns table (
  kind text, name text, sent float8, sent_before float8, ended bigint, ended_before bigint, p95 float8, p95_before float8
)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select
    h.kind, h.name,
    sum(h.sent) filter (where h.recent)::float8,
    coalesce(sum(h.sent) filter (where not h.recent), 0)::float8 / 7,
    (sum(h.ended) filter (where h.recent))::bigint,
    (sum(h.ended) filter (where not h.recent))::bigint,
    sum(h.p95_s * h.ended) filter (where h.recent) / nullif(sum(h.ended) filter (where h.recent), 0),
    sum(h.p95_s * h.ended) filter (where not h.recent) / nullif(sum(h.ended) filter (where not h.recent), 0)
  from (
    select
      r.kind, r.name, r.sent, r.p95_s, r.starts_at >= p_now - interval '1 day' as recent,
      case when r.p95_s is not null then r.done + r.dead end as ended
    from penstock.insights as r
    where r.tenant_id = p_tenant
      and r.step = 'hour'
      and r.starts_at >= p_now - interval '8 days'
      and r.starts_at < p_now
  ) as h
  group by h.kind, h.name;
$$;

-- How the depth of each queue has changed in the last three hours: a line through its samples, by the second.
create or replace function penstock.depth_trends(p_tenant bigint, p_now timestamptz)
returns table (kind text, name text, waiting float8, slope float8)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select
    s.kind, s.name,
    (array_agg(s.waiting order by s.starts_at desc))[1]::float8,
    regr_slope(s.waiting, extract(epoch from s.starts_at))
  from penstock.samples as s
  where s.tenant_id = p_tenant
    and s.step = 1
    and s.name <> ''
    and s.kind in ('queue', 'job')
    and s.starts_at >= p_now - interval '3 hours'
    and s.starts_at < p_now
  group by s.kind, s.name
  having count(*) >= 10;
$$;

-- What is remarkable: compares the last day with the seven days before. The growth of tenants is for operators.
create or replace function penstock.findings(p_tenant bigint, p_now timestamptz, p_tenants boolean)
returns table (question text, kind text, name text, before float8, now float8, detail text)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select 'slower', n.kind, n.name, n.p95_before, n.p95, null::text
  from penstock.compared_names(p_tenant, p_now) as n
  where n.ended >= 10 and n.ended_before >= 10 and n.p95 >= 1.5 * n.p95_before
  union all
  select 'growing', n.kind, n.name, n.sent_before, n.sent, null
  from penstock.compared_names(p_tenant, p_now) as n
  where n.sent >= 100 and n.sent >= 2 * n.sent_before
  union all
  select 'tenant_growing', null, t.name, g.sent_before, g.sent, null
  from (
    select
      r.tenant_id,
      sum(r.sent) filter (where r.starts_at >= p_now - interval '1 day')::float8 as sent,
      coalesce(sum(r.sent) filter (where r.starts_at < p_now - interval '1 day'), 0)::float8 / 7 as sent_before
    from penstock.insights as r
    where p_tenants
      and r.step = 'hour'
      and r.starts_at >= p_now - interval '8 days'
      and r.starts_at < p_now
    group by r.tenant_id
  ) as g
  join penstock.tenants as t on t.id = g.tenant_id
  where g.sent >= 100 and g.sent >= 2 * g.sent_before
  union all
  select 'new_error', e.kind, e.name, 0, sum(e.count)::float8, min(e.example)
  from penstock.insight_errors as e
  where e.tenant_id = p_tenant
    and e.starts_at >= p_now - interval '1 day'
    and e.starts_at < p_now
    and e.shape <> '(others)'
    and not exists (
      select
      from penstock.insight_errors as o
      where o.tenant_id = e.tenant_id
        and o.kind = e.kind
        and o.name = e.name
        and o.shape = e.shape
        and o.starts_at < p_now - interval '1 day'
    )
  group by e.kind, e.name, e.shape
  union all
  select 'filling', d.kind, d.name, d.waiting, greatest(d.waiting + d.slope * 3600, 0), null
  from penstock.depth_trends(p_tenant, p_now) as d
  where d.slope * 3600 >= greatest(d.waiting * 0.2, 10);
$$;

-- A finding over time, for a chart. Points after p_now are a forecast.
create or replace function penstock.finding_points(p_tenant bigint, p_now timestamptz, p_question text, p_kind text, p_name text)
returns table (at timestamptz, value float8)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select r.starts_at, case p_question when 'slower' then r.p95_s else r.sent::float8 end
  from penstock.insights as r
  where p_question in ('slower', 'growing')
    and r.tenant_id = p_tenant and r.kind = p_kind and r.name = p_name and r.step = 'hour'
    and r.starts_at >= p_now - interval '8 days'
    and r.starts_at < p_now
  union all
  select r.starts_at, sum(r.sent)::float8
  from penstock.insights as r
  join penstock.tenants as t on t.id = r.tenant_id
  where p_question = 'tenant_growing'
    and t.name = p_name and r.step = 'hour'
    and r.starts_at >= p_now - interval '8 days'
    and r.starts_at < p_now
  group by r.starts_at
  union all
  select e.starts_at, sum(e.count)::float8
  from penstock.insight_errors as e
  where p_question = 'new_error'
    and e.tenant_id = p_tenant and e.kind = p_kind and e.name = p_name
    and e.starts_at >= p_now - interval '8 days'
    and e.starts_at < p_now
  group by e.starts_at
  union all
  select s.starts_at, s.waiting::float8
  from penstock.samples as s
  where p_question = 'filling'
    and s.tenant_id = p_tenant and s.kind = p_kind and s.name = p_name and s.step = 1
    and s.starts_at >= p_now - interval '3 hours'
    and s.starts_at < p_now
  union all
  select p_now + m * interval '5 minutes', greatest(d.waiting + d.slope * m * 300, 0)
  from penstock.depth_trends(p_tenant, p_now) as d, generate_series(1, 12) as m
  where p_question = 'filling'
    and d.kind = p_kind and d.name = p_name
  order by 1;
$$;
