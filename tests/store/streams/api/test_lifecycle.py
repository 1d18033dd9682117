"""Starting, stopping and removing streams in a database on its own. pg_cron is played by a stub of its functions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.streams.calls import Api, api_of

CRON = """
create schema cron;
create table cron.job (jobid bigserial primary key, jobname text unique, schedule text, command text, database text);
create function cron.schedule_in_database(
  job_name text, schedule text, command text, database text, username text default null, active boolean default true
) returns bigint language sql as $$
  insert into cron.job (jobname, schedule, command, database) values ($1, $2, $3, $4)
  on conflict (jobname) do update set schedule = excluded.schedule, command = excluded.command
  returning jobid
$$;
create function cron.unschedule(job_id bigint) returns boolean language plpgsql as $$
begin
  delete from cron.job where jobid = job_id;
  if not found then
    raise exception 'could not find valid entry for job %', job_id;
  end if;
  return true;
end;
$$;
"""


@pytest.fixture
def api(migrated_database: str) -> Iterator[Api]:
    with api_of(migrated_database, "app") as api:
        yield api


@pytest.fixture
def cron(api: Api) -> None:
    api.run(CRON)


def jobs(api: Api) -> list[tuple[object, ...]]:
    return api.rows("select jobname, schedule, command from cron.job order by jobname")


def status(api: Api) -> dict[str, str]:
    return {component: state for component, state, _ in api.rows("select * from pgque.status()")}


TICKER = ("pgque_ticker", "2 seconds", "set statement_timeout = '1500ms'; select pgque.ticker()")
MAINT = ("pgque_maint", "30 seconds", "set statement_timeout = '25s'; select pgque.maint()")


def test_without_pg_cron_the_error_says_what_to_do(api: Api) -> None:
    error = api.refused("select pgque.start()")

    assert error.sqlstate == "0A000"
    assert error.diag.message_primary == "pg_cron is not installed in this database"
    assert "pgque.ticker()" in str(error.diag.message_hint)
    assert status(api)["pg_cron"] == "not installed"


def test_without_pg_cron_everything_else_works(api: Api) -> None:
    api.send("a")
    api.tick()
    api.rows("select pgque.maint()")
    api.rows("select pgque.stop()")

    assert len(api.drain()) == 1


@pytest.mark.usefixtures("cron")
def test_start_makes_two_jobs_however_often(api: Api) -> None:
    api.rows("select pgque.start()")
    api.rows("select pgque.start()")

    assert jobs(api) == [MAINT, TICKER]
    assert (status(api)["ticker"], status(api)["maint"]) == ("scheduled", "scheduled")


@pytest.mark.usefixtures("cron")
def test_the_commands_of_the_jobs_run(api: Api) -> None:
    api.rows("select pgque.start()")
    for _, _, command in jobs(api):
        api.run(str(command))


@pytest.mark.usefixtures("cron")
def test_stop_removes_them(api: Api) -> None:
    api.rows("select pgque.start()")
    api.rows("select pgque.stop()")
    api.rows("select pgque.stop()")

    assert jobs(api) == []
    assert (status(api)["ticker"], status(api)["maint"]) == ("not scheduled", "not scheduled")


@pytest.mark.usefixtures("cron")
def test_jobs_removed_by_hand_are_no_obstacle(api: Api) -> None:
    api.rows("select pgque.start()")
    api.run("delete from cron.job")
    api.rows("select pgque.start()")

    assert jobs(api) == [MAINT, TICKER]


@pytest.mark.usefixtures("cron")
def test_uninstall_leaves_nothing(api: Api) -> None:
    api.run("create table t (id int primary key)")
    api.run(f"create trigger a after insert on t for each row execute function pgque.jsontriga('{api.queue}')")
    api.rows("select pgque.start()")
    api.rows("select pgque.uninstall()")
    api.run("insert into t values (1)")

    assert jobs(api) == []
    assert api.one("select to_regnamespace('pgque')") is None


def test_status_tells_versions_and_counts(api: Api) -> None:
    found = {component: detail for component, _, detail in api.rows("select * from pgque.status()")}

    assert found["pgque"] == api.one("select pgque.version()")
    assert found["postgresql"] == api.one("show server_version")
    assert (found["queues"], found["consumers"]) == ("1", "1")
