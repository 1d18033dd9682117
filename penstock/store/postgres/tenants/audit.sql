-- The audit log.

-- name: note_act
select penstock.note_act($1, $2, $3, $4, $5::json, $6);

-- name: list_acts
select a.id, a.at, t.name as tenant, a.actor, a.act, a.subject, a.detail
from penstock.audit as a
left join penstock.tenants as t on t.id = a.tenant_id
where ($1::bigint is null or a.tenant_id = $1)
  and a.id < coalesce($2, 9223372036854775807)
order by a.id desc
limit $3;
