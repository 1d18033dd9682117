-- The archive, read piece by piece: what was committed between two snapshots.
--
-- Ids and times cannot tell what is new. They are given before the commit, and a transaction may commit long after
-- others that began later. Which transaction wrote a row can: a snapshot knows which ones it sees.

alter table penstock.archive add column txid bigint not null default pg_current_xact_id()::text::bigint;

create index archive_txid on penstock.archive (tenant_id, txid);
