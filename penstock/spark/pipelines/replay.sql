-- name: has_queue
select true from penstock.queues as q where q.tenant_id = $1 and q.name = $2;

-- name: last_batch
select l.batch from penstock.spark_ledger as l where l.query = $1;
