-- name: current_snapshot
select pg_current_snapshot()::text;
