"""Faults: what each does to the site, and when the site works again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, closing

import psycopg

from tests.fire.history import Recorder
from tests.fire.load.doors import Rest
from tests.fire.plan import Fault
from tests.fire.site import Clients, Node, Postgres

RECOVERED_S = 120.0
PROBE = "probe"


class Faults:
    """Carries out a plan. A fault ends when every node it touched acknowledges a send again."""

    def __init__(self, folder: ExitStack, recorder: Recorder, postgres: Postgres, nodes: list[Node], clients: Clients):
        self._stack = folder
        self._recorder = recorder
        self._postgres = postgres
        self._nodes = nodes
        self._clients = clients
        self._doors = [Rest(recorder, [node.url]) for node in nodes]
        self._probes = 0
        self.recoveries: dict[str, list[float]] = {}

    def inject(self, fault: Fault) -> float:
        """The seconds until everything worked again."""
        deeds: dict[str, Callable[[Fault], list[int]]] = {
            "kill server": self._kill_server,
            "kill postgres": self._kill_postgres,
            "terminate server": self._terminate_server,
            "kill worker": self._kill_worker,
            "stop server": self._stop_server,
            "end backends": self._end_backends,
            "idle transaction": self._idle_transaction,
        }
        began = time.monotonic()
        number = self._recorder.begin("fault", fault.kind, {"node": fault.node, "seconds": 0.0})
        touched = deeds[fault.kind](fault)
        for node in touched:
            self.await_send(node)
        self._recorder.end(number, "ok")
        took = time.monotonic() - began
        self.recoveries.setdefault(fault.kind, []).append(took)
        return took

    def await_send(self, node: int) -> None:
        """Until a send through this node is acknowledged."""
        give_up = time.monotonic() + RECOVERED_S
        while True:
            self._probes += 1
            if self._doors[node].send(PROBE, [{"body": f"probe-{self._probes} x", "attributes": {}}]).ok:
                return
            if time.monotonic() > give_up:
                raise RuntimeError(f"node {node} did not recover:\n{self._nodes[node].log.read_text()[-2000:]}")
            time.sleep(0.02)

    def _kill_server(self, fault: Fault) -> list[int]:
        self._nodes[fault.node].kill()
        self._nodes[fault.node].start()
        return [fault.node]

    def _terminate_server(self, fault: Fault) -> list[int]:
        self._nodes[fault.node].stop()
        self._nodes[fault.node].start()
        return [fault.node]

    def _kill_postgres(self, fault: Fault) -> list[int]:
        self._postgres.kill()
        self._postgres.revive()
        return list(range(len(self._nodes)))

    def _kill_worker(self, fault: Fault) -> list[int]:
        self._clients.restart("worker")
        self._clients.restart("sink")
        return []

    def _stop_server(self, fault: Fault) -> list[int]:
        """Longer than any lease, so that what it held is given to others meanwhile."""
        os.kill(self._nodes[fault.node].pid, signal.SIGSTOP)
        time.sleep(fault.seconds + 1)
        os.kill(self._nodes[fault.node].pid, signal.SIGCONT)
        return [fault.node]

    def _end_backends(self, fault: Fault) -> list[int]:
        with psycopg.connect(self._postgres.dsn, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where backend_type = 'client backend' and pid <> pg_backend_pid()"
            )
        return list(range(len(self._nodes)))

    def _idle_transaction(self, fault: Fault) -> list[int]:
        """A snapshot that is held for a while, as by a long report."""
        with closing(psycopg.connect(self._postgres.dsn)) as connection:
            connection.execute("set transaction isolation level repeatable read")
            connection.execute("select count(*) from pg_class")
            time.sleep(fault.seconds)
        return []
