-- Which batch of a streaming query used the snapshot of a read first; empty for a read outside of streaming queries.

alter table penstock.spark_pieces
  add column batch text;
