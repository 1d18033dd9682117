-- name: tenant_id
select t.id from penstock.tenants as t where t.name = $1;
