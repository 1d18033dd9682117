"""The page about consumers is true: its examples run in their order and print what it says."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import psycopg
import pytest

import penstock.consumer
from penstock.consumer.asynchronous import AsyncWorker
from penstock.consumer.options import Options, Settled
from penstock.consumer.sync import SyncWorker
from penstock.consumer.worker import Worker
from tests.consumer.conftest import PATIENCE_S
from tests.consumer.looking import eventually, settled
from tests.docs.pages import blocks, page, quoted, rows, section

DOCUMENTED_DSN = "postgresql://localhost/shop"


@pytest.fixture
def dsn(migrated_database: str) -> str:
    return migrated_database


def tick(worker: Worker) -> None:
    """From here on the numbers of the consumers know of everything that was sent."""
    with psycopg.connect(worker._dsn, autocommit=True) as connection:
        for source in worker._sources:
            connection.execute("select pgque.tick_if_waiting(%s)", [source.queue])


def until_settled(worker: Worker) -> None:
    """Wait until a consumer has had everything, as its owner would before pressing Ctrl-C."""
    with psycopg.connect(worker._dsn, autocommit=True) as connection:
        for source in worker._sources:
            eventually(partial(settled, connection, source.queue, source.consumer))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers that stop once there is nothing left to do."""
    start, start_async = SyncWorker.start, AsyncWorker.start

    def once(self: SyncWorker) -> None:
        tick(self)
        thread = threading.Thread(target=start, args=[self])
        thread.start()
        try:
            until_settled(self)
        finally:
            self.stop()
            thread.join(PATIENCE_S)

    async def once_async(self: AsyncWorker) -> None:
        tick(self)
        running = asyncio.create_task(start_async(self))
        await asyncio.to_thread(until_settled, self)
        self.stop()
        await running

    monkeypatch.setattr(SyncWorker, "start", once)
    monkeypatch.setattr(AsyncWorker, "start", once_async)


@pytest.mark.usefixtures("impatient")
def test_the_examples_print_what_the_page_says(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    found = blocks(page("docs/consumers.md"))
    try:
        for number, (language, text) in enumerate(found):
            if language == "python":
                exec(compile(text.replace(DOCUMENTED_DSN, dsn), f"example {number}", "exec"), names)
                follower = found[number + 1] if number + 1 < len(found) else ("", "")
                assert capsys.readouterr().out == (follower[1] if follower[0] == "text" else ""), text
    finally:
        names["producer"].close()


def test_every_option_is_documented() -> None:
    table = [row for row in rows(section(page("docs/consumers.md"), "## Consume")) if len(row) == 3]
    documented = {name for row in table for name in quoted(row[0])}

    assert documented == set(get_type_hints(Options)) == set(Settled.__dataclass_fields__)


def test_every_method_of_a_producer_is_documented() -> None:
    table = rows(section(page("docs/consumers.md"), "## Send"))
    documented = {quoted(row[0])[0].partition("(")[0] for row in table}
    public = {name for name in vars(penstock.consumer.Producer) if not name.startswith("_")} | {"connection"}

    assert documented == public


def test_a_page_names_the_package_to_install() -> None:
    [command] = [text for language, text in blocks(page("docs/consumers.md")) if language == "sh"]

    assert "[consumer]" in command
    assert "\nconsumer = [" in Path(__file__).parents[2].joinpath("pyproject.toml").read_text()


def test_everything_of_a_message_is_documented() -> None:
    table = [row for row in rows(section(page("docs/consumers.md"), "## Consume")) if len(row) == 2]
    documented = {name.partition("(")[0] for row in table for name in quoted(row[0])}

    assert documented == {name for name in dir(penstock.consumer.Message) if not name.startswith("_")} | {"verdict"}
