-- A fresh database, as pg_dump shows it; the bodies of the functions are left out. Not applied anywhere.
-- Written by PENSTOCK_WRITE_SCHEMA=1 pytest tests/store/postgres_only/test_migrations.py

CREATE SCHEMA penstock;

CREATE TYPE penstock.new_publish AS (
	tenant_id bigint,
	message_id text,
	topic_id bigint,
	topic text,
	routing_key text,
	version bigint,
	group_id text,
	dedup_id text,
	dedup_scope text,
	sequence_mark text,
	pending_id bigint
);

CREATE TYPE penstock.published_delivery AS (
	publish integer,
	subscription_id bigint,
	subscription_key text,
	endpoint text,
	lane bigint,
	body integer,
	headers text,
	secret text,
	delays double precision[],
	dead_letter_queue text,
	confirms boolean
);

CREATE TYPE penstock.published_event AS (
	publish integer,
	stream text,
	kind text,
	body integer
);

CREATE TYPE penstock.published_item AS (
	publish integer,
	channel text,
	address text,
	subject text,
	body integer,
	attributes text
);

CREATE TYPE penstock.published_message AS (
	publish integer,
	tenant_id bigint,
	queue text,
	body integer,
	is_json boolean,
	delay_s integer,
	group_id text,
	dedup_id text,
	attributes text,
	headers text,
	trace text,
	size integer,
	dead_letter_queue text
);

CREATE TYPE penstock.send_entry AS (
	"position" integer,
	queue_id bigint,
	bin_id bigint,
	fifo boolean,
	lifo boolean,
	implicit boolean,
	max_length bigint,
	group_id text,
	dedup_id text,
	dedup_group text,
	dedup_window_s integer,
	priority integer,
	delay_s integer,
	retention_s integer
);

CREATE FUNCTION penstock.add_counts(p_bin bigint, p_arrived bigint, p_departed bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.admit_publishes(p_publishes penstock.new_publish[], OUT statuses text[], OUT skip boolean[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.admit_sends(p_entries penstock.send_entry[], p_now timestamp with time zone, OUT ids bigint[], OUT codes text[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.allow_jobs(p_queue integer, p_wanted integer, p_now timestamp with time zone, OUT allowed integer, OUT next_at timestamp with time zone) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.alter_queue(queue text, settings jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.alter_queue(queue text, settings jsonb) IS 'Changes the settings that are given.';

CREATE FUNCTION penstock.announce(p_queue_ids bigint[], p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.announce_jobs(p_queues integer[], p_now timestamp with time zone, p_to_all boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.announce_limited(p_queues integer[], p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.answer_without_lease(p_tenant bigint, p_queue integer, p_number bigint) RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.any_head(p_bin bigint) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.finish_batch(p_queue text, p_ids bigint[], p_leases bigint[], p_archive boolean) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off';

CREATE FUNCTION penstock.archive(queue text, id bigint, lease bigint DEFAULT NULL::bigint) RETURNS boolean
    LANGUAGE sql
    BEGIN ATOMIC
 SELECT (cardinality(penstock.finish_batch(queue, ARRAY[id], ARRAY[lease], true)) = 1);
END;

COMMENT ON FUNCTION penstock.archive(queue text, id bigint, lease bigint) IS 'As delete, but keeps a copy in the table penstock.archive.';

CREATE FUNCTION penstock.archive_batch(queue text, ids bigint[], leases bigint[] DEFAULT NULL::bigint[]) RETURNS bigint[]
    LANGUAGE sql
    BEGIN ATOMIC
 SELECT penstock.finish_batch(queue, ids, leases, true) AS finish_batch;
END;

COMMENT ON FUNCTION penstock.archive_batch(queue text, ids bigint[], leases bigint[]) IS 'As delete_batch, but keeps copies in the table penstock.archive.';

CREATE FUNCTION penstock.archive_these(p_tenant bigint, p_queue text, p_bin bigint, p_ids bigint[], p_leases bigint[], p_now timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.beat_jobs(p_tenants bigint[], p_queues integer[], p_numbers bigint[], p_tokens uuid[], p_seconds integer[], p_progress integer[], p_notes text[], p_now timestamp with time zone) RETURNS text[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.bin_total(p_bin bigint) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.cancel_job(p_tenant bigint, p_queue integer, p_number bigint, p_now timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.cancel_move_task(p_tenant bigint, p_task bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.cancel_waiting(p_queues integer[], p_numbers bigint[], p_now timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.change_schedule_status(p_name text, p_status text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.change_visibility(queue text, id bigint, visibility_timeout_s integer, lease bigint DEFAULT NULL::bigint) RETURNS timestamp with time zone
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.change_visibility(queue text, id bigint, visibility_timeout_s integer, lease bigint) IS 'Hides a message for so many seconds from now; returns when it becomes visible, or null if it is gone or the lease is not the latest.';

CREATE FUNCTION penstock.change_visibility_many(p_tenants bigint[], p_queues text[], p_ids bigint[], p_leases bigint[], p_seconds integer[], p_now timestamp with time zone, OUT answers text[], OUT visible_at timestamp with time zone[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.check_attributes(p_attributes jsonb) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.check_backoff(p_backoff jsonb) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE SEQUENCE penstock.bin_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE penstock.queues (
    id bigint NOT NULL,
    tenant_id bigint NOT NULL,
    name text NOT NULL,
    bin_id bigint DEFAULT nextval('penstock.bin_ids'::regclass) NOT NULL,
    fifo boolean GENERATED ALWAYS AS ((name ~~ '%.fifo'::text)) STORED,
    visibility_timeout_s integer,
    delay_s integer DEFAULT 0 NOT NULL,
    retention_s integer DEFAULT 345600 NOT NULL,
    receive_wait_s integer DEFAULT 0 NOT NULL,
    max_message_bytes integer DEFAULT 1048576 NOT NULL,
    max_length bigint,
    max_receives integer,
    dead_letter_queue_id bigint,
    lifo boolean DEFAULT false NOT NULL,
    archive boolean DEFAULT false NOT NULL,
    content_dedup boolean DEFAULT false NOT NULL,
    dedup_window_s integer DEFAULT 300 NOT NULL,
    dedup_scope text DEFAULT 'queue'::text NOT NULL,
    throughput_limit text DEFAULT 'queue'::text NOT NULL,
    tags jsonb DEFAULT '{}'::jsonb NOT NULL,
    labels jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    implicit boolean DEFAULT false NOT NULL
);

CREATE FUNCTION penstock.check_fit(p_queue penstock.queues) RETURNS void
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.check_isolation() RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.check_jobs(p_payloads text[], p_priorities integer[], p_keys text[], p_run_ats timestamp with time zone[]) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.check_json(p_field text, p_texts text[]) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.check_messages(p_bodies text[], p_delays integer[], p_priorities integer[], p_groups text[], p_dedups text[]) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.check_moments(p_field text, p_moments timestamp with time zone[]) RETURNS void
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.check_range(p_field text, p_value bigint, p_low bigint, p_high bigint) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE TABLE penstock.schedules (
    id bigint NOT NULL,
    tenant_id bigint NOT NULL,
    name text NOT NULL,
    status text NOT NULL,
    target_kind text NOT NULL,
    target text NOT NULL,
    shape text NOT NULL,
    given text NOT NULL,
    kind text NOT NULL,
    expression text NOT NULL,
    timezone text NOT NULL,
    anchor timestamp with time zone NOT NULL,
    body text NOT NULL,
    is_json boolean NOT NULL,
    headers text,
    delay_s integer,
    priority integer,
    group_id text,
    catchup boolean NOT NULL,
    catchup_limit integer NOT NULL,
    jitter_s integer NOT NULL,
    failure_threshold integer NOT NULL,
    next_fire_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    last_fire_at timestamp with time zone,
    fires bigint DEFAULT 0 NOT NULL,
    consecutive_failures integer DEFAULT 0 NOT NULL,
    last_error text,
    revision bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    unplanned boolean DEFAULT false NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000');

CREATE FUNCTION penstock.check_schedule_target(p_schedule penstock.schedules) RETURNS void
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.check_settings(p_queue penstock.queues) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.check_staged_json(p_places tid[], p_field text) RETURNS void
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.check_tags(p_tags text[]) RETURNS void
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.check_that(p_field text, p_holds boolean, p_rule text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE TABLE penstock.messages (
    bin_id bigint NOT NULL,
    id bigint NOT NULL,
    place bigint NOT NULL,
    visible_at timestamp with time zone NOT NULL,
    sent_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    first_received_at timestamp with time zone,
    dead_letter_source bigint,
    lease bigint DEFAULT 0 NOT NULL,
    receives integer DEFAULT 0 NOT NULL,
    priority smallint NOT NULL,
    state smallint NOT NULL,
    is_json boolean NOT NULL,
    group_id text,
    dedup_id text,
    trace text,
    attributes json,
    headers json,
    body text NOT NULL,
    receives_before integer DEFAULT 0 NOT NULL,
    sequence bigint
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_insert_scale_factor='0.2', autovacuum_vacuum_cost_delay='0');

CREATE FUNCTION penstock.claim(p_queue penstock.queues, p_limit integer, p_shuffle boolean, p_start bigint, p_since timestamp with time zone, p_floor bigint, p_floor_since timestamp with time zone, p_max integer, p_target penstock.queues, p_by_request boolean, p_until timestamp with time zone, p_now timestamp with time zone, p_bytes bigint) RETURNS SETOF penstock.messages
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE TABLE penstock.deliveries (
    id bigint NOT NULL,
    tenant_id bigint NOT NULL,
    lane bigint NOT NULL,
    due_at timestamp with time zone NOT NULL,
    lease bigint DEFAULT 0 NOT NULL,
    state smallint DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    last_status integer,
    subscription_id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    confirms boolean NOT NULL,
    subscription_key text NOT NULL,
    message_id text NOT NULL,
    topic text,
    routing_key text,
    endpoint text NOT NULL,
    secret text,
    delays double precision[],
    dead_letter_queue text,
    last_error text,
    headers text NOT NULL,
    body text NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000');

CREATE FUNCTION penstock.claim_deliveries(p_limit integer, p_each integer, p_busy_lanes bigint[], p_busy_counts integer[], p_after bigint, p_lease interval, p_now timestamp with time zone) RETURNS SETOF penstock.deliveries
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.claim_fifo(p_bin bigint, p_ids bigint[], p_until timestamp with time zone, p_now timestamp with time zone) RETURNS SETOF penstock.messages
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.claim_for_run(p_claimant text, p_names text[]) RETURNS TABLE(name text, claimant text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.claim_job_keys(p_queues integer[], p_keys text[], p_windows integer[], p_now timestamp with time zone, OUT numbers bigint[], OUT existing boolean[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE TABLE penstock.jobs (
    queue_id integer NOT NULL,
    id bigint NOT NULL,
    tenant_id bigint NOT NULL,
    place bigint NOT NULL,
    due_at timestamp with time zone NOT NULL,
    run_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    leased_at timestamp with time zone,
    finished_at timestamp with time zone,
    lease_token uuid,
    priority integer NOT NULL,
    max_retries integer NOT NULL,
    retry_count integer DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    lease_lost_count integer DEFAULT 0 NOT NULL,
    state smallint NOT NULL,
    progress smallint,
    worker text,
    note text,
    error text,
    dead_reason text,
    backoff json,
    payload json NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_insert_scale_factor='0.2', autovacuum_vacuum_cost_delay='0');

CREATE FUNCTION penstock.claim_jobs(p_queue integer, p_workers text[], p_start bigint, p_until timestamp with time zone, p_now timestamp with time zone, p_bytes bigint) RETURNS SETOF penstock.jobs
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.claim_key(p_name text) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.claim_next(p_bin bigint, p_limit integer, p_start bigint, p_until timestamp with time zone, p_now timestamp with time zone) RETURNS SETOF penstock.messages
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.claim_next_within(p_bin bigint, p_limit integer, p_start bigint, p_until timestamp with time zone, p_now timestamp with time zone, p_bytes bigint) RETURNS SETOF penstock.messages
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.claim_these(p_bin bigint, p_ids bigint[], p_until timestamp with time zone, p_now timestamp with time zone) RETURNS SETOF penstock.messages
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.collect_staged(p_before timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.compared_names(p_tenant bigint, p_now timestamp with time zone) RETURNS TABLE(kind text, name text, sent double precision, sent_before double precision, ended bigint, ended_before bigint, p95 double precision, p95_before double precision)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.complete_jobs(p_tenants bigint[], p_queues integer[], p_numbers bigint[], p_tokens uuid[], p_results text[], p_now timestamp with time zone, OUT answers text[], OUT tenants bigint[], OUT queues text[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.complete_leased(p_tenants bigint[], p_queues integer[], p_numbers bigint[], p_tokens uuid[], p_results text[], p_now timestamp with time zone) RETURNS text[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.complete_missed(p_tenant bigint, p_queue integer, p_number bigint, p_token uuid, p_result text, p_now timestamp with time zone) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE TABLE penstock.subscriptions (
    id bigint NOT NULL,
    key uuid DEFAULT gen_random_uuid() NOT NULL,
    tenant_id bigint NOT NULL,
    topic_id bigint,
    pattern text,
    first_segment text,
    protocol text NOT NULL,
    endpoint text NOT NULL,
    target text,
    attributes jsonb DEFAULT '{}'::jsonb NOT NULL,
    confirmed boolean NOT NULL,
    token_sha256 text,
    owner text NOT NULL,
    secret text,
    version bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    target_tenant_id bigint,
    CONSTRAINT subscriptions_check CHECK (((topic_id IS NULL) <> (pattern IS NULL)))
);

CREATE FUNCTION penstock.confirm_subscription_row(p_tenant bigint, p_token text) RETURNS SETOF penstock.subscriptions
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.count_jobs(p_tenant bigint, p_queue text) RETURNS TABLE(tenant_id bigint, queue text, pending bigint, processing bigint, completed bigint, cancelled bigint, dead bigint, oldest_pending_created_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.count_queues(p_tenant bigint, p_names text[], p_now timestamp with time zone) RETURNS TABLE(tenant_id bigint, queue text, visible bigint, in_flight bigint, delayed bigint, sent bigint, oldest_sent_at timestamp with time zone, newest_sent_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.create_implicit_queue_row(p_tenant bigint, p_name text, p_settings jsonb, p_now timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.create_queue(queue text, settings jsonb DEFAULT '{}'::jsonb) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.create_queue(queue text, settings jsonb) IS 'Creates a queue with these settings; returns whether it is new.';

CREATE FUNCTION penstock.create_queue_row(p_tenant bigint, p_name text, p_settings jsonb, p_now timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.create_schedule(schedule text, settings jsonb) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.create_schedule(schedule text, settings jsonb) IS 'Creates a schedule with these settings; returns whether it is new.';

CREATE FUNCTION penstock.create_topic(topic text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.create_topic(topic text) IS 'Creates a topic; returns whether it is new.';

CREATE FUNCTION penstock.create_topic_row(p_tenant bigint, p_name text, p_attributes jsonb, p_tags jsonb, p_now timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.cron_number(p_text text, p_place integer) RETURNS integer
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.cron_values(p_text text, p_place integer) RETURNS integer[]
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.current_tenant() RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.default_visibility_timeout_s() RETURNS integer
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.delete_one(p_queue text, p_id bigint, p_lease bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off';

CREATE FUNCTION penstock.delete(queue text, id bigint, lease bigint DEFAULT NULL::bigint) RETURNS boolean
    LANGUAGE sql
    BEGIN ATOMIC
 SELECT penstock.delete_one(queue, id, lease) AS delete_one;
END;

COMMENT ON FUNCTION penstock.delete(queue text, id bigint, lease bigint) IS 'Deletes a message; with a lease only if that delivery is the latest. Returns whether it existed.';

CREATE FUNCTION penstock.delete_batch(queue text, ids bigint[], leases bigint[] DEFAULT NULL::bigint[]) RETURNS bigint[]
    LANGUAGE sql
    BEGIN ATOMIC
 SELECT penstock.finish_batch(queue, ids, leases, false) AS finish_batch;
END;

COMMENT ON FUNCTION penstock.delete_batch(queue text, ids bigint[], leases bigint[]) IS 'Deletes messages, optionally by their leases; returns the ids of those that existed.';

CREATE FUNCTION penstock.delivery_facts(p_since timestamp with time zone, p_until timestamp with time zone) RETURNS TABLE(kind text, tenant_id bigint, name text, at timestamp with time zone, id bigint, sent integer, done integer, retried integer, failed integer, dead integer, latency interval, error text)
    LANGUAGE sql STABLE;

CREATE FUNCTION penstock.depth_trends(p_tenant bigint, p_now timestamp with time zone) RETURNS TABLE(kind text, name text, waiting double precision, slope double precision)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.describe_sends(p_positions integer[], p_tenants bigint[], p_queues text[], p_bodies text[], p_delays integer[], p_priorities integer[], p_groups text[], p_dedups text[], p_dedup_windows integer[], p_retentions integer[]) RETURNS penstock.send_entry[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.drop_job_blocks() RETURNS integer
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.drop_job_days(p_before timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '500ms';

CREATE FUNCTION penstock.drop_queue(queue text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.drop_queue(queue text) IS 'Deletes a queue with its messages; returns whether it existed.';

CREATE FUNCTION penstock.drop_queue_row(p_tenant bigint, p_name text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.drop_schedule(schedule text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.drop_schedule(schedule text) IS 'Deletes a schedule; returns whether it existed.';

CREATE FUNCTION penstock.drop_topic(topic text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.drop_topic(topic text) IS 'Deletes a topic with its subscriptions; returns whether it existed.';

CREATE FUNCTION penstock.drop_topic_row(p_tenant bigint, p_name text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.end_job(p_queue integer, p_number bigint, p_error text, p_now timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.place_of(p_priority integer, p_id bigint, p_lifo boolean) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE SEQUENCE penstock.message_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE FUNCTION penstock.end_place(p_queue penstock.queues) RETURNS bigint
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN ((NOT (p_queue).fifo) AND (NOT (p_queue).lifo)) THEN penstock.place_of(100, COALESCE(pg_sequence_last_value('penstock.message_ids'::regclass), (0)::bigint), false)
             ELSE NULL::bigint
         END AS "case";
END;

CREATE FUNCTION penstock.enqueue_job(queue text, payload jsonb, priority integer DEFAULT 0, max_retries integer DEFAULT 3, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, unique_key text DEFAULT NULL::text, unique_s integer DEFAULT 3600, backoff jsonb DEFAULT NULL::jsonb, after uuid[] DEFAULT NULL::uuid[], tags text[] DEFAULT NULL::text[]) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.enqueue_job(queue text, payload jsonb, priority integer, max_retries integer, run_at timestamp with time zone, unique_key text, unique_s integer, backoff jsonb, after uuid[], tags text[]) IS 'Enqueues a job; returns its id.';

CREATE FUNCTION penstock.enqueue_jobs(p_tenants bigint[], p_queues integer[], p_payloads text[], p_priorities integer[], p_retries integer[], p_run_ats timestamp with time zone[], p_backoffs text[], p_keys text[], p_windows integer[], p_now timestamp with time zone, OUT numbers bigint[], OUT existing boolean[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.enqueue_jobs_after(p_tenants bigint[], p_queues integer[], p_payloads text[], p_priorities integer[], p_retries integer[], p_run_ats timestamp with time zone[], p_backoffs text[], p_keys text[], p_windows integer[], p_now timestamp with time zone, p_traces text[], p_positions integer[], p_after_queues integer[], p_after_numbers bigint[], p_after_positions integer[], OUT numbers bigint[], OUT existing boolean[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.enqueue_tagged_jobs(p_tenants bigint[], p_queues integer[], p_payloads text[], p_priorities integer[], p_retries integer[], p_run_ats timestamp with time zone[], p_backoffs text[], p_keys text[], p_windows integer[], p_now timestamp with time zone, p_traces text[], p_positions integer[], p_after_queues integer[], p_after_numbers bigint[], p_after_positions integer[], p_tags text[], OUT numbers bigint[], OUT existing boolean[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.enqueue_traced_jobs(p_tenants bigint[], p_queues integer[], p_payloads text[], p_priorities integer[], p_retries integer[], p_run_ats timestamp with time zone[], p_backoffs text[], p_keys text[], p_windows integer[], p_now timestamp with time zone, p_traces text[], OUT numbers bigint[], OUT existing boolean[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.entries_walked() RETURNS bigint
    LANGUAGE sql STABLE;

CREATE FUNCTION penstock.expect_messages(queue text, expect_s integer DEFAULT 60) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.expect_messages(queue text, expect_s integer) IS 'For expect_s seconds (1 to 300), sends to the queue are announced on the channel penstock_arrivals; returns the text of the announcement.';

CREATE FUNCTION penstock.facts(p_since timestamp with time zone, p_until timestamp with time zone) RETURNS TABLE(kind text, tenant text, name text, at timestamp with time zone, id bigint, sent integer, done integer, retried integer, failed integer, dead integer, latency_s double precision, error text)
    LANGUAGE sql STABLE;

CREATE FUNCTION penstock.fail_jobs(p_tenants bigint[], p_queues integer[], p_numbers bigint[], p_tokens uuid[], p_errors text[], p_retries boolean[], p_waits double precision[], p_spreads double precision[], p_counts boolean[], p_now timestamp with time zone, OUT answers text[], OUT run_ats timestamp with time zone[], OUT queues text[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.fail_schedule(p_id bigint, p_error text, p_longest_retry_s integer, p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.find_dead_letters(p_queue penstock.queues, p_max integer, p_dead_letters text, OUT max_receives integer, OUT target penstock.queues, OUT missing boolean) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.find_duplicate(p_bin bigint, p_dedup text, p_group text, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.find_jobs(p_tenant bigint, p_queue text, p_states integer[], p_value text, p_before bigint, p_limit integer, p_ms integer) RETURNS TABLE(queue_id integer, id bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.find_queue(p_tenant bigint, p_queue text) RETURNS penstock.queues
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.find_tagged_jobs(p_tenant bigint, p_queue text, p_states integer[], p_value text, p_before bigint, p_limit integer, p_ms integer, p_tag text) RETURNS TABLE(queue_id integer, id bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE TABLE penstock.topics (
    id bigint NOT NULL,
    tenant_id bigint NOT NULL,
    name text NOT NULL,
    fifo boolean GENERATED ALWAYS AS ((name ~~ '%.fifo'::text)) STORED,
    attributes jsonb DEFAULT '{}'::jsonb NOT NULL,
    tags jsonb DEFAULT '{}'::jsonb NOT NULL,
    subscriptions_deleted bigint DEFAULT 0 NOT NULL,
    version bigint NOT NULL,
    created_at timestamp with time zone NOT NULL
);

CREATE FUNCTION penstock.find_topic(p_tenant bigint, p_topic text) RETURNS penstock.topics
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.finding_points(p_tenant bigint, p_now timestamp with time zone, p_question text, p_kind text, p_name text) RETURNS TABLE(at timestamp with time zone, value double precision)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.findings(p_tenant bigint, p_now timestamp with time zone, p_tenants boolean) RETURNS TABLE(question text, kind text, name text, before double precision, now double precision, detail text)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.finish_carefully(p_queue penstock.queues, p_id bigint, p_lease bigint, p_archive boolean, p_now timestamp with time zone) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.finish_deliveries(p_ids bigint[], p_leases bigint[], p_delivered boolean[], p_retry_at timestamp with time zone[], p_statuses integer[], p_errors text[], p_now timestamp with time zone) RETURNS boolean[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.finish_in_queues(p_tenants bigint[], p_queues text[], p_ids bigint[], p_leases bigint[], p_archive boolean, p_now timestamp with time zone) RETURNS text[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.finish_many(p_tenants bigint[], p_queues text[], p_ids bigint[], p_leases bigint[], p_archive boolean, p_now timestamp with time zone) RETURNS text[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.finish_missed(p_positions integer[], p_answers text[], p_tenants bigint[], p_queues text[], p_ids bigint[], p_leases bigint[], p_archive boolean, p_now timestamp with time zone) RETURNS text[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.finish_others(p_tenant bigint, p_queue text, p_ids bigint[], p_leases bigint[], p_done bigint[], p_archive boolean, p_now timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.fire_jobs(p_schedule penstock.schedules, p_marks text[], p_now timestamp with time zone) RETURNS text[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.fire_queue(p_schedule penstock.schedules, p_times text[], p_headers text[], p_now timestamp with time zone) RETURNS text[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.fire_schedules(p_ids bigint[], p_expected timestamp with time zone[], p_next timestamp with time zone[], p_due timestamp with time zone[], p_last timestamp with time zone[], p_errors text[], p_owners integer[], p_times text[], p_marks text[], p_longest_retry_s integer, p_now timestamp with time zone, p_revisions bigint[] DEFAULT NULL::bigint[]) RETURNS TABLE(schedule_id bigint, ids text[], error text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '2s';

CREATE FUNCTION penstock.fire_stream(p_schedule penstock.schedules, p_headers text[]) RETURNS text[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.fire_target(p_schedule penstock.schedules, p_times text[], p_marks text[], p_now timestamp with time zone) RETURNS text[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.fire_topic(p_schedule penstock.schedules, p_times text[], p_headers text[], p_now timestamp with time zone) RETURNS text[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.first_in_flight(p_bin bigint, p_group text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.first_within(p_bin bigint, p_ids bigint[], p_bytes bigint) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.fold_counts() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.fold_job_counts() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.follow_events(p_queues text[], p_id bigint, p_beginnings text[], p_recent integer, p_limit integer) RETURNS TABLE(queue_name text, ev_id bigint, ev_type text, ev_time timestamp with time zone, ev_retry integer, trace text, read_by text[], unread_by text[], deaths json)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.forget_job_tags(p_before timestamp with time zone, p_limit integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.forget_job_traces(p_before timestamp with time zone, p_limit integer) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.forget_jobs(p_before timestamp with time zone, p_limit integer, p_now timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.group_key(p_bin bigint, p_group text) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION penstock.has_large_number(p_text text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.next_lease(p_lease bigint, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION penstock.hint_since(p_hint bigint[], p_now timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN ((p_hint)[5] > penstock.next_lease((0)::bigint, p_now)) THEN ('1970-01-01 00:00:00+00'::timestamp with time zone + (((p_hint)[3])::double precision * '00:00:00.000001'::interval))
             ELSE '-infinity'::timestamp with time zone
         END AS "case";
END;

CREATE FUNCTION penstock.hint_start(p_hint bigint[], p_now timestamp with time zone) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN ((p_hint)[5] > penstock.next_lease((0)::bigint, p_now)) THEN (p_hint)[2]
             ELSE (0)::bigint
         END AS "case";
END;

CREATE FUNCTION penstock.hold_jobs(p_tenants bigint[], p_queues integer[], p_numbers bigint[], p_after_queues integer[], p_afters bigint[], p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.insert_published_events(p_skip boolean[], p_bodies text[], p_events penstock.published_event[], p_traces text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.job_backoff(p_backoff json, p_retries integer, p_spread double precision) RETURNS double precision
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.job_facts(p_since timestamp with time zone, p_until timestamp with time zone) RETURNS TABLE(kind text, tenant_id bigint, name text, at timestamp with time zone, id bigint, sent integer, done integer, retried integer, failed integer, dead integer, latency interval, error text)
    LANGUAGE sql STABLE;

CREATE FUNCTION penstock.job_name(p_id uuid, OUT queue_id integer, OUT number bigint) RETURNS record
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.job_payloads(p_queue integer, p_after bigint, p_last bigint, p_limit integer) RETURNS TABLE(id bigint, state smallint, payload json)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.job_piece(p_queue integer, p_after bigint, p_last bigint, p_count integer, p_dead boolean) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.job_place(p_priority integer, p_number bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION penstock.job_ranges(p_tenant bigint, p_queue text, p_value text, p_before bigint, p_dead boolean) RETURNS TABLE(queue_id integer, after bigint, last bigint, whole boolean)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.job_state(p_tenant bigint, p_queue integer, p_number bigint) RETURNS smallint
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.job_uuid(p_queue integer, p_number bigint) RETURNS uuid
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.job_waits() RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION penstock.json_depth(p_text text) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.json_values(p_document json) RETURNS SETOF text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.lease_jobs(p_queues integer[], p_seconds integer[], p_limits integer[], p_workers text[], p_places bigint[], p_since timestamp with time zone[], p_now timestamp with time zone, p_bytes bigint DEFAULT '9223372036854775807'::bigint) RETURNS TABLE(request integer, next_due_at timestamp with time zone, place bigint, id bigint, lease_token uuid, due_at timestamp with time zone, payload json, priority integer, attempts integer, retry_count integer, max_retries integer, lease_lost_count integer, run_at timestamp with time zone, created_at timestamp with time zone, started_at timestamp with time zone, leased_at timestamp with time zone, worker text, error text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.limit_jobs(p_tenant bigint, p_queue text, p_concurrency integer, p_rate double precision, p_burst integer, p_actor text, p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE VIEW penstock.live_jobs AS
 SELECT queue_id,
    id,
    tenant_id,
    state,
    priority,
    payload,
    NULL::json AS result,
    error,
    dead_reason,
    retry_count,
    max_retries,
    attempts,
    lease_lost_count,
    progress,
    note,
    worker,
    run_at,
    created_at,
    updated_at,
    started_at,
    leased_at,
    finished_at,
        CASE
            WHEN (state = 1) THEN due_at
            ELSE NULL::timestamp with time zone
        END AS lease_expires_at
   FROM penstock.jobs j;

CREATE FUNCTION penstock.list_jobs(p_tenant bigint, p_queue text, p_states integer[], p_before bigint, p_limit integer, p_offset integer) RETURNS TABLE(queue text, job penstock.live_jobs)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.list_queues() RETURNS TABLE(queue text, fifo boolean, created_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.list_queues() IS 'Queues of the tenant.';

CREATE FUNCTION penstock.list_schedules() RETURNS TABLE(schedule text, status text, target_kind text, target text, expression text, timezone text, next_fire_at timestamp with time zone, last_fire_at timestamp with time zone, fires bigint, consecutive_failures integer, last_error text, created_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.list_schedules() IS 'Schedules of the tenant. next_fire_at is null until a server has computed it.';

CREATE FUNCTION penstock.list_topics() RETURNS TABLE(topic text, fifo boolean, created_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.list_topics() IS 'Topics of the tenant.';

CREATE FUNCTION penstock.lock_group(p_bin bigint, p_group text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.lock_groups_of(p_tenants bigint[], p_queues text[], p_ids bigint[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.lock_sends(p_positions integer[], p_tenants bigint[], p_queues text[], p_groups text[]) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.lock_topic_group(p_topic bigint, p_group text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.make_job_day(p_moment timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.make_job_queues(p_tenants bigint[], p_names text[], p_now timestamp with time zone) RETURNS integer[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.match_jobs(p_queue integer, p_states integer[], p_value text, p_after bigint, p_last bigint, p_limit integer) RETURNS bigint[]
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.message_bytes(p_body text, p_attributes json, p_headers json) RETURNS integer
    LANGUAGE sql IMMUTABLE
    BEGIN ATOMIC
 SELECT ((octet_length(p_body) + COALESCE(octet_length((p_attributes)::text), 0)) + COALESCE(octet_length((p_headers)::text), 0));
END;

CREATE FUNCTION penstock.metrics(queue text DEFAULT NULL::text) RETURNS TABLE(queue_name text, visible bigint, in_flight bigint, delayed bigint, sent bigint, oldest_age interval, newest_age interval)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.metrics(queue text) IS 'Counts and ages of one queue, or of all.';

CREATE FUNCTION penstock.move_by_ids(p_tenant bigint, p_source text, p_ids bigint[], p_destination text, p_now timestamp with time zone, OUT moved integer, OUT tenants bigint[], OUT queues text[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.move_home(p_source penstock.queues, p_ids bigint[], p_target penstock.queues, p_now timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.move_messages(p_bin bigint, p_ids bigint[], p_target penstock.queues, p_source bigint, p_reset boolean, p_now timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.next_due_at(p_bin bigint, p_now timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.next_job_at(p_queue integer, p_now timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.note_act(p_tenant bigint, p_actor text, p_act text, p_subject text, p_detail json, p_now timestamp with time zone) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.note_waiting(p_until timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.number_publish(p_topic bigint, p_dedup text, p_scope text, p_message_id text, p_now timestamp with time zone, OUT message_id text, OUT sequence bigint, OUT duplicate boolean) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.number_publishes(p_publishes penstock.new_publish[], p_now timestamp with time zone, INOUT skip boolean[], OUT message_ids text[], OUT sequences bigint[], OUT duplicates boolean[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.pattern_expression(p_pattern text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.pause_schedule(schedule text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.pause_schedule(schedule text) IS 'Pauses a schedule; returns whether it was active.';

CREATE FUNCTION penstock.peek(queue text, max_messages integer DEFAULT 1) RETURNS TABLE(id bigint, body text, headers jsonb, attributes jsonb, receives integer, sent_at timestamp with time zone)
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.peek(queue text, max_messages integer) IS 'What a receive would return. Hides nothing.';

CREATE FUNCTION penstock.peek_many(p_tenant bigint, p_queue text, p_limit integer, p_shuffle boolean, p_now timestamp with time zone) RETURNS SETOF penstock.messages
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.pick_any(p_bin bigint, p_limit integer, p_now timestamp with time zone) RETURNS bigint[]
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.pick_fifo(p_bin bigint, p_limit integer, p_shuffle boolean, p_start bigint, p_now timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.pop(queue text, max_messages integer DEFAULT 1) RETURNS TABLE(id bigint, body text, headers jsonb, attributes jsonb, sent_at timestamp with time zone)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off';

COMMENT ON FUNCTION penstock.pop(queue text, max_messages integer) IS 'Receives and deletes in one step.';

CREATE FUNCTION penstock.pop_from_any(queue text, max_messages integer) RETURNS TABLE(id bigint, body text, headers jsonb, attributes jsonb, sent_at timestamp with time zone)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.promote_jobs(p_queue integer, p_since timestamp with time zone, p_now timestamp with time zone, p_limit integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.publish(topic text, body text, subject text DEFAULT NULL::text, attributes jsonb DEFAULT NULL::jsonb, group_id text DEFAULT NULL::text, dedup_id text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.publish(topic text, body text, subject text, attributes jsonb, group_id text, dedup_id text) IS 'Publishes a message to a topic; returns its id.';

CREATE FUNCTION penstock.publish_event(routing_key text, message jsonb, headers jsonb DEFAULT NULL::jsonb, delay_s integer DEFAULT NULL::integer) RETURNS text
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.publish_event(routing_key text, message jsonb, headers jsonb, delay_s integer) IS 'Publishes an event by routing key; returns its id.';

CREATE FUNCTION penstock.publish_event(routing_key text, body text, headers jsonb DEFAULT NULL::jsonb, delay_s integer DEFAULT NULL::integer) RETURNS text
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.publish_event(routing_key text, body text, headers jsonb, delay_s integer) IS 'Publishes an event by routing key; returns its id.';

CREATE FUNCTION penstock.publish_event_text(p_key text, p_body text, p_json boolean, p_headers jsonb, p_delay integer) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.publish_many(p_publishes penstock.new_publish[], p_bodies text[], p_messages penstock.published_message[], p_events penstock.published_event[], p_deliveries penstock.published_delivery[], p_items penstock.published_item[], p_now timestamp with time zone, p_event_traces text[] DEFAULT NULL::text[], OUT statuses text[], OUT message_ids text[], OUT sequences bigint[], OUT duplicates boolean[], OUT positions integer[], OUT sent_ids bigint[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.publish_or_reject(p_target text, p_tenant bigint, p_name text, p_places tid[], p_now timestamp with time zone, p_named_by_rows boolean, p_query text, p_batch bigint, p_rejects text, OUT published bigint, OUT duplicates bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.publish_portion(p_target text, p_tenant bigint, p_name text, p_places tid[], p_now timestamp with time zone, OUT published bigint, OUT duplicates bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.publish_staged(p_query text, p_batch bigint, p_attempts bigint[], p_count bigint, p_loads bigint[], p_target text, p_tenant text, p_name text, p_once boolean, p_now timestamp with time zone, p_rejects text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off';

CREATE FUNCTION penstock.publish_staged_jobs(p_places tid[], p_rows record, p_tenant bigint, p_name text, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.publish_staged_messages(p_places tid[], p_rows record, p_tenant bigint, p_name text, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.publish_staged_rows(p_target text, p_attempts bigint[], p_tenant bigint, p_name text, p_now timestamp with time zone, p_query text, p_batch bigint, p_rejects text, OUT published bigint, OUT duplicates bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.publish_staged_stream(p_attempts bigint[], p_name text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE TABLE penstock.pending_publishes (
    id bigint CONSTRAINT publish_outbox_id_not_null NOT NULL,
    tenant_id bigint CONSTRAINT publish_outbox_tenant_id_not_null NOT NULL,
    topic text,
    routing_key text,
    subscription_ids bigint[] CONSTRAINT publish_outbox_subscription_ids_not_null NOT NULL,
    message_id text CONSTRAINT publish_outbox_message_id_not_null NOT NULL,
    body text CONSTRAINT publish_outbox_body_not_null NOT NULL,
    is_json boolean CONSTRAINT publish_outbox_is_json_not_null NOT NULL,
    subject text,
    attributes json,
    headers json,
    delay_s integer,
    group_id text,
    dedup_id text,
    sequence bigint,
    published_at timestamp with time zone CONSTRAINT publish_outbox_published_at_not_null NOT NULL
);

CREATE FUNCTION penstock.publish_to(p_publish penstock.pending_publishes) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.purge_jobs(p_tenant bigint, p_queue integer, p_numbers bigint[], p_limit integer, p_actor text, p_now timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.purge_queue(queue text) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.purge_queue(queue text) IS 'Deletes all messages of a queue; returns how many.';

CREATE FUNCTION penstock.purge_queue_row(p_tenant bigint, p_name text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.queue_facts(p_since timestamp with time zone, p_until timestamp with time zone) RETURNS TABLE(kind text, tenant_id bigint, name text, at timestamp with time zone, id bigint, sent integer, done integer, retried integer, failed integer, dead integer, latency interval, error text)
    LANGUAGE sql STABLE;

CREATE FUNCTION penstock.raise_code(p_code text, p_queue text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.raise_version(p_tenant bigint) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.read_cron(p_text text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.read_crons(p_text text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.read_duration(p_text text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.read_moment(p_field text, p_text text) RETURNS timestamp with time zone
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.read_schedule(p_tenant bigint, p_settings jsonb) RETURNS penstock.schedules
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.read_schedule_message(p_schedule penstock.schedules, p_settings jsonb) RETURNS penstock.schedules
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.read_schedule_times(p_schedule penstock.schedules, p_settings jsonb) RETURNS penstock.schedules
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.receive(queue text, visibility_timeout_s integer DEFAULT NULL::integer, max_messages integer DEFAULT 1) RETURNS TABLE(id bigint, lease bigint, body text, headers jsonb, attributes jsonb, receives integer, priority smallint, group_id text, sent_at timestamp with time zone, visible_at timestamp with time zone)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off';

COMMENT ON FUNCTION penstock.receive(queue text, visibility_timeout_s integer, max_messages integer) IS 'Returns up to max_messages messages and hides them for visibility_timeout_s seconds, by default that of the queue.';

CREATE FUNCTION penstock.receive_from_any(queue text, timeout_s integer, max_messages integer, now timestamp with time zone) RETURNS TABLE(id bigint, lease bigint, body text, headers jsonb, attributes jsonb, receives integer, priority smallint, group_id text, sent_at timestamp with time zone, visible_at timestamp with time zone)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.receive_many(p_tenants bigint[], p_queues text[], p_limits integer[], p_timeouts integer[], p_maxima integer[], p_dead_letters text[], p_shuffles boolean[], p_places bigint[], p_since timestamp with time zone[], p_now timestamp with time zone, p_bytes bigint DEFAULT NULL::bigint, p_floors bigint[] DEFAULT NULL::bigint[], p_floors_since timestamp with time zone[] DEFAULT NULL::timestamp with time zone[]) RETURNS TABLE(request integer, code text, next_due_at timestamp with time zone, place bigint, id bigint, lease bigint, body text, is_json boolean, priority smallint, receives integer, sent_at timestamp with time zone, first_received_at timestamp with time zone, visible_at timestamp with time zone, group_id text, dedup_id text, attributes json, headers json, trace text, dead_letter_source text, sequence bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.receive_wait(queue text, wait_s integer DEFAULT 5, visibility_timeout_s integer DEFAULT NULL::integer, max_messages integer DEFAULT 1) RETURNS TABLE(id bigint, lease bigint, body text, headers jsonb, attributes jsonb, receives integer, priority smallint, group_id text, sent_at timestamp with time zone, visible_at timestamp with time zone)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.receive_wait(queue text, wait_s integer, visibility_timeout_s integer, max_messages integer) IS 'As receive, but waits up to wait_s seconds (0 to 20) for the first message.';

CREATE FUNCTION penstock.record_insight_errors(p_rows jsonb, p_moment timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.record_insights(p_rows jsonb, p_moment timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.record_published(p_publishes penstock.new_publish[], p_skip boolean[], p_message_ids text[], p_bodies text[], p_deliveries penstock.published_delivery[], p_items penstock.published_item[], p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.recover_jobs(p_queue integer, p_since timestamp with time zone, p_now timestamp with time zone, p_limit integer, OUT recovered integer, OUT place bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.redrive(queue text, destination text DEFAULT NULL::text, max_messages integer DEFAULT 1000) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.redrive(queue text, destination text, max_messages integer) IS 'Moves up to max_messages dead letters back to the queues they came from, or to a destination; returns how many.';

CREATE FUNCTION penstock.refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.reject_problems(p_attempts bigint[], p_target text, p_tenant bigint, p_name text, p_query text, p_batch bigint, p_rejects text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.release_due(p_queue penstock.queues, p_max integer, p_target penstock.queues, p_by_request boolean, p_since timestamp with time zone, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.release_due_groups(p_queue penstock.queues, p_max integer, p_target penstock.queues, p_by_request boolean, p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.release_due_in(p_queue text, p_since timestamp with time zone, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.release_due_messages(p_queue penstock.queues, p_max integer, p_target penstock.queues, p_by_request boolean, p_since timestamp with time zone, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.release_jobs(p_tenants bigint[], p_queues integer[], p_numbers bigint[], p_tokens uuid[], p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.release_waiting(p_queues integer[], p_numbers bigint[], p_now timestamp with time zone, OUT tenants bigint[], OUT queues text[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.remember_start(p_hint bigint[], p_queue text, p_start bigint, p_since timestamp with time zone, p_walked bigint, p_found boolean, p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off';

CREATE FUNCTION penstock.remove_expired_head(p_bin bigint, p_id bigint, p_group text, p_now timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.remove_messages(p_bin bigint, p_ids bigint[]) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.replay_delivery_row(p_tenant bigint, p_id bigint, p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.report_pipeline_run(p_run bigint, p_state text, p_rows bigint, p_batches bigint, p_lag_events bigint, p_lag_s double precision, p_note text, p_error text, p_progress jsonb, p_now timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.requeue_jobs(p_tenant bigint, p_queue integer, p_numbers bigint[], p_limit integer, p_actor text, p_now timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.resume_schedule(schedule text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.resume_schedule(schedule text) IS 'Resumes a schedule with the next fire after now; returns whether it was paused.';

CREATE FUNCTION penstock.run_move_tasks(p_now timestamp with time zone, OUT moved integer, OUT tenants bigint[], OUT queues text[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.run_schedule_row(p_id bigint, p_time text, p_mark text, p_now timestamp with time zone) RETURNS text[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.was_long(p_walked_before bigint) RETURNS boolean
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT (penstock.entries_walked() > (p_walked_before + 5000));
END;

CREATE FUNCTION penstock.saw_start(p_hint bigint[], p_due boolean, p_walked bigint, p_now timestamp with time zone) RETURNS boolean
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN (p_hint IS NOT NULL) THEN (p_due OR (LEAST((p_hint)[5], ((p_hint)[7] + 20000)) <= penstock.next_lease((0)::bigint, p_now)))
             ELSE ((clock_timestamp() > (p_now + '00:00:00.001'::interval)) AND penstock.was_long(p_walked))
         END AS "case";
END;

CREATE FUNCTION penstock.send(queue text, message jsonb, headers jsonb DEFAULT NULL::jsonb, delay_s integer DEFAULT NULL::integer, priority integer DEFAULT NULL::integer, group_id text DEFAULT NULL::text, dedup_id text DEFAULT NULL::text, retention_s integer DEFAULT NULL::integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off';

COMMENT ON FUNCTION penstock.send(queue text, message jsonb, headers jsonb, delay_s integer, priority integer, group_id text, dedup_id text, retention_s integer) IS 'Sends a message, text or JSON; returns its id.';

CREATE FUNCTION penstock.send(queue text, body text, headers jsonb DEFAULT NULL::jsonb, delay_s integer DEFAULT NULL::integer, priority integer DEFAULT NULL::integer, group_id text DEFAULT NULL::text, dedup_id text DEFAULT NULL::text, retention_s integer DEFAULT NULL::integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off';

COMMENT ON FUNCTION penstock.send(queue text, body text, headers jsonb, delay_s integer, priority integer, group_id text, dedup_id text, retention_s integer) IS 'Sends a message, text or JSON; returns its id.';

CREATE FUNCTION penstock.send_as_it_is(p_tenants bigint[], p_queues text[], p_publish penstock.pending_publishes) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.send_batch(queue text, bodies text[], headers jsonb[] DEFAULT NULL::jsonb[], delay_s integer DEFAULT NULL::integer, priority integer DEFAULT NULL::integer, group_id text DEFAULT NULL::text, dedup_ids text[] DEFAULT NULL::text[], retention_s integer DEFAULT NULL::integer, is_json boolean DEFAULT false) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off';

COMMENT ON FUNCTION penstock.send_batch(queue text, bodies text[], headers jsonb[], delay_s integer, priority integer, group_id text, dedup_ids text[], retention_s integer, is_json boolean) IS 'Sends all messages, or raises an error and sends none; returns their ids.';

CREATE FUNCTION penstock.send_carefully(p_positions integer[], p_ids bigint[], p_codes text[], p_tenants bigint[], p_queues text[], p_bodies text[], p_json boolean[], p_delays integer[], p_priorities integer[], p_groups text[], p_dedups text[], p_dedup_windows integer[], p_retentions integer[], p_attributes text[], p_headers text[], p_traces text[], p_now timestamp with time zone, OUT ids bigint[], OUT codes text[], OUT duplicates boolean[], OUT sequences bigint[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.send_checked(queue text, bodies text[], headers jsonb[], delay_s integer, priority integer, group_id text, dedup_ids text[], retention_s integer, is_json boolean) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off';

CREATE FUNCTION penstock.send_dead_letters(p_tenants bigint[], p_queues text[], p_bodies text[], p_json boolean[], p_groups text[], p_dedups text[], p_attributes text[], p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.send_many(p_tenants bigint[], p_queues text[], p_bodies text[], p_json boolean[], p_delays integer[], p_priorities integer[], p_groups text[], p_dedups text[], p_dedup_windows integer[], p_retentions integer[], p_attributes text[], p_headers text[], p_traces text[], p_sizes integer[], p_now timestamp with time zone, OUT ids bigint[], OUT codes text[], OUT duplicates boolean[], OUT sequences bigint[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.send_one(p_queue text, p_body text, p_json boolean, p_headers jsonb, p_delay integer, p_priority integer, p_group text, p_dedup text, p_retention integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off';

CREATE FUNCTION penstock.send_published(p_publishes penstock.new_publish[], p_skip boolean[], p_sequences bigint[], p_bodies text[], p_messages penstock.published_message[], p_now timestamp with time zone, OUT positions integer[], OUT sent_ids bigint[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.send_to_queues(p_tenants bigint[], p_queues text[], p_bodies text[], p_json boolean[], p_delays integer[], p_priorities integer[], p_groups text[], p_dedups text[], p_dedup_windows integer[], p_retentions integer[], p_attributes text[], p_headers text[], p_traces text[], p_sizes integer[], p_now timestamp with time zone, OUT ids bigint[], OUT codes text[], OUT duplicates boolean[], OUT sequences bigint[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.sequence_text(p_sequence bigint) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.set_aside(p_queue penstock.queues, p_ids bigint[], p_target penstock.queues, p_by_request boolean, p_now timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.set_aside_ready(p_queue penstock.queues, p_limit integer, p_max integer, p_target penstock.queues, p_by_request boolean, p_start bigint, p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.settle_group(p_bin bigint, p_group text, p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.settle_insights(p_since timestamp with time zone, p_moment timestamp with time zone, p_hours_kept interval, p_days_kept interval) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.settle_job_numbers() RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.staged_portion(p_places tid[], p_now timestamp with time zone, OUT types text[], OUT bodies text[], OUT delays integer[], OUT moments timestamp with time zone[], OUT priorities integer[], OUT groups text[], OUT dedups text[], OUT headers text[]) RETURNS record
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.staged_portions(p_attempts bigint[], p_name text, OUT name text, OUT places tid[]) RETURNS SETOF record
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.start_move_task(p_tenant bigint, p_source text, p_destination text, p_rate integer, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.start_pipeline_run(p_tenant text, p_pipeline text, p_settings jsonb, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.store_rejects(p_places tid[], p_reason text, p_target text, p_tenant bigint, p_name text, p_query text, p_batch bigint, p_rejects text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.store_sends(p_entries penstock.send_entry[], p_ids bigint[], p_bodies text[], p_json boolean[], p_attributes text[], p_headers text[], p_traces text[], p_now timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.stream_facts(p_since timestamp with time zone, p_until timestamp with time zone) RETURNS TABLE(kind text, tenant_id bigint, name text, at timestamp with time zone, id bigint, sent integer, done integer, retried integer, failed integer, dead integer, latency interval, error text)
    LANGUAGE sql STABLE;

CREATE FUNCTION penstock.stream_lag(p_ticks jsonb, p_now timestamp with time zone, OUT lag_events bigint, OUT lag_s double precision) RETURNS record
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.stream_places(p_queue integer, p_txid xid8) RETURNS TABLE(co_name text, has_read boolean)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.stream_queue(p_tenant bigint, p_name text) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.subscribe(topic text, queue text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.subscribe(topic text, queue text) IS 'Subscribes a queue to a topic.';

CREATE FUNCTION penstock.subscribe_events(pattern text, queue text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.subscribe_events(pattern text, queue text) IS 'Subscribes a queue to events whose routing key matches a pattern.';

CREATE FUNCTION penstock.subscribe_row(p_tenant bigint, p_topic text, p_pattern text, p_protocol text, p_endpoint text, p_target text, p_target_tenant bigint, p_attributes jsonb, p_confirmed boolean, p_token text, p_owner text, p_secret text, p_now timestamp with time zone, OUT subscription_key text, OUT created boolean) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.subscriptions_of_key(p_tenant bigint, p_key text) RETURNS bigint[]
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.sweep(p_now timestamp with time zone, p_limit integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.sweep_abandoned(p_limit integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.sweep_expired(p_now timestamp with time zone, p_limit integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.sweep_poison(p_max integer, p_now timestamp with time zone, p_limit integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.sweep_topics(p_now timestamp with time zone, p_delivered_before timestamp with time zone, p_exhausted_before timestamp with time zone, p_limit integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.tag_job(p_tenant bigint, p_queue integer, p_job bigint, p_tags text[], p_now timestamp with time zone) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.take_requests(p_name text, p_rate double precision, p_burst double precision, p_wanted integer, p_now timestamp with time zone, OUT taken integer, OUT wait_s double precision) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.tend_jobs(p_retention interval, p_limit integer, p_now timestamp with time zone, OUT done integer, OUT tenants bigint[], OUT queues text[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.tids_of(p_bin bigint, p_ids bigint[]) RETURNS SETOF tid
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.try_hold_group(p_bin bigint, p_group text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.try_lock_group(p_bin bigint, p_group text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.unsubscribe(name text, queue text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

COMMENT ON FUNCTION penstock.unsubscribe(name text, queue text) IS 'Removes the subscription of a queue to a topic or a pattern.';

CREATE FUNCTION penstock.unsubscribe_row(p_tenant bigint, p_key uuid) RETURNS SETOF penstock.subscriptions
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.update_queue_row(p_tenant bigint, p_name text, p_settings jsonb, p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.update_subscription_row(p_tenant bigint, p_key uuid, p_attributes jsonb) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.update_topic_row(p_tenant bigint, p_name text, p_attributes jsonb, p_tags jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.write_job_blocks(p_size integer, p_limit integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE TABLE penstock.abandoned_bins (
    bin_id bigint NOT NULL,
    given_up_in xid8 DEFAULT pg_current_xact_id() NOT NULL
);

CREATE TABLE penstock.archive (
    id bigint NOT NULL,
    tenant_id bigint NOT NULL,
    queue text NOT NULL,
    sent_at timestamp with time zone NOT NULL,
    first_received_at timestamp with time zone,
    archived_at timestamp with time zone NOT NULL,
    receives integer NOT NULL,
    priority smallint NOT NULL,
    is_json boolean NOT NULL,
    group_id text,
    dedup_id text,
    trace text,
    attributes json,
    headers json,
    body text NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL
);

CREATE TABLE penstock.audit (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    tenant_id bigint,
    actor text NOT NULL,
    act text NOT NULL,
    subject text NOT NULL,
    detail json DEFAULT '{}'::json NOT NULL
);

ALTER TABLE penstock.audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE penstock.bin_changes (
    bin_id bigint NOT NULL,
    arrived integer DEFAULT 0 NOT NULL,
    departed integer DEFAULT 0 NOT NULL
)
WITH (autovacuum_vacuum_threshold='1000', autovacuum_vacuum_scale_factor='0');

CREATE TABLE penstock.bin_counts (
    bin_id bigint NOT NULL,
    arrived bigint NOT NULL,
    departed bigint NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE penstock.dedup (
    bin_id bigint NOT NULL,
    dedup_id text NOT NULL,
    group_id text NOT NULL,
    message_id bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

ALTER TABLE penstock.deliveries ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.deliveries_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE penstock.finished_jobs (
    queue_id integer NOT NULL,
    id bigint NOT NULL,
    tenant_id bigint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone NOT NULL,
    priority integer NOT NULL,
    max_retries integer NOT NULL,
    retry_count integer NOT NULL,
    attempts integer NOT NULL,
    lease_lost_count integer NOT NULL,
    state smallint NOT NULL,
    progress smallint,
    worker text,
    note text,
    error text,
    backoff json,
    payload json NOT NULL,
    result json
)
PARTITION BY RANGE (finished_at);

CREATE VIEW penstock.done_jobs AS
 SELECT queue_id,
    id,
    tenant_id,
    state,
    priority,
    payload,
    result,
    error,
    NULL::text AS dead_reason,
    retry_count,
    max_retries,
    attempts,
    lease_lost_count,
    progress,
    note,
    worker,
    run_at,
    created_at,
    finished_at AS updated_at,
    started_at,
    NULL::timestamp with time zone AS leased_at,
    finished_at,
    NULL::timestamp with time zone AS lease_expires_at
   FROM penstock.finished_jobs f;

CREATE TABLE penstock.insight_errors (
    tenant_id bigint CONSTRAINT rollup_errors_tenant_id_not_null NOT NULL,
    starts_at timestamp with time zone CONSTRAINT rollup_errors_starts_at_not_null NOT NULL,
    kind text CONSTRAINT rollup_errors_kind_not_null NOT NULL,
    name text CONSTRAINT rollup_errors_name_not_null NOT NULL,
    shape text CONSTRAINT rollup_errors_shape_not_null NOT NULL,
    count bigint CONSTRAINT rollup_errors_count_not_null NOT NULL,
    example text CONSTRAINT rollup_errors_example_not_null NOT NULL,
    recorded_at timestamp with time zone CONSTRAINT rollup_errors_recorded_at_not_null NOT NULL
);

CREATE TABLE penstock.insights (
    tenant_id bigint CONSTRAINT rollups_tenant_id_not_null NOT NULL,
    step text CONSTRAINT rollups_step_not_null NOT NULL,
    starts_at timestamp with time zone CONSTRAINT rollups_starts_at_not_null NOT NULL,
    kind text CONSTRAINT rollups_kind_not_null NOT NULL,
    name text CONSTRAINT rollups_name_not_null NOT NULL,
    sent bigint CONSTRAINT rollups_sent_not_null NOT NULL,
    done bigint CONSTRAINT rollups_done_not_null NOT NULL,
    retried bigint CONSTRAINT rollups_retried_not_null NOT NULL,
    failed bigint CONSTRAINT rollups_failed_not_null NOT NULL,
    dead bigint CONSTRAINT rollups_dead_not_null NOT NULL,
    retry_rate double precision,
    dead_rate double precision,
    per_second double precision CONSTRAINT rollups_per_second_not_null NOT NULL,
    p50_s double precision,
    p95_s double precision,
    p99_s double precision,
    max_s double precision,
    recorded_at timestamp with time zone CONSTRAINT rollups_recorded_at_not_null NOT NULL,
    CONSTRAINT rollups_kind_check CHECK ((kind = ANY (ARRAY['queue'::text, 'job'::text, 'stream'::text, 'delivery'::text]))),
    CONSTRAINT rollups_step_check CHECK ((step = ANY (ARRAY['hour'::text, 'day'::text])))
);

CREATE TABLE penstock.job_attempts (
    queue_id integer NOT NULL,
    job_id bigint NOT NULL,
    attempt integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    worker text NOT NULL,
    outcome text NOT NULL,
    error text,
    CONSTRAINT job_attempts_outcome_check CHECK ((outcome = ANY (ARRAY['completed'::text, 'failed'::text, 'lost'::text])))
)
PARTITION BY RANGE (ended_at);

CREATE TABLE penstock.job_block_state (
    settled bigint NOT NULL,
    number bigint NOT NULL,
    horizon xid8 NOT NULL,
    next_number bigint NOT NULL
);

CREATE TABLE penstock.job_blocks (
    queue_id integer NOT NULL,
    first_id bigint NOT NULL,
    last_id bigint NOT NULL,
    hashes integer[] NOT NULL
);
ALTER TABLE ONLY penstock.job_blocks ALTER COLUMN hashes SET STORAGE EXTERNAL;

CREATE TABLE penstock.job_changes (
    queue_id integer NOT NULL,
    pending integer DEFAULT 0 NOT NULL,
    processing integer DEFAULT 0 NOT NULL,
    completed integer DEFAULT 0 NOT NULL,
    cancelled integer DEFAULT 0 NOT NULL,
    dead integer DEFAULT 0 NOT NULL
)
WITH (autovacuum_vacuum_threshold='1000', autovacuum_vacuum_scale_factor='0');

CREATE TABLE penstock.job_counts (
    queue_id integer NOT NULL,
    pending bigint NOT NULL,
    processing bigint NOT NULL,
    completed bigint NOT NULL,
    cancelled bigint NOT NULL,
    dead bigint NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE penstock.job_edges (
    queue_id integer NOT NULL,
    job_id bigint NOT NULL,
    after_queue_id integer NOT NULL,
    after_id bigint NOT NULL,
    done boolean NOT NULL,
    created_at timestamp with time zone NOT NULL
);

CREATE TABLE penstock.job_keys (
    queue_id integer NOT NULL,
    key text NOT NULL,
    job_id bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

CREATE SEQUENCE penstock.job_numbers
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE penstock.job_queues (
    id integer NOT NULL,
    tenant_id bigint NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    concurrency integer,
    rate double precision,
    burst integer,
    starts_left double precision,
    filled_at timestamp with time zone
);

ALTER TABLE penstock.job_queues ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.job_queues_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE penstock.job_space (
    salt text NOT NULL,
    CONSTRAINT job_space_salt_check CHECK ((salt ~ '^[0-9a-f]{7}$'::text))
);

CREATE TABLE penstock.job_tags (
    tenant_id bigint NOT NULL,
    tag text NOT NULL,
    queue_id integer NOT NULL,
    job_id bigint NOT NULL,
    look_at timestamp with time zone NOT NULL
);

CREATE VIEW penstock.job_totals AS
 SELECT q.id AS queue_id,
    q.tenant_id,
    q.name AS queue,
    (COALESCE(c.pending, (0)::bigint) + COALESCE(d.pending, (0)::bigint)) AS pending,
    (COALESCE(c.processing, (0)::bigint) + COALESCE(d.processing, (0)::bigint)) AS processing,
    (COALESCE(c.completed, (0)::bigint) + COALESCE(d.completed, (0)::bigint)) AS completed,
    (COALESCE(c.cancelled, (0)::bigint) + COALESCE(d.cancelled, (0)::bigint)) AS cancelled,
    (COALESCE(c.dead, (0)::bigint) + COALESCE(d.dead, (0)::bigint)) AS dead
   FROM ((penstock.job_queues q
     LEFT JOIN penstock.job_counts c ON ((c.queue_id = q.id)))
     LEFT JOIN LATERAL ( SELECT sum(n.pending) AS pending,
            sum(n.processing) AS processing,
            sum(n.completed) AS completed,
            sum(n.cancelled) AS cancelled,
            sum(n.dead) AS dead
           FROM penstock.job_changes n
          WHERE (n.queue_id = q.id)) d ON (true));

CREATE TABLE penstock.job_traces (
    queue_id integer NOT NULL,
    job_id bigint NOT NULL,
    trace text NOT NULL,
    created_at timestamp with time zone NOT NULL
);

CREATE UNLOGGED TABLE penstock.job_waiting (
    tenant_id bigint NOT NULL,
    queue text NOT NULL,
    node text NOT NULL,
    until timestamp with time zone NOT NULL
);

CREATE TABLE penstock.migrations (
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE penstock.move_tasks (
    id bigint NOT NULL,
    tenant_id bigint NOT NULL,
    source_id bigint NOT NULL,
    destination_id bigint,
    has_destination boolean NOT NULL,
    rate integer,
    state text DEFAULT 'running'::text NOT NULL,
    moved bigint DEFAULT 0 NOT NULL,
    to_move bigint NOT NULL,
    failure text,
    started_at timestamp with time zone NOT NULL,
    stepped_at timestamp with time zone NOT NULL,
    destination text
);

ALTER TABLE penstock.move_tasks ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.move_tasks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE UNLOGGED TABLE penstock.nodes (
    name text NOT NULL,
    host text NOT NULL,
    process integer NOT NULL,
    version text NOT NULL,
    address text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL
);

CREATE TABLE penstock.outbox (
    id bigint NOT NULL,
    tenant_id bigint NOT NULL,
    channel text NOT NULL,
    address text NOT NULL,
    message_id text NOT NULL,
    topic text,
    subject text,
    body text NOT NULL,
    attributes text,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE penstock.outbox ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE penstock.outcomes (
    tenant_id bigint NOT NULL,
    kind text NOT NULL,
    step smallint NOT NULL,
    starts_at timestamp with time zone NOT NULL,
    good bigint NOT NULL,
    bad bigint NOT NULL,
    CONSTRAINT outcomes_kind_check CHECK ((kind = ANY (ARRAY['job'::text, 'delivery'::text, 'schedule'::text]))),
    CONSTRAINT outcomes_step_check CHECK ((step = ANY (ARRAY[1, 60])))
);

ALTER TABLE penstock.pending_publishes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.pending_publishes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE penstock.pipeline_runs (
    id bigint NOT NULL,
    tenant_id bigint NOT NULL,
    pipeline text NOT NULL,
    settings jsonb NOT NULL,
    state text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    rows bigint DEFAULT 0 NOT NULL,
    batches bigint DEFAULT 0 NOT NULL,
    lag_events bigint,
    lag_s double precision,
    note text,
    error text,
    progress jsonb,
    CONSTRAINT pipeline_runs_state_check CHECK ((state = ANY (ARRAY['running'::text, 'done'::text, 'failed'::text, 'stopped'::text])))
);

ALTER TABLE penstock.pipeline_runs ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.pipeline_runs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE penstock.private_queues (
    id bigint NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    recipient_id bytea NOT NULL,
    sender_id bytea NOT NULL,
    notifier_id bytea,
    link_id bytea,
    recipient_keys bytea[] NOT NULL,
    sender_key bytea,
    notifier_key bytea,
    status text DEFAULT 'active'::text NOT NULL,
    block_reason text,
    fixed_data bytea,
    mutable_data bytea,
    webhook_key text,
    service_id bigint,
    created_at timestamp with time zone NOT NULL,
    touched_at timestamp with time zone NOT NULL,
    deleted_at timestamp with time zone,
    CONSTRAINT private_queues_link_id_check CHECK ((octet_length(link_id) = 24)),
    CONSTRAINT private_queues_notifier_id_check CHECK ((octet_length(notifier_id) = 24)),
    CONSTRAINT private_queues_notifier_key_check CHECK ((octet_length(notifier_key) = 32)),
    CONSTRAINT private_queues_recipient_id_check CHECK ((octet_length(recipient_id) = 24)),
    CONSTRAINT private_queues_recipient_keys_check CHECK (((cardinality(recipient_keys) >= 1) AND (cardinality(recipient_keys) <= 8))),
    CONSTRAINT private_queues_sender_id_check CHECK ((octet_length(sender_id) = 24)),
    CONSTRAINT private_queues_sender_key_check CHECK ((octet_length(sender_key) = 32)),
    CONSTRAINT private_queues_status_check CHECK ((status = ANY (ARRAY['active'::text, 'suspended'::text, 'blocked'::text])))
);

ALTER TABLE penstock.private_queues ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.private_queues_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW penstock.private_records AS
 SELECT id,
    version,
    recipient_id,
    sender_id,
    notifier_id,
    link_id,
    recipient_keys,
    sender_key,
    notifier_key,
    status,
    block_reason,
    webhook_key,
    service_id,
    created_at,
    touched_at
   FROM penstock.private_queues
  WHERE (deleted_at IS NULL);

CREATE TABLE penstock.private_services (
    id bigint NOT NULL,
    fingerprint bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT private_services_fingerprint_check CHECK ((octet_length(fingerprint) = 32))
);

ALTER TABLE penstock.private_services ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.private_services_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE SEQUENCE penstock.publication_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE VIEW penstock.queue_list AS
 SELECT q.id,
    q.tenant_id,
    q.name,
    q.bin_id,
    q.fifo,
    q.visibility_timeout_s,
    q.delay_s,
    q.retention_s,
    q.receive_wait_s,
    q.max_message_bytes,
    q.max_length,
    q.max_receives,
    q.dead_letter_queue_id,
    q.lifo,
    q.archive,
    q.content_dedup,
    q.dedup_window_s,
    q.dedup_scope,
    q.throughput_limit,
    q.tags,
    q.labels,
    q.created_at,
    q.updated_at,
    q.implicit,
    d.name AS dead_letter_queue,
    COALESCE(q.visibility_timeout_s, penstock.default_visibility_timeout_s()) AS applied_visibility_timeout_s
   FROM (penstock.queues q
     LEFT JOIN penstock.queues d ON ((d.id = q.dead_letter_queue_id)));

CREATE TABLE penstock.queue_sequences (
    queue_id bigint NOT NULL,
    last bigint NOT NULL
);

ALTER TABLE penstock.queues ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.queues_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE UNLOGGED TABLE penstock.rate_buckets (
    name text NOT NULL,
    tokens double precision NOT NULL,
    filled_at timestamp with time zone NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE penstock.records (
    tenant_id bigint NOT NULL,
    kind text NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    handle text,
    attributes jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL
);

CREATE TABLE penstock.route_removals (
    tenant_id bigint NOT NULL,
    version bigint NOT NULL,
    topic_id bigint,
    subscription_id bigint,
    removed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE penstock.samples (
    tenant_id bigint NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    step smallint NOT NULL,
    starts_at timestamp with time zone NOT NULL,
    arrived bigint,
    departed bigint,
    waiting bigint NOT NULL,
    oldest_s double precision,
    CONSTRAINT samples_kind_check CHECK ((kind = ANY (ARRAY['queue'::text, 'job'::text, 'consumer'::text]))),
    CONSTRAINT samples_step_check CHECK ((step = ANY (ARRAY[1, 60])))
);

CREATE TABLE penstock.schedule_fires (
    id bigint NOT NULL,
    schedule_id bigint NOT NULL,
    scheduled_for timestamp with time zone NOT NULL,
    times integer NOT NULL,
    fired_at timestamp with time zone NOT NULL,
    by_hand boolean NOT NULL,
    sent_id text,
    error text
);

ALTER TABLE penstock.schedule_fires ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.schedule_fires_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE penstock.schedules ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.schedules_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE penstock.shared_secrets (
    name text NOT NULL,
    secret text NOT NULL
);

CREATE TABLE penstock.spark_ledger (
    query text NOT NULL,
    batch bigint NOT NULL,
    written_at timestamp with time zone NOT NULL,
    once boolean DEFAULT false NOT NULL,
    tenant_id bigint DEFAULT 0 NOT NULL,
    target text DEFAULT ''::text NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    duplicates bigint DEFAULT 0 NOT NULL
);

CREATE TABLE penstock.spark_pieces (
    read_id text NOT NULL,
    piece integer NOT NULL,
    noted_at timestamp with time zone DEFAULT now() NOT NULL,
    batch text
);

CREATE TABLE penstock.spark_rejects (
    id bigint NOT NULL,
    tenant_id bigint NOT NULL,
    query text NOT NULL,
    batch bigint NOT NULL,
    target text NOT NULL,
    name text,
    reason text NOT NULL,
    "row" jsonb NOT NULL,
    rejected_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE penstock.spark_rejects ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.spark_rejects_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE UNLOGGED TABLE penstock.spark_staging (
    attempt bigint NOT NULL,
    "position" bigint NOT NULL,
    staged_at timestamp with time zone DEFAULT now() NOT NULL,
    name text,
    type text,
    key text,
    value text,
    headers text,
    deliver_at timestamp with time zone,
    priority integer,
    dedup_id text,
    problem text
);

ALTER TABLE penstock.subscriptions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.subscriptions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE penstock.tenants (
    id bigint NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE penstock.tenants ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME penstock.tenants_id_seq
    START WITH 2
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE penstock.tokens (
    id bigint NOT NULL,
    tenant_id bigint NOT NULL,
    name text NOT NULL,
    prefix text NOT NULL,
    sha256 bytea NOT NULL,
    scopes text[] NOT NULL,
    queues text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    last_seen_at timestamp with time zone,
    aws_secret text
);

ALTER TABLE penstock.tokens ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.tokens_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE penstock.topic_dedup (
    topic_id bigint NOT NULL,
    dedup_id text NOT NULL,
    scope text NOT NULL,
    message_id text NOT NULL,
    sequence bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

CREATE TABLE penstock.topic_versions (
    tenant_id bigint NOT NULL,
    version bigint NOT NULL,
    forgotten bigint DEFAULT 0 NOT NULL
);

ALTER TABLE penstock.topics ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.topics_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE UNLOGGED TABLE penstock.waiting (
    queue_id bigint NOT NULL,
    node text NOT NULL,
    until timestamp with time zone NOT NULL
);

CREATE SEQUENCE penstock.waiting_until
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER TABLE ONLY penstock.abandoned_bins
    ADD CONSTRAINT abandoned_bins_pkey PRIMARY KEY (bin_id);

ALTER TABLE ONLY penstock.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.bin_counts
    ADD CONSTRAINT bin_counts_pkey PRIMARY KEY (bin_id);

ALTER TABLE ONLY penstock.dedup
    ADD CONSTRAINT dedup_pkey PRIMARY KEY (bin_id, dedup_id, group_id);

ALTER TABLE ONLY penstock.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.finished_jobs
    ADD CONSTRAINT finished_jobs_pkey PRIMARY KEY (queue_id, id, finished_at);

ALTER TABLE ONLY penstock.insight_errors
    ADD CONSTRAINT insight_errors_pkey PRIMARY KEY (tenant_id, starts_at, kind, name, shape);

ALTER TABLE ONLY penstock.insights
    ADD CONSTRAINT insights_pkey PRIMARY KEY (tenant_id, step, starts_at, kind, name);

ALTER TABLE ONLY penstock.job_attempts
    ADD CONSTRAINT job_attempts_pkey PRIMARY KEY (queue_id, job_id, attempt, ended_at);

ALTER TABLE ONLY penstock.job_blocks
    ADD CONSTRAINT job_blocks_pkey PRIMARY KEY (queue_id, first_id);

ALTER TABLE ONLY penstock.job_counts
    ADD CONSTRAINT job_counts_pkey PRIMARY KEY (queue_id);

ALTER TABLE ONLY penstock.job_edges
    ADD CONSTRAINT job_edges_pkey PRIMARY KEY (queue_id, job_id, after_queue_id, after_id);

ALTER TABLE ONLY penstock.job_keys
    ADD CONSTRAINT job_keys_pkey PRIMARY KEY (queue_id, key);

ALTER TABLE ONLY penstock.job_queues
    ADD CONSTRAINT job_queues_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.job_queues
    ADD CONSTRAINT job_queues_tenant_id_name_key UNIQUE (tenant_id, name);

ALTER TABLE ONLY penstock.job_tags
    ADD CONSTRAINT job_tags_pkey PRIMARY KEY (queue_id, job_id, tag);

ALTER TABLE ONLY penstock.job_traces
    ADD CONSTRAINT job_traces_pkey PRIMARY KEY (queue_id, job_id);

ALTER TABLE ONLY penstock.job_waiting
    ADD CONSTRAINT job_waiting_pkey PRIMARY KEY (tenant_id, queue, node);

ALTER TABLE ONLY penstock.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (queue_id, id);

ALTER TABLE ONLY penstock.messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (bin_id, id);

ALTER TABLE ONLY penstock.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (name);

ALTER TABLE ONLY penstock.move_tasks
    ADD CONSTRAINT move_tasks_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (name);

ALTER TABLE ONLY penstock.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.outcomes
    ADD CONSTRAINT outcomes_pkey PRIMARY KEY (tenant_id, kind, step, starts_at);

ALTER TABLE ONLY penstock.pending_publishes
    ADD CONSTRAINT pending_publishes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.pipeline_runs
    ADD CONSTRAINT pipeline_runs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.private_queues
    ADD CONSTRAINT private_queues_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.private_services
    ADD CONSTRAINT private_services_fingerprint_key UNIQUE (fingerprint);

ALTER TABLE ONLY penstock.private_services
    ADD CONSTRAINT private_services_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.queue_sequences
    ADD CONSTRAINT queue_sequences_pkey PRIMARY KEY (queue_id);

ALTER TABLE ONLY penstock.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.queues
    ADD CONSTRAINT queues_tenant_id_name_key UNIQUE (tenant_id, name);

ALTER TABLE ONLY penstock.rate_buckets
    ADD CONSTRAINT rate_buckets_pkey PRIMARY KEY (name);

ALTER TABLE ONLY penstock.records
    ADD CONSTRAINT records_pkey PRIMARY KEY (tenant_id, kind, name);

ALTER TABLE ONLY penstock.samples
    ADD CONSTRAINT samples_pkey PRIMARY KEY (tenant_id, kind, name, step, starts_at);

ALTER TABLE ONLY penstock.schedule_fires
    ADD CONSTRAINT schedule_fires_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.schedules
    ADD CONSTRAINT schedules_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.schedules
    ADD CONSTRAINT schedules_tenant_id_name_key UNIQUE (tenant_id, name);

ALTER TABLE ONLY penstock.shared_secrets
    ADD CONSTRAINT shared_secrets_pkey PRIMARY KEY (name);

ALTER TABLE ONLY penstock.spark_ledger
    ADD CONSTRAINT spark_ledger_pkey PRIMARY KEY (query, tenant_id, target, name);

ALTER TABLE ONLY penstock.spark_pieces
    ADD CONSTRAINT spark_pieces_pkey PRIMARY KEY (read_id, piece);

ALTER TABLE ONLY penstock.spark_rejects
    ADD CONSTRAINT spark_rejects_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.subscriptions
    ADD CONSTRAINT subscriptions_key_key UNIQUE (key);

ALTER TABLE ONLY penstock.subscriptions
    ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.tenants
    ADD CONSTRAINT tenants_name_key UNIQUE (name);

ALTER TABLE ONLY penstock.tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.topic_dedup
    ADD CONSTRAINT topic_dedup_pkey PRIMARY KEY (topic_id, dedup_id, scope);

ALTER TABLE ONLY penstock.topic_versions
    ADD CONSTRAINT topic_versions_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY penstock.topics
    ADD CONSTRAINT topics_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.topics
    ADD CONSTRAINT topics_tenant_id_name_key UNIQUE (tenant_id, name);

ALTER TABLE ONLY penstock.waiting
    ADD CONSTRAINT waiting_pkey PRIMARY KEY (queue_id, node);

CREATE INDEX archive_id ON penstock.archive USING btree (tenant_id, id);

CREATE INDEX archive_moments ON penstock.archive USING brin (archived_at) WITH (autosummarize='on');

CREATE INDEX archive_time ON penstock.archive USING btree (tenant_id, queue, archived_at);

CREATE INDEX archive_trace ON penstock.archive USING btree (tenant_id, trace COLLATE "C") WHERE (trace IS NOT NULL);

CREATE INDEX archive_txid ON penstock.archive USING btree (tenant_id, txid);

CREATE INDEX audit_tenant ON penstock.audit USING btree (tenant_id, id);

CREATE INDEX bin_changes_bin ON penstock.bin_changes USING btree (bin_id);

CREATE INDEX dedup_expiry ON penstock.dedup USING btree (expires_at);

CREATE INDEX deliveries_created ON penstock.deliveries USING brin (created_at) WITH (autosummarize='on');

CREATE INDEX deliveries_delivered ON penstock.deliveries USING btree (finished_at) WHERE (state = 2);

CREATE INDEX deliveries_due ON penstock.deliveries USING btree (lane, due_at) WHERE (state < 2);

CREATE INDEX deliveries_exhausted ON penstock.deliveries USING btree (finished_at) WHERE (state = 3);

CREATE INDEX deliveries_list ON penstock.deliveries USING btree (tenant_id, id);

CREATE INDEX deliveries_message ON penstock.deliveries USING btree (tenant_id, message_id);

CREATE INDEX deliveries_states ON penstock.deliveries USING btree (tenant_id, state, id);

CREATE INDEX deliveries_subscription ON penstock.deliveries USING btree (tenant_id, subscription_id, id);

CREATE INDEX finished_jobs_cancelled ON ONLY penstock.finished_jobs USING btree (queue_id, id) WHERE (state = 5);

CREATE INDEX insight_errors_age ON penstock.insight_errors USING btree (starts_at);

CREATE INDEX insights_age ON penstock.insights USING btree (step, starts_at);

CREATE INDEX job_changes_queue ON penstock.job_changes USING btree (queue_id);

CREATE INDEX job_edges_age ON penstock.job_edges USING btree (created_at);

CREATE INDEX job_edges_waiting ON penstock.job_edges USING btree (after_queue_id, after_id) WHERE (NOT done);

CREATE INDEX job_keys_expiry ON penstock.job_keys USING btree (expires_at);

CREATE INDEX job_tags_age ON penstock.job_tags USING btree (look_at);

CREATE INDEX job_tags_tag ON penstock.job_tags USING btree (tenant_id, tag, job_id);

CREATE INDEX job_traces_age ON penstock.job_traces USING btree (created_at);

CREATE INDEX jobs_dead ON penstock.jobs USING btree (queue_id, id) WHERE (state = 3);

CREATE INDEX jobs_dead_age ON penstock.jobs USING btree (finished_at) WHERE (state = 3);

CREATE INDEX jobs_delayed ON penstock.jobs USING btree (queue_id, due_at) WHERE (state = 2);

CREATE INDEX jobs_leased ON penstock.jobs USING btree (queue_id, due_at) WHERE (state = 1);

CREATE INDEX jobs_ready ON penstock.jobs USING btree (queue_id, place) WHERE (state = 0);

CREATE INDEX messages_blocked ON penstock.messages USING btree (bin_id, group_id, id) WHERE (state = 3);

CREATE INDEX messages_blocked_delayed ON penstock.messages USING btree (bin_id, visible_at) WHERE ((state = 3) AND (visible_at > sent_at));

CREATE INDEX messages_expiry ON penstock.messages USING brin (expires_at) WITH (autosummarize='on');

CREATE INDEX messages_hidden ON penstock.messages USING btree (bin_id, visible_at) WHERE (state = ANY (ARRAY[1, 2]));

CREATE INDEX messages_placed ON penstock.messages USING btree (bin_id, group_id) WHERE ((group_id IS NOT NULL) AND (state <> 3));

CREATE INDEX messages_ready ON penstock.messages USING btree (bin_id, place) WHERE (state = 0);

CREATE INDEX messages_trace ON penstock.messages USING btree (trace COLLATE "C") WHERE (trace IS NOT NULL);

CREATE UNIQUE INDEX move_tasks_running ON penstock.move_tasks USING btree (source_id) WHERE (state = 'running'::text);

CREATE INDEX move_tasks_source ON penstock.move_tasks USING btree (source_id, id DESC);

CREATE INDEX outbox_age ON penstock.outbox USING btree (created_at);

CREATE INDEX outbox_list ON penstock.outbox USING btree (tenant_id, id);

CREATE INDEX outcomes_age ON penstock.outcomes USING btree (step, starts_at);

CREATE INDEX pipeline_runs_latest ON penstock.pipeline_runs USING btree (tenant_id, pipeline, id);

CREATE INDEX pipeline_runs_tenant ON penstock.pipeline_runs USING btree (tenant_id, id);

CREATE INDEX private_queues_deleted ON penstock.private_queues USING btree (deleted_at) WHERE (deleted_at IS NOT NULL);

CREATE UNIQUE INDEX private_queues_link ON penstock.private_queues USING btree (link_id) WHERE (link_id IS NOT NULL);

CREATE UNIQUE INDEX private_queues_notifier ON penstock.private_queues USING btree (notifier_id) WHERE (notifier_id IS NOT NULL);

CREATE UNIQUE INDEX private_queues_recipient ON penstock.private_queues USING btree (recipient_id);

CREATE UNIQUE INDEX private_queues_sender ON penstock.private_queues USING btree (sender_id);

CREATE INDEX private_queues_service ON penstock.private_queues USING btree (service_id) WHERE ((service_id IS NOT NULL) AND (deleted_at IS NULL));

CREATE INDEX queues_dead_letters ON penstock.queues USING btree (dead_letter_queue_id);

CREATE UNIQUE INDEX records_handle ON penstock.records USING btree (tenant_id, kind, handle) WHERE (handle IS NOT NULL);

CREATE INDEX route_removals_version ON penstock.route_removals USING btree (tenant_id, version);

CREATE INDEX samples_age ON penstock.samples USING btree (step, starts_at);

CREATE INDEX schedule_fires_age ON penstock.schedule_fires USING btree (fired_at);

CREATE INDEX schedule_fires_schedule ON penstock.schedule_fires USING btree (schedule_id, id);

CREATE INDEX schedules_due ON penstock.schedules USING btree (due_at, id) WHERE (status = 'active'::text);

CREATE INDEX schedules_paused ON penstock.schedules USING btree (id) WHERE (status = 'paused'::text);

CREATE INDEX spark_staging_attempt ON penstock.spark_staging USING btree (attempt, "position");

CREATE INDEX subscriptions_list ON penstock.subscriptions USING btree (tenant_id, id);

CREATE INDEX subscriptions_of_topic ON penstock.subscriptions USING btree (topic_id, id) WHERE (topic_id IS NOT NULL);

CREATE UNIQUE INDEX subscriptions_pattern ON penstock.subscriptions USING btree (tenant_id, pattern, protocol, endpoint) WHERE (pattern IS NOT NULL);

CREATE INDEX subscriptions_segment ON penstock.subscriptions USING btree (tenant_id, first_segment) WHERE (pattern IS NOT NULL);

CREATE INDEX subscriptions_target ON penstock.subscriptions USING btree (tenant_id, target, id) WHERE (target IS NOT NULL);

CREATE INDEX subscriptions_token ON penstock.subscriptions USING btree (token_sha256) WHERE (token_sha256 IS NOT NULL);

CREATE UNIQUE INDEX subscriptions_topic ON penstock.subscriptions USING btree (topic_id, protocol, endpoint) WHERE (topic_id IS NOT NULL);

CREATE INDEX subscriptions_version ON penstock.subscriptions USING btree (tenant_id, version);

CREATE INDEX tokens_prefix ON penstock.tokens USING btree (prefix);

CREATE INDEX topic_dedup_expiry ON penstock.topic_dedup USING btree (expires_at);

CREATE INDEX topics_version ON penstock.topics USING btree (tenant_id, version);

CREATE TRIGGER audit_is_kept BEFORE DELETE OR UPDATE OR TRUNCATE ON penstock.audit FOR EACH STATEMENT EXECUTE FUNCTION penstock.refuse_change();

ALTER TABLE ONLY penstock.audit
    ADD CONSTRAINT audit_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES penstock.tenants(id);

ALTER TABLE ONLY penstock.job_queues
    ADD CONSTRAINT job_queues_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES penstock.tenants(id);

ALTER TABLE ONLY penstock.move_tasks
    ADD CONSTRAINT move_tasks_destination_id_fkey FOREIGN KEY (destination_id) REFERENCES penstock.queues(id) ON DELETE SET NULL;

ALTER TABLE ONLY penstock.move_tasks
    ADD CONSTRAINT move_tasks_source_id_fkey FOREIGN KEY (source_id) REFERENCES penstock.queues(id) ON DELETE CASCADE;

ALTER TABLE ONLY penstock.outbox
    ADD CONSTRAINT outbox_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES penstock.tenants(id);

ALTER TABLE ONLY penstock.pipeline_runs
    ADD CONSTRAINT pipeline_runs_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES penstock.tenants(id);

ALTER TABLE ONLY penstock.private_queues
    ADD CONSTRAINT private_queues_service_id_fkey FOREIGN KEY (service_id) REFERENCES penstock.private_services(id);

ALTER TABLE ONLY penstock.queue_sequences
    ADD CONSTRAINT queue_sequences_queue_id_fkey FOREIGN KEY (queue_id) REFERENCES penstock.queues(id) ON DELETE CASCADE;

ALTER TABLE ONLY penstock.queues
    ADD CONSTRAINT queues_dead_letter_queue_id_fkey FOREIGN KEY (dead_letter_queue_id) REFERENCES penstock.queues(id) ON DELETE SET NULL;

ALTER TABLE ONLY penstock.queues
    ADD CONSTRAINT queues_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES penstock.tenants(id);

ALTER TABLE ONLY penstock.records
    ADD CONSTRAINT records_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES penstock.tenants(id);

ALTER TABLE ONLY penstock.insight_errors
    ADD CONSTRAINT rollup_errors_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES penstock.tenants(id);

ALTER TABLE ONLY penstock.insights
    ADD CONSTRAINT rollups_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES penstock.tenants(id);

ALTER TABLE ONLY penstock.schedules
    ADD CONSTRAINT schedules_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES penstock.tenants(id);

ALTER TABLE ONLY penstock.subscriptions
    ADD CONSTRAINT subscriptions_target_tenant_id_fkey FOREIGN KEY (target_tenant_id) REFERENCES penstock.tenants(id);

ALTER TABLE ONLY penstock.subscriptions
    ADD CONSTRAINT subscriptions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES penstock.tenants(id);

ALTER TABLE ONLY penstock.subscriptions
    ADD CONSTRAINT subscriptions_topic_id_fkey FOREIGN KEY (topic_id) REFERENCES penstock.topics(id);

ALTER TABLE ONLY penstock.tokens
    ADD CONSTRAINT tokens_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES penstock.tenants(id);

ALTER TABLE ONLY penstock.topic_versions
    ADD CONSTRAINT topic_versions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES penstock.tenants(id);

ALTER TABLE ONLY penstock.topics
    ADD CONSTRAINT topics_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES penstock.tenants(id);

GRANT USAGE ON SCHEMA penstock TO penstock_reader;
GRANT USAGE ON SCHEMA penstock TO penstock_writer;
GRANT USAGE ON SCHEMA penstock TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.add_counts(p_bin bigint, p_arrived bigint, p_departed bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.admit_publishes(p_publishes penstock.new_publish[], OUT statuses text[], OUT skip boolean[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.admit_sends(p_entries penstock.send_entry[], p_now timestamp with time zone, OUT ids bigint[], OUT codes text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.allow_jobs(p_queue integer, p_wanted integer, p_now timestamp with time zone, OUT allowed integer, OUT next_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.alter_queue(queue text, settings jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.alter_queue(queue text, settings jsonb) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.announce(p_queue_ids bigint[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.announce_jobs(p_queues integer[], p_now timestamp with time zone, p_to_all boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.announce_limited(p_queues integer[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.answer_without_lease(p_tenant bigint, p_queue integer, p_number bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.any_head(p_bin bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.finish_batch(p_queue text, p_ids bigint[], p_leases bigint[], p_archive boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.finish_batch(p_queue text, p_ids bigint[], p_leases bigint[], p_archive boolean) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.finish_batch(p_queue text, p_ids bigint[], p_leases bigint[], p_archive boolean) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.archive(queue text, id bigint, lease bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.archive(queue text, id bigint, lease bigint) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.archive(queue text, id bigint, lease bigint) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.archive_batch(queue text, ids bigint[], leases bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.archive_batch(queue text, ids bigint[], leases bigint[]) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.archive_batch(queue text, ids bigint[], leases bigint[]) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.archive_these(p_tenant bigint, p_queue text, p_bin bigint, p_ids bigint[], p_leases bigint[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.beat_jobs(p_tenants bigint[], p_queues integer[], p_numbers bigint[], p_tokens uuid[], p_seconds integer[], p_progress integer[], p_notes text[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.bin_total(p_bin bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.cancel_job(p_tenant bigint, p_queue integer, p_number bigint, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.cancel_move_task(p_tenant bigint, p_task bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.cancel_waiting(p_queues integer[], p_numbers bigint[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.change_schedule_status(p_name text, p_status text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.change_visibility(queue text, id bigint, visibility_timeout_s integer, lease bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.change_visibility(queue text, id bigint, visibility_timeout_s integer, lease bigint) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.change_visibility(queue text, id bigint, visibility_timeout_s integer, lease bigint) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.change_visibility_many(p_tenants bigint[], p_queues text[], p_ids bigint[], p_leases bigint[], p_seconds integer[], p_now timestamp with time zone, OUT answers text[], OUT visible_at timestamp with time zone[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_attributes(p_attributes jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_backoff(p_backoff jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_fit(p_queue penstock.queues) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_isolation() FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_jobs(p_payloads text[], p_priorities integer[], p_keys text[], p_run_ats timestamp with time zone[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_json(p_field text, p_texts text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_messages(p_bodies text[], p_delays integer[], p_priorities integer[], p_groups text[], p_dedups text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_moments(p_field text, p_moments timestamp with time zone[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_range(p_field text, p_value bigint, p_low bigint, p_high bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_schedule_target(p_schedule penstock.schedules) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_settings(p_queue penstock.queues) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_staged_json(p_places tid[], p_field text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_tags(p_tags text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_that(p_field text, p_holds boolean, p_rule text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.claim(p_queue penstock.queues, p_limit integer, p_shuffle boolean, p_start bigint, p_since timestamp with time zone, p_floor bigint, p_floor_since timestamp with time zone, p_max integer, p_target penstock.queues, p_by_request boolean, p_until timestamp with time zone, p_now timestamp with time zone, p_bytes bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.claim_deliveries(p_limit integer, p_each integer, p_busy_lanes bigint[], p_busy_counts integer[], p_after bigint, p_lease interval, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.claim_fifo(p_bin bigint, p_ids bigint[], p_until timestamp with time zone, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.claim_for_run(p_claimant text, p_names text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.claim_job_keys(p_queues integer[], p_keys text[], p_windows integer[], p_now timestamp with time zone, OUT numbers bigint[], OUT existing boolean[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.claim_jobs(p_queue integer, p_workers text[], p_start bigint, p_until timestamp with time zone, p_now timestamp with time zone, p_bytes bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.claim_key(p_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.claim_next(p_bin bigint, p_limit integer, p_start bigint, p_until timestamp with time zone, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.claim_next_within(p_bin bigint, p_limit integer, p_start bigint, p_until timestamp with time zone, p_now timestamp with time zone, p_bytes bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.claim_these(p_bin bigint, p_ids bigint[], p_until timestamp with time zone, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.collect_staged(p_before timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.compared_names(p_tenant bigint, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.complete_jobs(p_tenants bigint[], p_queues integer[], p_numbers bigint[], p_tokens uuid[], p_results text[], p_now timestamp with time zone, OUT answers text[], OUT tenants bigint[], OUT queues text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.complete_leased(p_tenants bigint[], p_queues integer[], p_numbers bigint[], p_tokens uuid[], p_results text[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.complete_missed(p_tenant bigint, p_queue integer, p_number bigint, p_token uuid, p_result text, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.confirm_subscription_row(p_tenant bigint, p_token text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.count_jobs(p_tenant bigint, p_queue text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.count_queues(p_tenant bigint, p_names text[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.create_implicit_queue_row(p_tenant bigint, p_name text, p_settings jsonb, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.create_queue(queue text, settings jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.create_queue(queue text, settings jsonb) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.create_queue_row(p_tenant bigint, p_name text, p_settings jsonb, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.create_schedule(schedule text, settings jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.create_schedule(schedule text, settings jsonb) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.create_topic(topic text) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.create_topic(topic text) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.create_topic_row(p_tenant bigint, p_name text, p_attributes jsonb, p_tags jsonb, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.cron_number(p_text text, p_place integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.cron_values(p_text text, p_place integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.current_tenant() FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.default_visibility_timeout_s() FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.delete_one(p_queue text, p_id bigint, p_lease bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.delete_one(p_queue text, p_id bigint, p_lease bigint) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.delete_one(p_queue text, p_id bigint, p_lease bigint) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.delete(queue text, id bigint, lease bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.delete(queue text, id bigint, lease bigint) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.delete(queue text, id bigint, lease bigint) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.delete_batch(queue text, ids bigint[], leases bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.delete_batch(queue text, ids bigint[], leases bigint[]) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.delete_batch(queue text, ids bigint[], leases bigint[]) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.delivery_facts(p_since timestamp with time zone, p_until timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.depth_trends(p_tenant bigint, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.describe_sends(p_positions integer[], p_tenants bigint[], p_queues text[], p_bodies text[], p_delays integer[], p_priorities integer[], p_groups text[], p_dedups text[], p_dedup_windows integer[], p_retentions integer[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.drop_job_blocks() FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.drop_job_days(p_before timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.drop_queue(queue text) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.drop_queue(queue text) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.drop_queue_row(p_tenant bigint, p_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.drop_schedule(schedule text) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.drop_schedule(schedule text) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.drop_topic(topic text) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.drop_topic(topic text) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.drop_topic_row(p_tenant bigint, p_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.end_job(p_queue integer, p_number bigint, p_error text, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.place_of(p_priority integer, p_id bigint, p_lifo boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.end_place(p_queue penstock.queues) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.enqueue_job(queue text, payload jsonb, priority integer, max_retries integer, run_at timestamp with time zone, unique_key text, unique_s integer, backoff jsonb, after uuid[], tags text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.enqueue_job(queue text, payload jsonb, priority integer, max_retries integer, run_at timestamp with time zone, unique_key text, unique_s integer, backoff jsonb, after uuid[], tags text[]) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.enqueue_job(queue text, payload jsonb, priority integer, max_retries integer, run_at timestamp with time zone, unique_key text, unique_s integer, backoff jsonb, after uuid[], tags text[]) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.enqueue_jobs(p_tenants bigint[], p_queues integer[], p_payloads text[], p_priorities integer[], p_retries integer[], p_run_ats timestamp with time zone[], p_backoffs text[], p_keys text[], p_windows integer[], p_now timestamp with time zone, OUT numbers bigint[], OUT existing boolean[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.enqueue_jobs_after(p_tenants bigint[], p_queues integer[], p_payloads text[], p_priorities integer[], p_retries integer[], p_run_ats timestamp with time zone[], p_backoffs text[], p_keys text[], p_windows integer[], p_now timestamp with time zone, p_traces text[], p_positions integer[], p_after_queues integer[], p_after_numbers bigint[], p_after_positions integer[], OUT numbers bigint[], OUT existing boolean[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.enqueue_tagged_jobs(p_tenants bigint[], p_queues integer[], p_payloads text[], p_priorities integer[], p_retries integer[], p_run_ats timestamp with time zone[], p_backoffs text[], p_keys text[], p_windows integer[], p_now timestamp with time zone, p_traces text[], p_positions integer[], p_after_queues integer[], p_after_numbers bigint[], p_after_positions integer[], p_tags text[], OUT numbers bigint[], OUT existing boolean[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.enqueue_traced_jobs(p_tenants bigint[], p_queues integer[], p_payloads text[], p_priorities integer[], p_retries integer[], p_run_ats timestamp with time zone[], p_backoffs text[], p_keys text[], p_windows integer[], p_now timestamp with time zone, p_traces text[], OUT numbers bigint[], OUT existing boolean[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.entries_walked() FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.expect_messages(queue text, expect_s integer) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.expect_messages(queue text, expect_s integer) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.expect_messages(queue text, expect_s integer) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.facts(p_since timestamp with time zone, p_until timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.fail_jobs(p_tenants bigint[], p_queues integer[], p_numbers bigint[], p_tokens uuid[], p_errors text[], p_retries boolean[], p_waits double precision[], p_spreads double precision[], p_counts boolean[], p_now timestamp with time zone, OUT answers text[], OUT run_ats timestamp with time zone[], OUT queues text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.fail_schedule(p_id bigint, p_error text, p_longest_retry_s integer, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.find_dead_letters(p_queue penstock.queues, p_max integer, p_dead_letters text, OUT max_receives integer, OUT target penstock.queues, OUT missing boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.find_duplicate(p_bin bigint, p_dedup text, p_group text, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.find_jobs(p_tenant bigint, p_queue text, p_states integer[], p_value text, p_before bigint, p_limit integer, p_ms integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.find_queue(p_tenant bigint, p_queue text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.find_tagged_jobs(p_tenant bigint, p_queue text, p_states integer[], p_value text, p_before bigint, p_limit integer, p_ms integer, p_tag text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.find_topic(p_tenant bigint, p_topic text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.finding_points(p_tenant bigint, p_now timestamp with time zone, p_question text, p_kind text, p_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.findings(p_tenant bigint, p_now timestamp with time zone, p_tenants boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.finish_carefully(p_queue penstock.queues, p_id bigint, p_lease bigint, p_archive boolean, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.finish_deliveries(p_ids bigint[], p_leases bigint[], p_delivered boolean[], p_retry_at timestamp with time zone[], p_statuses integer[], p_errors text[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.finish_in_queues(p_tenants bigint[], p_queues text[], p_ids bigint[], p_leases bigint[], p_archive boolean, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.finish_many(p_tenants bigint[], p_queues text[], p_ids bigint[], p_leases bigint[], p_archive boolean, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.finish_missed(p_positions integer[], p_answers text[], p_tenants bigint[], p_queues text[], p_ids bigint[], p_leases bigint[], p_archive boolean, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.finish_others(p_tenant bigint, p_queue text, p_ids bigint[], p_leases bigint[], p_done bigint[], p_archive boolean, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.fire_jobs(p_schedule penstock.schedules, p_marks text[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.fire_queue(p_schedule penstock.schedules, p_times text[], p_headers text[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.fire_schedules(p_ids bigint[], p_expected timestamp with time zone[], p_next timestamp with time zone[], p_due timestamp with time zone[], p_last timestamp with time zone[], p_errors text[], p_owners integer[], p_times text[], p_marks text[], p_longest_retry_s integer, p_now timestamp with time zone, p_revisions bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.fire_stream(p_schedule penstock.schedules, p_headers text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.fire_target(p_schedule penstock.schedules, p_times text[], p_marks text[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.fire_topic(p_schedule penstock.schedules, p_times text[], p_headers text[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.first_in_flight(p_bin bigint, p_group text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.first_within(p_bin bigint, p_ids bigint[], p_bytes bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.fold_counts() FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.fold_job_counts() FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.follow_events(p_queues text[], p_id bigint, p_beginnings text[], p_recent integer, p_limit integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.forget_job_tags(p_before timestamp with time zone, p_limit integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.forget_job_traces(p_before timestamp with time zone, p_limit integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.forget_jobs(p_before timestamp with time zone, p_limit integer, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.group_key(p_bin bigint, p_group text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.has_large_number(p_text text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.next_lease(p_lease bigint, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.hint_since(p_hint bigint[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.hint_start(p_hint bigint[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.hold_jobs(p_tenants bigint[], p_queues integer[], p_numbers bigint[], p_after_queues integer[], p_afters bigint[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.insert_published_events(p_skip boolean[], p_bodies text[], p_events penstock.published_event[], p_traces text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.job_backoff(p_backoff json, p_retries integer, p_spread double precision) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.job_facts(p_since timestamp with time zone, p_until timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.job_name(p_id uuid, OUT queue_id integer, OUT number bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.job_payloads(p_queue integer, p_after bigint, p_last bigint, p_limit integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.job_piece(p_queue integer, p_after bigint, p_last bigint, p_count integer, p_dead boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.job_place(p_priority integer, p_number bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.job_ranges(p_tenant bigint, p_queue text, p_value text, p_before bigint, p_dead boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.job_state(p_tenant bigint, p_queue integer, p_number bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.job_uuid(p_queue integer, p_number bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.job_waits() FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.json_depth(p_text text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.json_values(p_document json) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.lease_jobs(p_queues integer[], p_seconds integer[], p_limits integer[], p_workers text[], p_places bigint[], p_since timestamp with time zone[], p_now timestamp with time zone, p_bytes bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.limit_jobs(p_tenant bigint, p_queue text, p_concurrency integer, p_rate double precision, p_burst integer, p_actor text, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.list_jobs(p_tenant bigint, p_queue text, p_states integer[], p_before bigint, p_limit integer, p_offset integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.list_queues() FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.list_queues() TO penstock_reader;
GRANT ALL ON FUNCTION penstock.list_queues() TO penstock_writer;
GRANT ALL ON FUNCTION penstock.list_queues() TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.list_schedules() FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.list_schedules() TO penstock_reader;
GRANT ALL ON FUNCTION penstock.list_schedules() TO penstock_writer;
GRANT ALL ON FUNCTION penstock.list_schedules() TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.list_topics() FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.list_topics() TO penstock_reader;
GRANT ALL ON FUNCTION penstock.list_topics() TO penstock_writer;
GRANT ALL ON FUNCTION penstock.list_topics() TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.lock_group(p_bin bigint, p_group text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.lock_groups_of(p_tenants bigint[], p_queues text[], p_ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.lock_sends(p_positions integer[], p_tenants bigint[], p_queues text[], p_groups text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.lock_topic_group(p_topic bigint, p_group text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.make_job_day(p_moment timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.make_job_queues(p_tenants bigint[], p_names text[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.match_jobs(p_queue integer, p_states integer[], p_value text, p_after bigint, p_last bigint, p_limit integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.message_bytes(p_body text, p_attributes json, p_headers json) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.metrics(queue text) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.metrics(queue text) TO penstock_reader;
GRANT ALL ON FUNCTION penstock.metrics(queue text) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.metrics(queue text) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.move_by_ids(p_tenant bigint, p_source text, p_ids bigint[], p_destination text, p_now timestamp with time zone, OUT moved integer, OUT tenants bigint[], OUT queues text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.move_home(p_source penstock.queues, p_ids bigint[], p_target penstock.queues, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.move_messages(p_bin bigint, p_ids bigint[], p_target penstock.queues, p_source bigint, p_reset boolean, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.next_due_at(p_bin bigint, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.next_job_at(p_queue integer, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.note_act(p_tenant bigint, p_actor text, p_act text, p_subject text, p_detail json, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.note_waiting(p_until timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.number_publish(p_topic bigint, p_dedup text, p_scope text, p_message_id text, p_now timestamp with time zone, OUT message_id text, OUT sequence bigint, OUT duplicate boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.number_publishes(p_publishes penstock.new_publish[], p_now timestamp with time zone, INOUT skip boolean[], OUT message_ids text[], OUT sequences bigint[], OUT duplicates boolean[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.pattern_expression(p_pattern text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.pause_schedule(schedule text) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.pause_schedule(schedule text) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.peek(queue text, max_messages integer) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.peek(queue text, max_messages integer) TO penstock_reader;
GRANT ALL ON FUNCTION penstock.peek(queue text, max_messages integer) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.peek(queue text, max_messages integer) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.peek_many(p_tenant bigint, p_queue text, p_limit integer, p_shuffle boolean, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.pick_any(p_bin bigint, p_limit integer, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.pick_fifo(p_bin bigint, p_limit integer, p_shuffle boolean, p_start bigint, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.pop(queue text, max_messages integer) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.pop(queue text, max_messages integer) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.pop(queue text, max_messages integer) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.pop_from_any(queue text, max_messages integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.promote_jobs(p_queue integer, p_since timestamp with time zone, p_now timestamp with time zone, p_limit integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.publish(topic text, body text, subject text, attributes jsonb, group_id text, dedup_id text) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.publish(topic text, body text, subject text, attributes jsonb, group_id text, dedup_id text) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.publish(topic text, body text, subject text, attributes jsonb, group_id text, dedup_id text) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.publish_event(routing_key text, message jsonb, headers jsonb, delay_s integer) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.publish_event(routing_key text, message jsonb, headers jsonb, delay_s integer) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.publish_event(routing_key text, message jsonb, headers jsonb, delay_s integer) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.publish_event(routing_key text, body text, headers jsonb, delay_s integer) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.publish_event(routing_key text, body text, headers jsonb, delay_s integer) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.publish_event(routing_key text, body text, headers jsonb, delay_s integer) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.publish_event_text(p_key text, p_body text, p_json boolean, p_headers jsonb, p_delay integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.publish_many(p_publishes penstock.new_publish[], p_bodies text[], p_messages penstock.published_message[], p_events penstock.published_event[], p_deliveries penstock.published_delivery[], p_items penstock.published_item[], p_now timestamp with time zone, p_event_traces text[], OUT statuses text[], OUT message_ids text[], OUT sequences bigint[], OUT duplicates boolean[], OUT positions integer[], OUT sent_ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.publish_or_reject(p_target text, p_tenant bigint, p_name text, p_places tid[], p_now timestamp with time zone, p_named_by_rows boolean, p_query text, p_batch bigint, p_rejects text, OUT published bigint, OUT duplicates bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.publish_portion(p_target text, p_tenant bigint, p_name text, p_places tid[], p_now timestamp with time zone, OUT published bigint, OUT duplicates bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.publish_staged(p_query text, p_batch bigint, p_attempts bigint[], p_count bigint, p_loads bigint[], p_target text, p_tenant text, p_name text, p_once boolean, p_now timestamp with time zone, p_rejects text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.publish_staged_jobs(p_places tid[], p_rows record, p_tenant bigint, p_name text, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.publish_staged_messages(p_places tid[], p_rows record, p_tenant bigint, p_name text, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.publish_staged_rows(p_target text, p_attempts bigint[], p_tenant bigint, p_name text, p_now timestamp with time zone, p_query text, p_batch bigint, p_rejects text, OUT published bigint, OUT duplicates bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.publish_staged_stream(p_attempts bigint[], p_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.publish_to(p_publish penstock.pending_publishes) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.purge_jobs(p_tenant bigint, p_queue integer, p_numbers bigint[], p_limit integer, p_actor text, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.purge_queue(queue text) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.purge_queue(queue text) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.purge_queue_row(p_tenant bigint, p_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.queue_facts(p_since timestamp with time zone, p_until timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.raise_code(p_code text, p_queue text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.raise_version(p_tenant bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.read_cron(p_text text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.read_crons(p_text text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.read_duration(p_text text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.read_moment(p_field text, p_text text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.read_schedule(p_tenant bigint, p_settings jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.read_schedule_message(p_schedule penstock.schedules, p_settings jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.read_schedule_times(p_schedule penstock.schedules, p_settings jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.receive(queue text, visibility_timeout_s integer, max_messages integer) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.receive(queue text, visibility_timeout_s integer, max_messages integer) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.receive(queue text, visibility_timeout_s integer, max_messages integer) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.receive_from_any(queue text, timeout_s integer, max_messages integer, now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.receive_many(p_tenants bigint[], p_queues text[], p_limits integer[], p_timeouts integer[], p_maxima integer[], p_dead_letters text[], p_shuffles boolean[], p_places bigint[], p_since timestamp with time zone[], p_now timestamp with time zone, p_bytes bigint, p_floors bigint[], p_floors_since timestamp with time zone[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.receive_wait(queue text, wait_s integer, visibility_timeout_s integer, max_messages integer) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.receive_wait(queue text, wait_s integer, visibility_timeout_s integer, max_messages integer) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.receive_wait(queue text, wait_s integer, visibility_timeout_s integer, max_messages integer) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.record_insight_errors(p_rows jsonb, p_moment timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.record_insights(p_rows jsonb, p_moment timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.record_published(p_publishes penstock.new_publish[], p_skip boolean[], p_message_ids text[], p_bodies text[], p_deliveries penstock.published_delivery[], p_items penstock.published_item[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.recover_jobs(p_queue integer, p_since timestamp with time zone, p_now timestamp with time zone, p_limit integer, OUT recovered integer, OUT place bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.redrive(queue text, destination text, max_messages integer) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.redrive(queue text, destination text, max_messages integer) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.refuse_change() FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.reject_problems(p_attempts bigint[], p_target text, p_tenant bigint, p_name text, p_query text, p_batch bigint, p_rejects text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.release_due(p_queue penstock.queues, p_max integer, p_target penstock.queues, p_by_request boolean, p_since timestamp with time zone, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.release_due_groups(p_queue penstock.queues, p_max integer, p_target penstock.queues, p_by_request boolean, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.release_due_in(p_queue text, p_since timestamp with time zone, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.release_due_messages(p_queue penstock.queues, p_max integer, p_target penstock.queues, p_by_request boolean, p_since timestamp with time zone, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.release_jobs(p_tenants bigint[], p_queues integer[], p_numbers bigint[], p_tokens uuid[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.release_waiting(p_queues integer[], p_numbers bigint[], p_now timestamp with time zone, OUT tenants bigint[], OUT queues text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.remember_start(p_hint bigint[], p_queue text, p_start bigint, p_since timestamp with time zone, p_walked bigint, p_found boolean, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.remove_expired_head(p_bin bigint, p_id bigint, p_group text, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.remove_messages(p_bin bigint, p_ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.replay_delivery_row(p_tenant bigint, p_id bigint, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.report_pipeline_run(p_run bigint, p_state text, p_rows bigint, p_batches bigint, p_lag_events bigint, p_lag_s double precision, p_note text, p_error text, p_progress jsonb, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.requeue_jobs(p_tenant bigint, p_queue integer, p_numbers bigint[], p_limit integer, p_actor text, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.resume_schedule(schedule text) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.resume_schedule(schedule text) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.run_move_tasks(p_now timestamp with time zone, OUT moved integer, OUT tenants bigint[], OUT queues text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.run_schedule_row(p_id bigint, p_time text, p_mark text, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.was_long(p_walked_before bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.saw_start(p_hint bigint[], p_due boolean, p_walked bigint, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.send(queue text, message jsonb, headers jsonb, delay_s integer, priority integer, group_id text, dedup_id text, retention_s integer) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.send(queue text, message jsonb, headers jsonb, delay_s integer, priority integer, group_id text, dedup_id text, retention_s integer) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.send(queue text, message jsonb, headers jsonb, delay_s integer, priority integer, group_id text, dedup_id text, retention_s integer) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.send(queue text, body text, headers jsonb, delay_s integer, priority integer, group_id text, dedup_id text, retention_s integer) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.send(queue text, body text, headers jsonb, delay_s integer, priority integer, group_id text, dedup_id text, retention_s integer) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.send(queue text, body text, headers jsonb, delay_s integer, priority integer, group_id text, dedup_id text, retention_s integer) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.send_as_it_is(p_tenants bigint[], p_queues text[], p_publish penstock.pending_publishes) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.send_batch(queue text, bodies text[], headers jsonb[], delay_s integer, priority integer, group_id text, dedup_ids text[], retention_s integer, is_json boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.send_batch(queue text, bodies text[], headers jsonb[], delay_s integer, priority integer, group_id text, dedup_ids text[], retention_s integer, is_json boolean) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.send_batch(queue text, bodies text[], headers jsonb[], delay_s integer, priority integer, group_id text, dedup_ids text[], retention_s integer, is_json boolean) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.send_carefully(p_positions integer[], p_ids bigint[], p_codes text[], p_tenants bigint[], p_queues text[], p_bodies text[], p_json boolean[], p_delays integer[], p_priorities integer[], p_groups text[], p_dedups text[], p_dedup_windows integer[], p_retentions integer[], p_attributes text[], p_headers text[], p_traces text[], p_now timestamp with time zone, OUT ids bigint[], OUT codes text[], OUT duplicates boolean[], OUT sequences bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.send_checked(queue text, bodies text[], headers jsonb[], delay_s integer, priority integer, group_id text, dedup_ids text[], retention_s integer, is_json boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.send_dead_letters(p_tenants bigint[], p_queues text[], p_bodies text[], p_json boolean[], p_groups text[], p_dedups text[], p_attributes text[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.send_many(p_tenants bigint[], p_queues text[], p_bodies text[], p_json boolean[], p_delays integer[], p_priorities integer[], p_groups text[], p_dedups text[], p_dedup_windows integer[], p_retentions integer[], p_attributes text[], p_headers text[], p_traces text[], p_sizes integer[], p_now timestamp with time zone, OUT ids bigint[], OUT codes text[], OUT duplicates boolean[], OUT sequences bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.send_one(p_queue text, p_body text, p_json boolean, p_headers jsonb, p_delay integer, p_priority integer, p_group text, p_dedup text, p_retention integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.send_published(p_publishes penstock.new_publish[], p_skip boolean[], p_sequences bigint[], p_bodies text[], p_messages penstock.published_message[], p_now timestamp with time zone, OUT positions integer[], OUT sent_ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.send_to_queues(p_tenants bigint[], p_queues text[], p_bodies text[], p_json boolean[], p_delays integer[], p_priorities integer[], p_groups text[], p_dedups text[], p_dedup_windows integer[], p_retentions integer[], p_attributes text[], p_headers text[], p_traces text[], p_sizes integer[], p_now timestamp with time zone, OUT ids bigint[], OUT codes text[], OUT duplicates boolean[], OUT sequences bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.sequence_text(p_sequence bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.set_aside(p_queue penstock.queues, p_ids bigint[], p_target penstock.queues, p_by_request boolean, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.set_aside_ready(p_queue penstock.queues, p_limit integer, p_max integer, p_target penstock.queues, p_by_request boolean, p_start bigint, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.settle_group(p_bin bigint, p_group text, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.settle_insights(p_since timestamp with time zone, p_moment timestamp with time zone, p_hours_kept interval, p_days_kept interval) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.settle_job_numbers() FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.staged_portion(p_places tid[], p_now timestamp with time zone, OUT types text[], OUT bodies text[], OUT delays integer[], OUT moments timestamp with time zone[], OUT priorities integer[], OUT groups text[], OUT dedups text[], OUT headers text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.staged_portions(p_attempts bigint[], p_name text, OUT name text, OUT places tid[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.start_move_task(p_tenant bigint, p_source text, p_destination text, p_rate integer, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.start_pipeline_run(p_tenant text, p_pipeline text, p_settings jsonb, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.store_rejects(p_places tid[], p_reason text, p_target text, p_tenant bigint, p_name text, p_query text, p_batch bigint, p_rejects text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.store_sends(p_entries penstock.send_entry[], p_ids bigint[], p_bodies text[], p_json boolean[], p_attributes text[], p_headers text[], p_traces text[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.stream_facts(p_since timestamp with time zone, p_until timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.stream_lag(p_ticks jsonb, p_now timestamp with time zone, OUT lag_events bigint, OUT lag_s double precision) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.stream_places(p_queue integer, p_txid xid8) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.stream_queue(p_tenant bigint, p_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.subscribe(topic text, queue text) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.subscribe(topic text, queue text) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.subscribe_events(pattern text, queue text) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.subscribe_events(pattern text, queue text) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.subscribe_row(p_tenant bigint, p_topic text, p_pattern text, p_protocol text, p_endpoint text, p_target text, p_target_tenant bigint, p_attributes jsonb, p_confirmed boolean, p_token text, p_owner text, p_secret text, p_now timestamp with time zone, OUT subscription_key text, OUT created boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.subscriptions_of_key(p_tenant bigint, p_key text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.sweep(p_now timestamp with time zone, p_limit integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.sweep_abandoned(p_limit integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.sweep_expired(p_now timestamp with time zone, p_limit integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.sweep_poison(p_max integer, p_now timestamp with time zone, p_limit integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.sweep_topics(p_now timestamp with time zone, p_delivered_before timestamp with time zone, p_exhausted_before timestamp with time zone, p_limit integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.tag_job(p_tenant bigint, p_queue integer, p_job bigint, p_tags text[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.take_requests(p_name text, p_rate double precision, p_burst double precision, p_wanted integer, p_now timestamp with time zone, OUT taken integer, OUT wait_s double precision) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.tend_jobs(p_retention interval, p_limit integer, p_now timestamp with time zone, OUT done integer, OUT tenants bigint[], OUT queues text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.tids_of(p_bin bigint, p_ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.try_hold_group(p_bin bigint, p_group text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.try_lock_group(p_bin bigint, p_group text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.unsubscribe(name text, queue text) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.unsubscribe(name text, queue text) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.unsubscribe_row(p_tenant bigint, p_key uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.update_queue_row(p_tenant bigint, p_name text, p_settings jsonb, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.update_subscription_row(p_tenant bigint, p_key uuid, p_attributes jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.update_topic_row(p_tenant bigint, p_name text, p_attributes jsonb, p_tags jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.write_job_blocks(p_size integer, p_limit integer) FROM PUBLIC;
