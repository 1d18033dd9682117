"""The changes of a table, read from the queue and made again on a copy, give the same table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from tests.effort import examples
from tests.store.streams.calls import Api, api_of

COLUMNS = {
    "id": "int primary key",
    "txt": "text",
    "flag": "boolean",
    "big": "bigint",
    "amount": "numeric",
    "ratio": "double precision",
    "raw": "bytea",
    "at": "timestamptz",
    "day": "date",
    "span": "interval",
    "doc": "json",
    'odd "name, &=': "text[]",
    "fixed": "char(3)",
}

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
VALUES = {
    "txt": TEXT,
    "flag": st.booleans(),
    "big": st.integers(-(2**63), 2**63 - 1),
    "amount": st.decimals(allow_nan=False, allow_infinity=False, places=5),
    "ratio": st.floats(),
    "raw": st.binary(max_size=8),
    "at": st.datetimes().map(lambda moment: f"{moment.isoformat()}+02:30"),
    "day": st.dates(),
    "span": st.timedeltas(),
    "doc": st.recursive(st.none() | st.booleans() | TEXT, lambda inner: st.lists(inner, max_size=3)).map(json.dumps),
    'odd "name, &=': st.lists(st.none() | TEXT, max_size=3),
    "fixed": st.text("abc ", max_size=3),
}
ROWS = st.fixed_dictionaries({}, optional={name: st.none() | strategy for name, strategy in VALUES.items()})
CHANGES = st.lists(st.tuples(st.sampled_from(["put", "remove", "empty"]), st.integers(1, 3), ROWS), max_size=12)


class Table:
    """Statements about one table by the names of columns, with values the server reads as it likes."""

    def __init__(self, api: Api, name: str) -> None:
        self._api = api
        self._name = sql.Identifier(name)

    def create(self) -> None:
        columns = (sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(type)) for name, type in COLUMNS.items())
        self._run("create temp table {table} ({columns})", columns=sql.SQL(", ").join(columns))

    def insert(self, row: dict[str, Any]) -> None:
        names = sql.SQL(", ").join(map(sql.Identifier, row))
        places = sql.SQL(", ").join([sql.Placeholder()] * len(row))
        self._run("insert into {table} ({names}) values ({places})", *row.values(), names=names, places=places)

    def update(self, key: int, row: dict[str, Any]) -> None:
        sets = sql.SQL(", ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in row)
        self._run("update {table} set {sets} where id = %s", *row.values(), key, sets=sets)

    def delete(self, key: int) -> None:
        self._run("delete from {table} where id = %s", key)

    def truncate(self) -> None:
        self._run("truncate {table}")

    def apply(self, head: str, tail: str) -> None:
        """A piece of SQL from the stream, put behind the table's name."""
        self._api.connection.execute(sql.SQL(head).format(table=self._name).as_string().encode() + tail.encode())

    def rows(self) -> list[tuple[Any, ...]]:
        query = sql.SQL("select t::text from {} as t order by id").format(self._name)
        return self._api.connection.execute(query).fetchall()

    def taken(self) -> set[int]:
        return {key for (key,) in self._api.connection.execute(sql.SQL("select id from {}").format(self._name))}

    def _run(self, statement: str, *values: object, **parts: sql.Composable) -> None:
        self._api.connection.execute(sql.SQL(statement).format(table=self._name, **parts), values)


def replay_json(copy: Table, type: str, data: str) -> None:
    row = {
        name: value if value is None or isinstance(value, str) else json.dumps(value)
        for name, value in json.loads(data).items()
    }
    match json.loads(type)["op"]:
        case "INSERT":
            copy.insert(row)
        case "UPDATE":
            copy.update(int(str(row["id"])), row)
        case "DELETE":
            copy.delete(int(str(row["id"])))
        case "TRUNCATE":
            copy.truncate()


def replay_url(copy: Table, type: str, data: str) -> None:
    nulls = {part for part in data.split("&") if "=" not in part}
    encoded = data.split("&") if data else []
    row: dict[str, Any] = {}
    for part in encoded:
        [(name, value)] = parse_qsl(part, keep_blank_values=True)
        row[name] = None if part in nulls else value
    match type[0]:
        case "I":
            copy.insert(row)
        case "U":
            copy.update(int(row["id"]), row)
        case "D":
            copy.delete(int(row["id"]))
        case "R":
            copy.truncate()


def replay_sql(copy: Table, type: str, data: str) -> None:
    heads = {
        "I": "insert into {table} ",
        "U": "update {table} set ",
        "D": "delete from {table} where ",
        "R": "truncate {table}",
    }
    copy.apply(heads[type], data)


FORMS = {"jsontriga": replay_json, "logutriga": replay_url, "sqltriga": replay_sql}


@pytest.fixture
def api(streams_dsn: str) -> Iterator[Api]:
    with api_of(streams_dsn) as api:
        yield api


@pytest.mark.hypothesis
@pytest.mark.parametrize(("trigger", "replay"), FORMS.items(), ids=list(FORMS))
def test_a_replayed_stream_gives_the_same_table(
    api: Api, trigger: str, replay: Callable[[Table, str, str], None]
) -> None:
    table, copy = Table(api, "watched"), Table(api, "copy")
    table.create()
    copy.create()
    api.run(
        f"""
        create trigger rows after insert or update or delete on watched
        for each row execute function pgque.{trigger}('{api.queue}');
        create trigger emptied after truncate on watched
        for each statement execute function pgque.{trigger}('{api.queue}');
        """
    )
    read = 0

    @settings(
        max_examples=examples(60),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=True,
        database=None,
    )
    @given(CHANGES)
    def replayed(changes: list[tuple[str, int, dict[str, Any]]]) -> None:
        nonlocal read
        for verb, key, row in changes:
            if verb == "empty":
                table.truncate()
            elif verb == "remove":
                table.delete(key)
            elif key in table.taken():
                table.update(key, row or {"txt": None})
            else:
                table.insert({"id": key, **row})
        events = api.stored()
        for type, data, *_ in events[read:]:
            replay(copy, type, data)
        read = len(events)
        assert copy.rows() == table.rows()

    replayed()
