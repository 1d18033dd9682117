-- name: claim
select c.name, c.claimant
from penstock.claim_for_run($1, array(select n from jsonb_array_elements_text($2::text::jsonb) as n)) as c;

-- name: release
select pg_advisory_unlock(penstock.claim_key($1));

-- name: release_all
select pg_advisory_unlock_all()::text;
