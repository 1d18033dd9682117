"""What this session did, in the statistics views at once."""

_STATEMENT = """
do $$
begin
  if current_setting('server_version_num')::integer >= 150000 then
    perform pg_stat_force_next_flush();
  else
    perform pg_sleep(0.6);
  end if;
end;
$$
"""

FLUSH = (_STATEMENT, _STATEMENT)
"""Statements to run one by one.

PostgreSQL 14 cannot be told to flush. A session reports after a statement when half a second has passed, and what a
reader gets may be half a second old: the first statement waits for the former, the second for the latter.
"""
