"""Faults: what each does to the site, and when the site works again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress

import psycopg

from tests.fire.faults import flood
from tests.fire.faults.plan import Fault
from tests.fire.faults.proxy import Cut, Proxy
from tests.fire.history import Recorder
from tests.fire.load.doors import Rest
from tests.fire.site import Clients, Node, Postgres

RECOVERED_S = 120.0
PROBE = "probe"
LONGER_THAN_ACQUIRE_S = 6.0
"""A server gives up waiting for a free connection after five seconds."""
LONGER_THAN_ROTATION_S = 6.0
CLOCK_S = 2.0
MOST_CONNECTIONS = 250


class Faults:
    """Carries out a plan. A fault ends when every node it touched acknowledges a send again."""

    def __init__(
        self,
        recorder: Recorder,
        postgres: Postgres,
        nodes: list[Node],
        proxies: list[Proxy],
        clients: Clients,
        token: str,
    ):
        self._recorder = recorder
        self._postgres = postgres
        self._nodes = nodes
        self._proxies = proxies
        self._clients = clients
        self._token = token
        self._doors = [Rest(recorder, [node.url], token) for node in nodes]
        self._probes = 0
        self._release = 0
        self.recoveries: dict[str, list[float]] = {}
        self._deeds: dict[str, Callable[[Fault], list[int]]] = {
            "kill server": self._kill_server,
            "kill postgres": self._kill_postgres,
            "terminate server": self._terminate_server,
            "kill worker": self._kill_worker,
            "stop server": self._stop_server,
            "end backends": self._end_backends,
            "idle transaction": self._idle_transaction,
            "cut before requests": lambda fault: self._cut(fault, "before the request"),
            "cut after requests": lambda fault: self._cut(fault, "after the request"),
            "cut during answers": lambda fault: self._cut(fault, "during the answer"),
            "exhaust pool": self._exhaust_pool,
            "exhaust connections": self._exhaust_connections,
            "fill disk": self._fill_disk,
            "step clock": self._step_clock,
            "flood": self._flood,
            "slow consumers": self._slow_consumers,
            "upgrade": self._upgrade,
        }

    def inject(self, fault: Fault) -> float:
        """The seconds until everything worked again."""
        began = time.monotonic()
        seconds = CLOCK_S if fault.kind == "step clock" else 0.0
        number = self._recorder.begin("fault", fault.kind, {"node": fault.node, "seconds": seconds})
        touched = self._deeds[fault.kind](fault)
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
            self._postgres.start_if_dead()
            time.sleep(0.02)

    @property
    def _everywhere(self) -> list[int]:
        return list(range(len(self._nodes)))

    # Processes

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
        return self._everywhere

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

    def _slow_consumers(self, fault: Fault) -> list[int]:
        """The worker does nothing for longer than its leases, the sink for longer than event tables rotate."""
        pids = [self._clients.pid(role) for role in ("worker", "sink")]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(LONGER_THAN_ROTATION_S)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        return []

    def _upgrade(self, fault: Fault) -> list[int]:
        """Node by node: the first of the next release migrates while the others are of the last one."""
        self._release += 1
        for place, node in enumerate(self._nodes):
            node.environment["FIRE_RELEASE"] = str(self._release)
            node.stop()
            node.start()
            self.await_send(place)
            if node is not self._nodes[-1]:
                time.sleep(fault.seconds)
        return self._everywhere

    def _step_clock(self, fault: Fault) -> list[int]:
        """One node is ahead of the others, then behind them, then right again."""
        node = self._nodes[fault.node]
        for seconds in (CLOCK_S, -CLOCK_S, 0.0):
            node.set_clock(seconds)
            time.sleep(fault.seconds / 2)
        return [fault.node]

    # PostgreSQL

    def _end_backends(self, fault: Fault) -> list[int]:
        with psycopg.connect(self._postgres.dsn, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where backend_type = 'client backend' and pid <> pg_backend_pid()"
            )
        return self._everywhere

    def _idle_transaction(self, fault: Fault) -> list[int]:
        """A snapshot that is held for a while, as by a long report."""
        with closing(psycopg.connect(self._postgres.dsn)) as connection:
            connection.execute("set transaction isolation level repeatable read")
            connection.execute("select count(*) from pg_class")
            time.sleep(fault.seconds)
        return []

    def _exhaust_pool(self, fault: Fault) -> list[int]:
        """Every statement waits for a lock, until no connection is free."""
        with closing(psycopg.connect(self._postgres.dsn)) as connection:
            connection.execute("lock table penstock.queues in access exclusive mode")
            time.sleep(LONGER_THAN_ACQUIRE_S)
        return self._everywhere

    def _exhaust_connections(self, fault: Fault) -> list[int]:
        """Others take every connection that PostgreSQL has, and then the servers lose theirs."""
        self._end_backends(fault)
        with ExitStack() as taken:
            with suppress(psycopg.OperationalError):
                for _ in range(MOST_CONNECTIONS):
                    taken.enter_context(closing(psycopg.connect(self._postgres.dsn)))
            time.sleep(fault.seconds)
        return self._everywhere

    def _fill_disk(self, fault: Fault) -> list[int]:
        with self._postgres.full_disk():
            time.sleep(fault.seconds)
        return self._everywhere

    # The network

    def _cut(self, fault: Fault, how: Cut) -> list[int]:
        proxy = self._proxies[fault.node]
        proxy.cut = how
        time.sleep(fault.seconds)
        proxy.cut = None
        return [fault.node]

    def _flood(self, fault: Fault) -> list[int]:
        number = self._recorder.begin("flood", flood.QUEUE, {"node": fault.node})
        statuses = flood.run(self._nodes[fault.node].port, self._token, fault.seconds)
        self._recorder.end(number, "ok", statuses)
        return [fault.node]
