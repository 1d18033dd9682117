-- Settings and questions of every connection that Spark's processes make.

-- name: use_indexes_only
-- Event tables have no statistics, so the planner may choose to scan one whole.
select
  set_config('enable_seqscan', 'off', false),
  set_config('enable_bitmapscan', 'off', false),
  set_config('max_parallel_workers_per_gather', '0', false);

-- name: disable_timeouts
-- Not every version of PostgreSQL has both settings.
select set_config(s.name, '0', false)
from pg_settings as s
where s.name in ('idle_in_transaction_session_timeout', 'transaction_timeout');

-- name: flush_commits
-- PostgreSQL reads the setting when the transaction commits, and applies it to this transaction only.
select pg_logical_emit_message(true, 'penstock', '')::text
from set_config('synchronous_commit', 'on', true);

-- name: ping
select 1;

-- name: begin_snapshot
set transaction isolation level repeatable read, read only;

-- name: export_snapshot
select pg_export_snapshot();
