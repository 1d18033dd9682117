-- name: start
select penstock.start_pipeline_run($1, $2, $3::text::jsonb, now());

-- name: report
select penstock.report_pipeline_run(
  $1, $2, $3, $4, $5::bigint, $6::double precision, $7::text, $8::text, $9::text::jsonb, now()
);

-- name: lag
select l.lag_events, l.lag_s from penstock.stream_lag($1::text::jsonb, now()) as l;
