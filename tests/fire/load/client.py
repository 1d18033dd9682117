"""What one client process of a run does, by its role."""

from __future__ import annotations

import logging
import os
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from tests.fire.history import Recorder
from tests.fire.load import events, jobs, queues
from tests.fire.load.doors import Door, Rest, Sql, Sqs
from tests.fire.processes import die_with_parent

FOREVER = {"worker", "sink"}
"""Roles that run until they are killed."""


def main(role: str, told: dict[str, Any]) -> None:
    die_with_parent()
    folder = Path(told["folder"])
    log = os.open(folder / f"{role}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    (folder / f"{role}.ready").touch()
    urls, dsn, seed = told["urls"], told["dsn"], told["seed"]

    def stop() -> bool:
        return (folder / "stop").exists()

    if role in FOREVER:
        logging.disable(logging.CRITICAL)  # what goes wrong here does so on purpose
        if role == "worker":
            with Recorder(folder, role) as history:
                jobs.work(history, urls[0], told["token"], seed)
        else:
            _again_and_again(lambda: events.sink(dsn))
        return
    with ExitStack() as stack:

        def recorder(name: str) -> Recorder:
            return stack.enter_context(Recorder(folder, f"{role}-{name}"))

        tasks: list[Callable[[], None]] = []
        doors: dict[str, Callable[[str], Door]] = {
            "rest": lambda name: Rest(recorder(name), urls, told["token"]),
            "sqs": lambda name: Sqs(recorder(name), urls, told["key"], told["secret"]),
            "sql": lambda name: Sql(recorder(name), [dsn]),
        }
        if role in doors:
            for place in range(told.get("clients", 1)):
                door, other = (doors[role](f"{kind}{place}") for kind in ("out", "in"))
                producer = queues.Producer(door, f"{role}{place}", seed, told["rate"])
                consumer = queues.Consumer(other, f"{role}{place}", seed, told.get("slow_s", 0.0))
                tasks += [partial(producer.run, stop), partial(consumer.run, stop)]
        elif role == "jobs":
            producing, *working = (
                jobs.JobClient(recorder(name), urls, told["token"], seed) for name in ("out", "in0", "in1")
            )
            tasks += [lambda: producing.produce(stop, 10), *(partial(client.work, stop) for client in working)]
        elif role == "events":
            reader = events.Reader(recorder("in"), urls, told["token"])
            tasks += [lambda: reader.run(stop)]
            for name in ("out0", "out1"):
                tasks.append(partial(events.produce, recorder(name), dsn, seed, stop))
            tasks.append(partial(events.publish, recorder("publish"), urls, told["token"], stop, 5))
        elif role == "tenant":
            other_tenant = Rest(recorder("both"), urls, told["other_token"])
            tasks.append(partial(queues.other_tenant, other_tenant, stop))
        else:
            raise SystemExit(f"unknown role {role!r}")
        threads = [threading.Thread(target=task, daemon=True) for task in tasks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _again_and_again(act: Callable[[], None]) -> None:
    """As a service manager would: a consumer may give up while its database is away."""
    while True:
        try:
            act()
        except Exception:
            traceback.print_exc()
        time.sleep(0.2)
