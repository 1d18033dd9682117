-- Limits of requests.

-- name: find_bucket
select tokens, filled_at
from rate_buckets
where name = :name;

-- name: put_bucket
insert into rate_buckets (name, tokens, filled_at)
values (:name, :tokens, :now)
on conflict (name) do update
set tokens = excluded.tokens, filled_at = excluded.filled_at;

-- name: forget_buckets
delete from rate_buckets
where filled_at < :before;
