-- Limits of requests.

-- name: take_requests
select t.taken, t.wait_s from penstock.take_requests($1, $2, $3, $4, $5) as t;
