-- The audit log.

-- name: insert_act
insert into audit (at, tenant_id, actor, act, subject, detail)
values (:now, :tenant, :actor, :act, :subject, :detail);

-- name: list_acts
select a.id, a.at, t.name as tenant, a.actor, a.act, a.subject, a.detail
from audit as a
left join tenants as t on t.id = a.tenant_id
where (:tenant is null or a.tenant_id = :tenant)
  and (:before is null or a.id < :before)
order by a.id desc
limit :limit;
