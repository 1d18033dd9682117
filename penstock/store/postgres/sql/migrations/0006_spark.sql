-- What Spark's tasks leave here on their way.

-- Rows of a write that is not committed yet, by the attempt that brought them. A crash of PostgreSQL may lose them:
-- publishing counts them, and Spark writes the batch again.
create unlogged table penstock.spark_staging (
  attempt text not null,
  position bigint not null,
  staged_at timestamptz not null default now(),
  name text,
  type text,
  key text,
  value text,
  headers text,
  deliver_at timestamptz,
  priority integer,
  dedup_id text
);

create index spark_staging_attempt on penstock.spark_staging (attempt);

-- The last batch of each query that was published: a batch that comes again is known by it.
create table penstock.spark_ledger (
  query text primary key,
  batch bigint not null,
  written_at timestamptz not null
);

-- Which pieces of a read are done; whoever keeps its snapshot waits for all of them.
create table penstock.spark_pieces (
  read_id text not null,
  piece integer not null,
  noted_at timestamptz not null default now(),
  primary key (read_id, piece)
);
