-- The numbers that insights must come to, each counted by itself: kind, tenant, name, moment, what, how many.

select 'queue', q.tenant_id, coalesce((select s.name from penstock.queues as s where s.id = m.dead_letter_source), q.name),
  m.sent_at, 'sent', 1
from penstock.messages as m join penstock.queues as q on q.bin_id = m.bin_id
union all
select 'queue', tenant_id, queue, sent_at, 'sent', 1 from penstock.archive
union all
select 'queue', tenant_id, queue, archived_at, 'done', 1 from penstock.archive
union all
select 'queue', tenant_id, queue, archived_at, w, receives - 1 from penstock.archive, unnest(array['retried', 'failed']) as w
union all
select 'queue', s.tenant_id, s.name, m.visible_at, x.what, x.count
from penstock.messages as m
join penstock.queues as s on s.id = m.dead_letter_source
cross join lateral (values ('dead', 1), ('failed', 3), ('retried', 2)) as x (what, count)
union all
select 'job', j.tenant_id, q.name, j.created_at, 'sent', 1
from (select queue_id, tenant_id, created_at from penstock.jobs
      union all select queue_id, tenant_id, created_at from penstock.finished_jobs) as j
join penstock.job_queues as q on q.id = j.queue_id
union all
select 'job', j.tenant_id, q.name, j.finished_at, 'done', 1
from penstock.finished_jobs as j join penstock.job_queues as q on q.id = j.queue_id where j.state = 4
union all
select 'job', j.tenant_id, q.name, j.finished_at, 'dead', 1
from penstock.jobs as j join penstock.job_queues as q on q.id = j.queue_id where j.state = 3
union all
select 'job', q.tenant_id, q.name, a.ended_at, 'failed', 1
from penstock.job_attempts as a join penstock.job_queues as q on q.id = a.queue_id where a.outcome in ('failed', 'lost')
union all
select 'job', q.tenant_id, q.name, a.ended_at, 'retried', 1
from penstock.job_attempts as a join penstock.job_queues as q on q.id = a.queue_id where a.attempt > 1
union all
select 'delivery', tenant_id, coalesce(topic, routing_key), created_at, 'sent', 1 from penstock.deliveries
union all
select 'delivery', tenant_id, coalesce(topic, routing_key), finished_at, 'done', 1 from penstock.deliveries where state = 2
union all
select 'delivery', tenant_id, coalesce(topic, routing_key), finished_at, 'dead', 1 from penstock.deliveries where state = 3
union all
select 'delivery', tenant_id, coalesce(topic, routing_key), finished_at, 'retried', attempts - 1
from penstock.deliveries where state > 1
union all
select 'delivery', tenant_id, coalesce(topic, routing_key), finished_at, 'failed', attempts - (3 - state)
from penstock.deliveries where state > 1
union all
select 'stream', 1, 'orders', ev_time, case when ev_retry > 0 then 'retried' else 'sent' end, 1 from pgque.event_1
union all
select 'stream', 1, 'orders', ev_time, 'failed', 1 from pgque.event_1 where ev_retry > 0
union all
select 'stream', 7, 'orders', ev_time, case when ev_retry > 0 then 'retried' else 'sent' end, 1 from pgque.event_2
union all
select 'stream', 7, 'orders', ev_time, 'failed', 1 from pgque.event_2 where ev_retry > 0
union all
select 'stream', case dl_queue_id when 1 then 1 else 7 end, 'orders', dl_time, w, 1 from pgque.dead_letter, unnest(array['dead', 'failed']) as w
union all
select kind, tenant_id, name, ended_at, 'latency', extract(epoch from ended_at - began_at)
from (
  select 'queue' as kind, tenant_id, queue as name, sent_at as began_at, archived_at as ended_at from penstock.archive
  union all
  select 'queue', s.tenant_id, s.name, m.sent_at, m.visible_at
  from penstock.messages as m join penstock.queues as s on s.id = m.dead_letter_source
  union all
  select 'job', j.tenant_id, q.name, j.created_at, j.finished_at
  from penstock.finished_jobs as j join penstock.job_queues as q on q.id = j.queue_id where j.state = 4
  union all
  select 'job', j.tenant_id, q.name, j.created_at, j.finished_at
  from penstock.jobs as j join penstock.job_queues as q on q.id = j.queue_id where j.state = 3
  union all
  select 'delivery', tenant_id, coalesce(topic, routing_key), created_at, finished_at
  from penstock.deliveries where state > 1
  union all
  select 'stream', case dl_queue_id when 1 then 1 else 7 end, 'orders', ev_time, dl_time from pgque.dead_letter
) as ended
