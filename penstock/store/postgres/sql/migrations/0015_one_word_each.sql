-- One word for one thing: insights were also called rollups, and two tables were called outbox.

alter table penstock.rollups rename to insights;
alter index penstock.rollups_pkey rename to insights_pkey;
alter index penstock.rollups_age rename to insights_age;
alter table penstock.rollup_errors rename to insight_errors;
alter index penstock.rollup_errors_pkey rename to insight_errors_pkey;
alter index penstock.rollup_errors_age rename to insight_errors_age;

alter table penstock.publish_outbox rename to pending_publishes;
alter index penstock.publish_outbox_pkey rename to pending_publishes_pkey;
alter sequence penstock.publish_outbox_id_seq rename to pending_publishes_id_seq;

-- The functions come back under their new names when all functions are loaded, right after this.
do $$
declare
  v_function regprocedure;
begin
  for v_function in
    select p.oid
    from pg_catalog.pg_proc as p
    where p.pronamespace = 'penstock'::regnamespace
      and p.proname in ('record_rollups', 'record_rollup_errors', 'settle_rollups')
  loop
    execute format('drop function %s', v_function);
  end loop;
end
$$;
