-- Tenants and their API tokens.

-- name: insert_tenant
insert into tenants (name, created_at)
values (:name, :now)
on conflict (name) do nothing;

-- name: get_tenant
select id, name, created_at
from tenants
where name = :name;

-- name: list_tenants
select id, name, created_at
from tenants
order by id;

-- name: insert_token
insert into tokens (tenant_id, name, prefix, sha256, scopes, queues, created_at, expires_at, aws_secret)
values (:tenant, :name, :prefix, :sha256, :scopes, :queues, :now, :expires_at, :aws_secret)
returning id;

-- name: get_token
select t.*, n.name as tenant_name
from tokens as t
join tenants as n on n.id = t.tenant_id
where t.id = :id;

-- name: find_tokens
select t.*, n.name as tenant_name
from tokens as t
join tenants as n on n.id = t.tenant_id
where t.prefix = :prefix
order by t.id;

-- name: list_tokens
select t.*, n.name as tenant_name
from tokens as t
join tenants as n on n.id = t.tenant_id
where (:tenant is null or t.tenant_id = :tenant)
order by t.id;

-- name: end_token
update tokens
set revoked_at = min(coalesce(revoked_at, :at), :at)
where id = :id;

-- name: saw_token
update tokens
set last_seen_at = max(coalesce(last_seen_at, :now), :now)
where id = :id;
