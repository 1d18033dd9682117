-- The metrics ask for the last run of each pipeline of all tenants.
create index pipeline_runs_latest on penstock.pipeline_runs (tenant_id, pipeline, id);
