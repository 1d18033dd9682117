-- What other queues keep in PostgreSQL, as the import reads it. Names in braces are identifiers or expressions that the
-- caller has quoted. Every source gives the same columns; `position` rises as rows are added, so that a later import can
-- go on where this one ended; `priority` is 0 for ordinary work and higher for what goes first; `state` is waiting,
-- finished, or the reason why the row cannot be taken.

-- name: identity
-- Clusters that were made in the same way have databases of the same name and number.
select c.system_identifier || '/' || d.oid
from pg_catalog.pg_control_system() as c, pg_catalog.pg_database as d
where d.datname = current_database();

-- name: columns
select c.column_name::text
from information_schema.columns as c
where c.table_schema = $1
  and c.table_name = $2;

-- name: pgmq_queues
select m.queue_name from {schema}.meta as m order by m.queue_name;

-- name: pgmq
select m.msg_id as position, m.msg_id::text as id, m.message::text as value, null::text as task,
  {headers} ->> 'x-pgmq-group' as key, nullif({headers}, 'null')::text as headers,
  case when m.vt > now() then m.vt end as deliver_at, null::integer as priority, 'waiting' as state
from {schema}.{table} as m;

-- name: pgmq_archive
select m.msg_id as position, m.msg_id::text as id, m.message::text as value, null::text as task,
  {headers} ->> 'x-pgmq-group' as key, nullif({headers}, 'null')::text as headers,
  null::timestamptz as deliver_at, null::integer as priority, 'finished' as state
from {schema}.{table} as m;

-- name: pgq_queues
select q.queue_name, q.queue_id from {schema}.queue as q order by q.queue_name;

-- name: pgq_position
select t.tick_snapshot::text
from {schema}.subscription as s
join {schema}.consumer as c on c.co_id = s.sub_consumer
join {schema}.tick as t on t.tick_queue = s.sub_queue and t.tick_id = s.sub_last_tick
where s.sub_queue = $1
  and c.co_name = $2;

-- name: pgq
-- Retries belong to one consumer, and their first copies are here too.
select e.ev_id as position, e.ev_id::text as id, e.ev_data as value, e.ev_type as task, e.ev_extra4 as key,
  e.ev_extra1 as headers, null::timestamptz as deliver_at, null::integer as priority,
  case when num_nonnulls(e.ev_extra2, e.ev_extra3) > 0 then 'with extra2 or extra3' else 'waiting' end as state
from {schema}.{table} as e
where e.ev_owner is null
  and {unread};

-- name: river_queues
select distinct j.queue from {schema}.river_job as j order by j.queue;

-- name: river
select j.id as position, j.id::text as id, j.args::text as value, j.kind as task, null::text as key,
  nullif(j.metadata, '{{}}')::text as headers, case when j.scheduled_at > now() then j.scheduled_at end as deliver_at,
  1 - j.priority::integer as priority,
  case
    when j.state::text in ('available', 'retryable', 'running', 'scheduled') then 'waiting'
    when j.state::text in ('cancelled', 'completed', 'discarded') then 'finished'
    else 'in state ' || j.state::text
  end as state
from {schema}.river_job as j
where j.queue = {queue};

-- name: boss_queues
select distinct j.name from {schema}.job as j order by j.name;

-- name: boss
-- Version 10 renamed the columns. Jobs have no number, so their place is the moment they were made.
select floor(extract(epoch from j.{created}) * 1000000)::bigint as position, j.id::text as id, j.data::text as value,
  null::text as task, null::text as key, null::text as headers,
  case when j.{start} > now() then j.{start} end as deliver_at, j.priority,
  case
    when j.state::text in ('created', 'retry', 'active') then 'waiting'
    when j.state::text in ('completed', 'expired', 'cancelled', 'failed') then 'finished'
    else 'in state ' || j.state::text
  end as state
from {schema}.job as j
where j.name = {queue};

-- name: graphile_queues
select distinct t.identifier
from {schema}._private_jobs as j
join {schema}._private_tasks as t on t.id = j.task_id
order by t.identifier;

-- name: graphile
select j.id as position, j.id::text as id, j.payload::text as value, null::text as task, null::text as key,
  null::text as headers, case when j.run_at > now() then j.run_at end as deliver_at, -j.priority::integer as priority,
  case when j.attempts >= j.max_attempts then 'finished' else 'waiting' end as state
from {schema}._private_jobs as j
join {schema}._private_tasks as t on t.id = j.task_id
where t.identifier = {queue};

-- name: old_graphile_queues
select distinct j.task_identifier from {schema}.jobs as j order by j.task_identifier;

-- name: old_graphile
-- Before version 0.14.
select j.id as position, j.id::text as id, j.payload::text as value, null::text as task, null::text as key,
  null::text as headers, case when j.run_at > now() then j.run_at end as deliver_at,
  least(-j.priority::bigint, 2147483647)::integer as priority,
  case when j.attempts >= j.max_attempts then 'finished' else 'waiting' end as state
from {schema}.jobs as j
where j.task_identifier = {queue};

-- name: chunk
-- The next rows by position, cut into pieces that tasks read side by side: each piece ends with a position.
select count(*), max(c.position)
from (
  select b.position, ntile({pieces}) over (order by b.position) as piece
  from (
    select s.position from ({source}) as s where s.position > {after} {wanted} order by s.position limit {rows}
  ) as b
) as c
group by c.piece
order by c.piece;

-- name: ledger
select max(l.batch) from penstock.spark_ledger as l where l.query = $1;

-- name: make_queue
select penstock.create_queue_row(t.id, $2, '{}'::jsonb, now()) from penstock.tenants as t where t.name = $1;

-- name: queue_bytes
select q.max_message_bytes
from penstock.queues as q
join penstock.tenants as t on t.id = q.tenant_id
where t.name = $1
  and q.name = $2;

-- name: make_stream
select pgque.create_queue($1);
