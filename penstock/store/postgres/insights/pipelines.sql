-- Runs of pipelines. A run without a heartbeat for some time is lost.

-- name: list_pipeline_runs
select r.*, case when r.state = 'running' and r.seen_at < $4 then 'lost' else r.state end as shown_state
from penstock.pipeline_runs as r
where r.tenant_id = $1
  and ($2::text is null or r.pipeline = $2)
order by r.id desc
limit $3;

-- name: last_pipeline_runs
select l.*, case when l.state = 'running' and l.seen_at < $3 then 'lost' else l.state end as shown_state
from unnest($2::text[]) as n (pipeline)
cross join lateral (
  select r.*
  from penstock.pipeline_runs as r
  where r.tenant_id = $1
    and r.pipeline = n.pipeline
  order by r.id desc
  limit 1
) as l;
