-- Staging rows, publishing them, and loads.

-- name: publish
select penstock.publish_staged(
  $1, $2, string_to_array($3, ',')::bigint[], $4, string_to_array($5, ',')::bigint[], $6, $7, $8, $9, now(), $10::text
);

-- name: collect
select penstock.collect_staged(now() - make_interval(secs => $1));

-- name: discard
delete from penstock.spark_staging as s where s.attempt = any (string_to_array($1, ',')::bigint[]);

-- name: discard_loads
select pgque.discard_loads(string_to_array($1, ',')::bigint[]);

-- name: current_table
-- Checks the rules of every insert. It also assigns the transaction id before it looks the table up, and locks the
-- table: rotation relies on both.
select pgque.current_event_table($1);

-- name: open_load
select l.load_id, l.load_table from pgque.open_load($1) as l;

-- name: close_load
select pgque.close_load($1);

-- name: publish_load
select pgque.publish_loads($1, array[$2::bigint])::text;
