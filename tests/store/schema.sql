-- A fresh database, as pg_dump shows it; the bodies of the functions are left out. Not applied anywhere.
-- Written by PENSTOCK_WRITE_SCHEMA=1 pytest tests/store/postgres_only/test_migrations.py

CREATE SCHEMA penstock;

CREATE FUNCTION penstock.add_counts(p_bin bigint, p_arrived bigint, p_departed bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.alter_queue(queue text, settings jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.announce(p_queue_ids bigint[], p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.any_head(p_bin bigint) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.archive(queue text, id bigint, lease bigint DEFAULT NULL::bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.bin_total(p_bin bigint) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.cancel_move_task(p_tenant bigint, p_task bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.change_visibility(queue text, id bigint, visibility_timeout_s integer, lease bigint DEFAULT NULL::bigint) RETURNS timestamp with time zone
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.change_visibility_many(p_tenants bigint[], p_queues text[], p_ids bigint[], p_leases bigint[], p_seconds integer[], p_now timestamp with time zone, OUT answers text[], OUT visible_at timestamp with time zone[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
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
    visibility_timeout_s integer DEFAULT 30 NOT NULL,
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
    updated_at timestamp with time zone NOT NULL
);

CREATE FUNCTION penstock.check_fit(p_queue penstock.queues) RETURNS void
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.check_isolation() RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.check_range(p_field text, p_value bigint, p_low bigint, p_high bigint) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.check_settings(p_queue penstock.queues) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
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
    body text NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_insert_scale_factor='0.2', autovacuum_vacuum_cost_delay='0');

CREATE FUNCTION penstock.claim(p_queue penstock.queues, p_limit integer, p_shuffle boolean, p_start bigint, p_until timestamp with time zone, p_now timestamp with time zone) RETURNS SETOF penstock.messages
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.claim_fifo(p_bin bigint, p_ids bigint[], p_until timestamp with time zone, p_now timestamp with time zone) RETURNS SETOF penstock.messages
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.claim_next(p_bin bigint, p_limit integer, p_start bigint, p_until timestamp with time zone, p_now timestamp with time zone) RETURNS SETOF penstock.messages
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.claim_these(p_bin bigint, p_ids bigint[], p_until timestamp with time zone, p_now timestamp with time zone) RETURNS SETOF penstock.messages
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.count_queues(p_tenant bigint, p_names text[], p_now timestamp with time zone) RETURNS TABLE(tenant_id bigint, queue text, visible bigint, in_flight bigint, delayed bigint, sent bigint, oldest_sent_at timestamp with time zone, newest_sent_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.create_queue(queue text, settings jsonb DEFAULT '{}'::jsonb) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.create_queue_row(p_tenant bigint, p_name text, p_settings jsonb, p_now timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.current_tenant() RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.delete(queue text, id bigint, lease bigint DEFAULT NULL::bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.drop_queue(queue text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.drop_queue_row(p_tenant bigint, p_name text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.find_duplicate(p_bin bigint, p_dedup text, p_group text, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.find_queue(p_tenant bigint, p_queue text) RETURNS penstock.queues
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.finish_carefully(p_queue penstock.queues, p_id bigint, p_lease bigint, p_archive boolean, p_now timestamp with time zone) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.finish_many(p_tenants bigint[], p_queues text[], p_ids bigint[], p_leases bigint[], p_archive boolean, p_now timestamp with time zone) RETURNS text[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.fold_counts() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.group_key(p_bin bigint, p_group text) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION penstock.list_queues() RETURNS TABLE(queue text, fifo boolean, created_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.lock_group(p_bin bigint, p_group text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.lock_groups_of(p_tenants bigint[], p_queues text[], p_ids bigint[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.metrics(queue text DEFAULT NULL::text) RETURNS TABLE(queue_name text, visible bigint, in_flight bigint, delayed bigint, sent bigint, oldest_age interval, newest_age interval)
    LANGUAGE sql STABLE SECURITY DEFINER
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

CREATE FUNCTION penstock.next_lease(p_lease bigint, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION penstock.peek(queue text, max_messages integer DEFAULT 1) RETURNS TABLE(id bigint, body text, headers jsonb, attributes jsonb, receives integer, sent_at timestamp with time zone)
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.peek_many(p_tenant bigint, p_queue text, p_limit integer, p_shuffle boolean, p_now timestamp with time zone) RETURNS SETOF penstock.messages
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.pick_any(p_bin bigint, p_limit integer, p_now timestamp with time zone) RETURNS bigint[]
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.pick_fifo(p_bin bigint, p_limit integer, p_shuffle boolean, p_start bigint, p_now timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.place_of(p_priority integer, p_id bigint, p_lifo boolean) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION penstock.pop(queue text, max_messages integer DEFAULT 1) RETURNS TABLE(id bigint, body text, headers jsonb, attributes jsonb, sent_at timestamp with time zone)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.purge_queue(queue text) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.purge_queue_row(p_tenant bigint, p_name text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.raise_code(p_code text, p_queue text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.receive(queue text, visibility_timeout_s integer DEFAULT NULL::integer, max_messages integer DEFAULT 1) RETURNS TABLE(id bigint, lease bigint, body text, headers jsonb, attributes jsonb, receives integer, priority smallint, group_id text, sent_at timestamp with time zone, visible_at timestamp with time zone)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.receive_many(p_tenants bigint[], p_queues text[], p_limits integer[], p_timeouts integer[], p_maxima integer[], p_dead_letters text[], p_shuffles boolean[], p_places bigint[], p_since timestamp with time zone[], p_now timestamp with time zone) RETURNS TABLE(request integer, code text, next_due_at timestamp with time zone, place bigint, id bigint, lease bigint, body text, is_json boolean, priority smallint, receives integer, sent_at timestamp with time zone, first_received_at timestamp with time zone, visible_at timestamp with time zone, group_id text, dedup_id text, attributes json, headers json, trace text, dead_letter_source text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.release_due(p_queue penstock.queues, p_max integer, p_target penstock.queues, p_by_request boolean, p_since timestamp with time zone, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.remove_messages(p_bin bigint, p_ids bigint[]) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.run_move_tasks(p_now timestamp with time zone, OUT moved integer, OUT tenants bigint[], OUT queues text[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.send(queue text, message jsonb, headers jsonb DEFAULT NULL::jsonb, delay_s integer DEFAULT NULL::integer, priority integer DEFAULT NULL::integer, group_id text DEFAULT NULL::text, dedup_id text DEFAULT NULL::text, retention_s integer DEFAULT NULL::integer) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.send(queue text, body text, headers jsonb DEFAULT NULL::jsonb, delay_s integer DEFAULT NULL::integer, priority integer DEFAULT NULL::integer, group_id text DEFAULT NULL::text, dedup_id text DEFAULT NULL::text, retention_s integer DEFAULT NULL::integer) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.send_batch(queue text, bodies text[], headers jsonb[] DEFAULT NULL::jsonb[], delay_s integer DEFAULT NULL::integer, priority integer DEFAULT NULL::integer, group_id text DEFAULT NULL::text, dedup_ids text[] DEFAULT NULL::text[], retention_s integer DEFAULT NULL::integer, is_json boolean DEFAULT false) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.send_carefully(p_positions integer[], p_ids bigint[], p_codes text[], p_tenants bigint[], p_queues text[], p_bodies text[], p_json boolean[], p_delays integer[], p_priorities integer[], p_groups text[], p_dedups text[], p_dedup_windows integer[], p_retentions integer[], p_attributes text[], p_headers text[], p_traces text[], p_now timestamp with time zone, OUT ids bigint[], OUT codes text[], OUT duplicates boolean[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.send_many(p_tenants bigint[], p_queues text[], p_bodies text[], p_json boolean[], p_delays integer[], p_priorities integer[], p_groups text[], p_dedups text[], p_dedup_windows integer[], p_retentions integer[], p_attributes text[], p_headers text[], p_traces text[], p_sizes integer[], p_now timestamp with time zone, OUT ids bigint[], OUT codes text[], OUT duplicates boolean[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.set_aside(p_queue penstock.queues, p_ids bigint[], p_target penstock.queues, p_by_request boolean, p_now timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.set_aside_ready(p_queue penstock.queues, p_limit integer, p_max integer, p_target penstock.queues, p_by_request boolean, p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.settle_group(p_bin bigint, p_group text, p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.start_move_task(p_tenant bigint, p_source text, p_destination text, p_rate integer, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
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

CREATE FUNCTION penstock.tids_of(p_bin bigint, p_ids bigint[]) RETURNS SETOF tid
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.try_hold_group(p_bin bigint, p_group text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.try_lock_group(p_bin bigint, p_group text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp';

CREATE FUNCTION penstock.update_queue_row(p_tenant bigint, p_name text, p_settings jsonb, p_now timestamp with time zone) RETURNS void
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
    body text NOT NULL
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

CREATE SEQUENCE penstock.message_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

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
    stepped_at timestamp with time zone NOT NULL
);

ALTER TABLE penstock.move_tasks ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.move_tasks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

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
    d.name AS dead_letter_queue
   FROM (penstock.queues q
     LEFT JOIN penstock.queues d ON ((d.id = q.dead_letter_queue_id)));

ALTER TABLE penstock.queues ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.queues_id_seq
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

CREATE UNLOGGED TABLE penstock.waiting (
    queue_id bigint NOT NULL,
    node text NOT NULL,
    until timestamp with time zone NOT NULL
);

ALTER TABLE ONLY penstock.abandoned_bins
    ADD CONSTRAINT abandoned_bins_pkey PRIMARY KEY (bin_id);

ALTER TABLE ONLY penstock.bin_counts
    ADD CONSTRAINT bin_counts_pkey PRIMARY KEY (bin_id);

ALTER TABLE ONLY penstock.dedup
    ADD CONSTRAINT dedup_pkey PRIMARY KEY (bin_id, dedup_id, group_id);

ALTER TABLE ONLY penstock.messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (bin_id, id);

ALTER TABLE ONLY penstock.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (name);

ALTER TABLE ONLY penstock.move_tasks
    ADD CONSTRAINT move_tasks_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.queues
    ADD CONSTRAINT queues_tenant_id_name_key UNIQUE (tenant_id, name);

ALTER TABLE ONLY penstock.tenants
    ADD CONSTRAINT tenants_name_key UNIQUE (name);

ALTER TABLE ONLY penstock.tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.waiting
    ADD CONSTRAINT waiting_pkey PRIMARY KEY (queue_id, node);

CREATE INDEX archive_time ON penstock.archive USING btree (tenant_id, queue, archived_at);

CREATE INDEX bin_changes_bin ON penstock.bin_changes USING btree (bin_id);

CREATE INDEX dedup_expiry ON penstock.dedup USING btree (expires_at);

CREATE INDEX messages_blocked ON penstock.messages USING btree (bin_id, group_id, id) WHERE (state = 3);

CREATE INDEX messages_blocked_delayed ON penstock.messages USING btree (bin_id, visible_at) WHERE ((state = 3) AND (visible_at > sent_at));

CREATE INDEX messages_expiry ON penstock.messages USING brin (expires_at) WITH (autosummarize='on');

CREATE INDEX messages_hidden ON penstock.messages USING btree (bin_id, visible_at) WHERE (state = ANY (ARRAY[1, 2]));

CREATE INDEX messages_placed ON penstock.messages USING btree (bin_id, group_id) WHERE ((group_id IS NOT NULL) AND (state <> 3));

CREATE INDEX messages_ready ON penstock.messages USING btree (bin_id, place) WHERE (state = 0);

CREATE UNIQUE INDEX move_tasks_running ON penstock.move_tasks USING btree (source_id) WHERE (state = 'running'::text);

CREATE INDEX move_tasks_source ON penstock.move_tasks USING btree (source_id, id DESC);

CREATE INDEX queues_dead_letters ON penstock.queues USING btree (dead_letter_queue_id);

CREATE INDEX tokens_prefix ON penstock.tokens USING btree (prefix);

ALTER TABLE ONLY penstock.move_tasks
    ADD CONSTRAINT move_tasks_destination_id_fkey FOREIGN KEY (destination_id) REFERENCES penstock.queues(id) ON DELETE SET NULL;

ALTER TABLE ONLY penstock.move_tasks
    ADD CONSTRAINT move_tasks_source_id_fkey FOREIGN KEY (source_id) REFERENCES penstock.queues(id) ON DELETE CASCADE;

ALTER TABLE ONLY penstock.queues
    ADD CONSTRAINT queues_dead_letter_queue_id_fkey FOREIGN KEY (dead_letter_queue_id) REFERENCES penstock.queues(id) ON DELETE SET NULL;

ALTER TABLE ONLY penstock.queues
    ADD CONSTRAINT queues_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES penstock.tenants(id);

ALTER TABLE ONLY penstock.tokens
    ADD CONSTRAINT tokens_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES penstock.tenants(id);

GRANT USAGE ON SCHEMA penstock TO penstock_reader;
GRANT USAGE ON SCHEMA penstock TO penstock_writer;
GRANT USAGE ON SCHEMA penstock TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.add_counts(p_bin bigint, p_arrived bigint, p_departed bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.alter_queue(queue text, settings jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.alter_queue(queue text, settings jsonb) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.announce(p_queue_ids bigint[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.any_head(p_bin bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.archive(queue text, id bigint, lease bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.archive(queue text, id bigint, lease bigint) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.archive(queue text, id bigint, lease bigint) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.bin_total(p_bin bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.cancel_move_task(p_tenant bigint, p_task bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.change_visibility(queue text, id bigint, visibility_timeout_s integer, lease bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.change_visibility(queue text, id bigint, visibility_timeout_s integer, lease bigint) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.change_visibility(queue text, id bigint, visibility_timeout_s integer, lease bigint) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.change_visibility_many(p_tenants bigint[], p_queues text[], p_ids bigint[], p_leases bigint[], p_seconds integer[], p_now timestamp with time zone, OUT answers text[], OUT visible_at timestamp with time zone[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_fit(p_queue penstock.queues) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_isolation() FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_range(p_field text, p_value bigint, p_low bigint, p_high bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_settings(p_queue penstock.queues) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.check_that(p_field text, p_holds boolean, p_rule text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.claim(p_queue penstock.queues, p_limit integer, p_shuffle boolean, p_start bigint, p_until timestamp with time zone, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.claim_fifo(p_bin bigint, p_ids bigint[], p_until timestamp with time zone, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.claim_next(p_bin bigint, p_limit integer, p_start bigint, p_until timestamp with time zone, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.claim_these(p_bin bigint, p_ids bigint[], p_until timestamp with time zone, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.count_queues(p_tenant bigint, p_names text[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.create_queue(queue text, settings jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.create_queue(queue text, settings jsonb) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.create_queue_row(p_tenant bigint, p_name text, p_settings jsonb, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.current_tenant() FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.delete(queue text, id bigint, lease bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.delete(queue text, id bigint, lease bigint) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.delete(queue text, id bigint, lease bigint) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.drop_queue(queue text) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.drop_queue(queue text) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.drop_queue_row(p_tenant bigint, p_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.find_duplicate(p_bin bigint, p_dedup text, p_group text, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.find_queue(p_tenant bigint, p_queue text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.finish_carefully(p_queue penstock.queues, p_id bigint, p_lease bigint, p_archive boolean, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.finish_many(p_tenants bigint[], p_queues text[], p_ids bigint[], p_leases bigint[], p_archive boolean, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.fold_counts() FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.group_key(p_bin bigint, p_group text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.list_queues() FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.list_queues() TO penstock_reader;
GRANT ALL ON FUNCTION penstock.list_queues() TO penstock_writer;
GRANT ALL ON FUNCTION penstock.list_queues() TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.lock_group(p_bin bigint, p_group text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.lock_groups_of(p_tenants bigint[], p_queues text[], p_ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.metrics(queue text) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.metrics(queue text) TO penstock_reader;
GRANT ALL ON FUNCTION penstock.metrics(queue text) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.metrics(queue text) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.move_home(p_source penstock.queues, p_ids bigint[], p_target penstock.queues, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.move_messages(p_bin bigint, p_ids bigint[], p_target penstock.queues, p_source bigint, p_reset boolean, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.next_due_at(p_bin bigint, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.next_lease(p_lease bigint, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.peek(queue text, max_messages integer) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.peek(queue text, max_messages integer) TO penstock_reader;
GRANT ALL ON FUNCTION penstock.peek(queue text, max_messages integer) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.peek(queue text, max_messages integer) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.peek_many(p_tenant bigint, p_queue text, p_limit integer, p_shuffle boolean, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.pick_any(p_bin bigint, p_limit integer, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.pick_fifo(p_bin bigint, p_limit integer, p_shuffle boolean, p_start bigint, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.place_of(p_priority integer, p_id bigint, p_lifo boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.pop(queue text, max_messages integer) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.pop(queue text, max_messages integer) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.pop(queue text, max_messages integer) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.purge_queue(queue text) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.purge_queue(queue text) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.purge_queue_row(p_tenant bigint, p_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.raise_code(p_code text, p_queue text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.receive(queue text, visibility_timeout_s integer, max_messages integer) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.receive(queue text, visibility_timeout_s integer, max_messages integer) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.receive(queue text, visibility_timeout_s integer, max_messages integer) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.receive_many(p_tenants bigint[], p_queues text[], p_limits integer[], p_timeouts integer[], p_maxima integer[], p_dead_letters text[], p_shuffles boolean[], p_places bigint[], p_since timestamp with time zone[], p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.release_due(p_queue penstock.queues, p_max integer, p_target penstock.queues, p_by_request boolean, p_since timestamp with time zone, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.remove_messages(p_bin bigint, p_ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.run_move_tasks(p_now timestamp with time zone, OUT moved integer, OUT tenants bigint[], OUT queues text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.send(queue text, message jsonb, headers jsonb, delay_s integer, priority integer, group_id text, dedup_id text, retention_s integer) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.send(queue text, message jsonb, headers jsonb, delay_s integer, priority integer, group_id text, dedup_id text, retention_s integer) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.send(queue text, message jsonb, headers jsonb, delay_s integer, priority integer, group_id text, dedup_id text, retention_s integer) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.send(queue text, body text, headers jsonb, delay_s integer, priority integer, group_id text, dedup_id text, retention_s integer) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.send(queue text, body text, headers jsonb, delay_s integer, priority integer, group_id text, dedup_id text, retention_s integer) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.send(queue text, body text, headers jsonb, delay_s integer, priority integer, group_id text, dedup_id text, retention_s integer) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.send_batch(queue text, bodies text[], headers jsonb[], delay_s integer, priority integer, group_id text, dedup_ids text[], retention_s integer, is_json boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION penstock.send_batch(queue text, bodies text[], headers jsonb[], delay_s integer, priority integer, group_id text, dedup_ids text[], retention_s integer, is_json boolean) TO penstock_writer;
GRANT ALL ON FUNCTION penstock.send_batch(queue text, bodies text[], headers jsonb[], delay_s integer, priority integer, group_id text, dedup_ids text[], retention_s integer, is_json boolean) TO penstock_admin;

REVOKE ALL ON FUNCTION penstock.send_carefully(p_positions integer[], p_ids bigint[], p_codes text[], p_tenants bigint[], p_queues text[], p_bodies text[], p_json boolean[], p_delays integer[], p_priorities integer[], p_groups text[], p_dedups text[], p_dedup_windows integer[], p_retentions integer[], p_attributes text[], p_headers text[], p_traces text[], p_now timestamp with time zone, OUT ids bigint[], OUT codes text[], OUT duplicates boolean[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.send_many(p_tenants bigint[], p_queues text[], p_bodies text[], p_json boolean[], p_delays integer[], p_priorities integer[], p_groups text[], p_dedups text[], p_dedup_windows integer[], p_retentions integer[], p_attributes text[], p_headers text[], p_traces text[], p_sizes integer[], p_now timestamp with time zone, OUT ids bigint[], OUT codes text[], OUT duplicates boolean[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.set_aside(p_queue penstock.queues, p_ids bigint[], p_target penstock.queues, p_by_request boolean, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.set_aside_ready(p_queue penstock.queues, p_limit integer, p_max integer, p_target penstock.queues, p_by_request boolean, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.settle_group(p_bin bigint, p_group text, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.start_move_task(p_tenant bigint, p_source text, p_destination text, p_rate integer, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.sweep(p_now timestamp with time zone, p_limit integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.sweep_abandoned(p_limit integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.sweep_expired(p_now timestamp with time zone, p_limit integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.tids_of(p_bin bigint, p_ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.try_hold_group(p_bin bigint, p_group text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.try_lock_group(p_bin bigint, p_group text) FROM PUBLIC;

REVOKE ALL ON FUNCTION penstock.update_queue_row(p_tenant bigint, p_name text, p_settings jsonb, p_now timestamp with time zone) FROM PUBLIC;
