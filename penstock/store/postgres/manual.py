"""Prints docs/sql-reference.md from a database: `python -m penstock.store.postgres.manual postgresql://…`."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import asyncpg

from penstock.queries import load

SQL = load(Path(__file__).parent)

HEAD = """\
# SQL reference

Every function for users of the schemas `penstock` and `pgque`, with the signatures and comments of the database;
`\\df+ penstock.*` in psql shows the same. `python -m penstock.store.postgres.manual DATABASE_URL` writes this page.
[The SQL API](sql.md) and [Streams in SQL](streams.md) have examples, roles and errors.

Arguments can be given by name: `penstock.send('orders', 'hello', delay_s => 60)`. The role is the least that may call a
function; an admin may call what a writer may, and a writer what a reader may. Functions without a comment are internal.
"""

TITLES = {
    "penstock": (
        "Queues, topics, jobs and schedules: `penstock`",
        "`penstock_reader`, `penstock_writer`, `penstock_admin`",
    ),
    "pgque": ("Streams: `pgque`", "`pgque_reader`, `pgque_writer`, `pgque_admin`"),
}

_TYPES = {
    "timestamp with time zone": "timestamptz",
    "character varying": "varchar",
    "double precision": "float8",
}
_CAST = re.compile(r"::(?:[a-z ]+)(?:\[\])?")


async def reference(dsn: str) -> str:
    """The page, from the functions of this database."""
    connection = await asyncpg.connect(dsn)
    try:
        found = await connection.fetch(SQL["functions"])
    finally:
        await connection.close()
    return "\n".join([HEAD, *_lines(found)])


def _lines(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for schema, functions in groupby(found, key=lambda row: str(row["schema"])):
        title, roles = TITLES[schema]
        yield f"## {title}\n\nRoles: {roles}.\n"
        for name, forms in groupby(functions, key=lambda row: str(row["name"])):
            yield from _described(schema, name, list(forms))


def _described(schema: str, name: str, forms: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"### {schema}.{name}\n\n{forms[0]['comment']} Role: {forms[0]['role']}.\n\n```sql"
    for form in forms:
        result = _short(form["result"])
        arguments = [_short(each) for each in _split(form["arguments"])]
        line = f"{schema}.{name}({', '.join(arguments)})"
        yield line if len(line) <= 110 else f"{schema}.{name}(\n  " + ",\n  ".join(arguments) + "\n)"
        yield f"  returns {result}" if len(result) <= 110 else "  " + _wrapped(result)
    yield "```\n"


def _split(arguments: str) -> list[str]:
    """At the commas between arguments, not those inside of brackets."""
    return [each for each in re.split(r", (?![^(]*\))", arguments) if each]


def _short(text: str) -> str:
    for long, short in _TYPES.items():
        text = text.replace(long, short)
    head, default, value = text.partition(" DEFAULT ")
    return (
        f"{head} default {_CAST.sub('', value).lower()}"
        if default
        else text.replace("TABLE(", "table(").replace("SETOF", "setof")
    )


def _wrapped(result: str) -> str:
    columns = _split(result.removeprefix("table(").removesuffix(")"))
    return "returns table(\n    " + ",\n    ".join(columns) + "\n  )"


if __name__ == "__main__":
    print(asyncio.run(reference(sys.argv[1])), end="")
