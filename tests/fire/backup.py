"""A backup that is restored elsewhere serves what the original serves."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import psycopg

from penstock.store.postgres.backups import copy_cluster
from penstock.store.postgres.embedded.server import EmbeddedPostgres
from tests.fire.history import Recorder
from tests.fire.load.doors import Rest
from tests.fire.site import Access, Node, Postgres

QUEUE = "work"
MESSAGES = 50
TABLES = {
    "jobs": "select id::text, state::text from penstock.jobs order by 1",
    "schedules": "select name, next_fire_at::text from penstock.schedules order by 1",
    "queues": "select tenant_id::text, name from penstock.queues order by 1, 2",
    "subscriptions": "select id::text from penstock.subscriptions order by 1",
    "consumers": "select co_name from pgque.subscription join pgque.consumer on co_id = sub_consumer order by 1",
}


def restore_elsewhere(recorder: Recorder, node: Node, postgres: Postgres, access: Access, folder: Path) -> None:
    """Messages are sent and left in a queue; both servers are asked for them, the copy first."""
    original = Rest(recorder, [node.url], access.token)
    original._send(QUEUE, [{"body": f"backup-{number} x", "attributes": {}} for number in range(MESSAGES)])
    elsewhere = Postgres(folder)
    with tempfile.TemporaryFile() as archive:
        copy_cluster(postgres.dsn, archive)
        archive.seek(0)
        EmbeddedPostgres(folder).restore(archive)
    elsewhere.start()
    copy = Node(9, elsewhere.dsn, folder.with_suffix(".log"), node.environment)
    try:
        copy.start()
        copy.await_ready()
        stored = [_stored(dsn) for dsn in (postgres.dsn, elsewhere.dsn)]
        served = [_received(Rest(recorder, [url], access.token)) for url in (copy.url, node.url)]
        number = recorder.begin("backup", QUEUE, {})
        differs = sorted(name for name in TABLES if stored[0][name] != stored[1][name])
        recorder.end(number, "ok", {"differs": differs, "served": served[0], "expected": served[1]})
    finally:
        copy.stop()
        elsewhere.stop()


def _stored(dsn: str) -> dict[str, list[Any]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return {name: connection.execute(query.encode()).fetchall() for name, query in TABLES.items()}


def _received(rest: Rest) -> list[list[str]]:
    """Not recorded as receives: the copy is another server, with another history."""
    found = []
    while batch := rest._receive(QUEUE, 1000, 60, 0):
        found += [[each["id"], each["body"]] for each in batch]
        rest._delete(QUEUE, batch)
    return sorted(found)
