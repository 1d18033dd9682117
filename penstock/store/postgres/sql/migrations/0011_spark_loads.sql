-- What Spark publishes may be loads of a stream, too.

drop function if exists penstock.publish_staged(
  text, bigint, bigint[], bigint, text, text, text, boolean, timestamptz
);
