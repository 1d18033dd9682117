"""One run: start, load, faults, drain, facts, checks."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from tests import cluster
from tests.endpoint import Answer, Arrival, listening
from tests.fire import processes
from tests.fire.backup import restore_elsewhere
from tests.fire.checks import Violation
from tests.fire.checks.all import violations
from tests.fire.drain import SCHEDULE, Drain
from tests.fire.faults import flood
from tests.fire.faults.inject import PROBE, Faults
from tests.fire.faults.plan import KINDS, Fault, make_plan
from tests.fire.faults.proxy import Proxy
from tests.fire.history import History, Recorder
from tests.fire.load import events, jobs, queues
from tests.fire.load.doors import Rest, name_of
from tests.fire.site import Access, Clients, Node, Postgres, give_access

SCHEDULED = "scheduled"
STEP_S = 1

ROLES = ("rest", "sqs", "sql", "jobs", "worker", "events", "sink", "tenant")
DISK_MB = 1500


@dataclass
class Options:
    seconds: float = 60.0
    seed: int = 1
    nodes: int = 2
    rate: float = 60.0
    """Messages per second of each producer."""
    kinds: list[str] | None = None
    every: float = 5.0
    roles: tuple[str, ...] = ROLES
    keep: Path | None = None
    """Where histories of failed runs are kept."""
    postgres: dict[str, str] = field(default_factory=dict)
    servers: dict[str, str] = field(default_factory=dict)
    prepare: Callable[[str], None] | None = None
    """Given the connection string after the servers have started: mutants change functions here."""
    say: Callable[[str], None] = print


@dataclass
class Verdict:
    violations: list[Violation]
    calls: Counter[str]
    sent: int
    recoveries: dict[str, list[float]]
    folder: Path | None
    memory: list[tuple[float, float]]
    """Seconds since the start, and megabytes of all servers."""


def run(options: Options) -> Verdict:
    """Start everything, break it as planned, and judge."""
    kinds = list(KINDS) if options.kinds is None else options.kinds
    if "fill disk" in kinds and not processes.may_mount():
        options.say("no disk can be mounted here, so none is filled")
        kinds = [kind for kind in kinds if kind != "fill disk"]
    plan = make_plan(options.seed, options.seconds, options.nodes, kinds, options.every)
    options.say(f"seed {options.seed}, {options.seconds:.0f} s, {options.nodes} nodes, {len(plan)} faults:")
    for fault in plan:
        options.say(f"  {fault}")
    with tempfile.TemporaryDirectory(prefix="penstock-fire-", dir=cluster.in_memory()) as name:
        folder = Path(name)
        (folder / "history").mkdir()
        try:
            recoveries, memory = _carry_out(options, plan, folder)
        except BaseException:
            _keep(options, folder)
            raise
        history = History.read(folder / "history")
        found = violations(history)
        sent = sum(
            any(outcome == "ok" for _, _, outcome in attempts) for attempts in history.sends.values()
        )  # fmt: skip
        kept = _keep(options, folder) if found else None
        calls = Counter(f"{call.op} {call.outcome}" for call in history.calls)
        return Verdict(found, calls, sent, recoveries, kept, memory)


def _keep(options: Options, folder: Path) -> Path | None:
    """Every history of a failed run is kept, and the logs."""
    if options.keep is None:
        return None
    kept = options.keep / f"seed-{options.seed}-{time.strftime('%H%M%S')}"
    shutil.copytree(folder / "history", kept, ignore=shutil.ignore_patterns("stop", "*.ready"))
    for log in folder.glob("*.log"):
        shutil.copy(log, kept)
    return kept


def _carry_out(
    options: Options, plan: list[Fault], folder: Path
) -> tuple[dict[str, list[float]], list[tuple[float, float]]]:
    with ExitStack() as stack:
        recorder = stack.enter_context(Recorder(folder / "history", "run"))
        fills = any(fault.kind == "fill disk" for fault in plan)
        postgres = Postgres(folder / "data", options.postgres, DISK_MB if fills else None)
        stack.callback(postgres.stop)
        postgres.start()
        access = asyncio.run(give_access(postgres.dsn))
        nodes = [Node(n, postgres.dsn, folder / f"node{n}.log", dict(options.servers)) for n in range(options.nodes)]
        for node in nodes:
            node.start()
            stack.callback(node.stop)
        for node in nodes:
            node.await_ready()
        proxies = [Proxy(node.port, options.seed) for node in nodes]
        for proxy in proxies:
            stack.callback(proxy.close)
        endpoint = stack.enter_context(_endpoint(recorder, options.seed))
        _furnish(recorder, nodes, postgres.dsn, access, endpoint)
        if options.prepare is not None:
            options.prepare(postgres.dsn)
        urls = [proxy.url for proxy in proxies]
        told = {"urls": urls, "dsn": postgres.dsn, "seed": options.seed, "rate": options.rate, **asdict(access)}
        clients = Clients(folder / "history", told)
        stack.callback(clients.stop)
        for role in options.roles:
            clients.start(role)
        clients.await_ready()
        faults = Faults(recorder, postgres, nodes, proxies, clients, access.token)
        memory = _burn(options, plan, faults, nodes)
        clients.finish()
        if failed := clients.failed():
            logs = "".join((folder / "history" / f"{role}.log").read_text()[-2000:] for role in failed)
            raise RuntimeError(f"clients failed: {', '.join(failed)}\n{logs}")
        for place in range(len(nodes)):
            faults.await_send(place)
        options.say("drain")
        Drain(recorder, [node.url for node in nodes], postgres.dsn, access, options.say).run(options.roles)
        options.say("restore a backup elsewhere")
        restore_elsewhere(recorder, nodes[0], postgres, access, folder / "copy")
        return faults.recoveries, memory


def _burn(options: Options, plan: list[Fault], faults: Faults, nodes: list[Node]) -> list[tuple[float, float]]:
    """Inject the faults at their times, and say how it goes. The memory of the servers is noted twice a second.

    Where faults take long, those at the end of the plan are left out, but each kind comes once.
    """
    start = time.monotonic()
    left = list(plan)
    memory: list[tuple[float, float]] = []
    told = 0.0
    least = len({fault.kind for fault in plan})
    while (elapsed := time.monotonic() - start) < options.seconds or len(plan) - len(left) < least:
        if left and left[0].at <= elapsed:
            fault = left.pop(0)
            took = faults.inject(fault)
            options.say(f"{elapsed:6.1f} s  {fault.kind}: works again after {took:.2f} s")
        elif elapsed - told >= 10:
            told = elapsed
            options.say(
                f"{elapsed:6.1f} s  {len(left)} faults left, {memory[-1][1] if memory else 0:.0f} MB in servers"
            )
        else:
            memory.append((elapsed, sum(processes.memory_mb(node.pid) for node in nodes)))
            time.sleep(0.5)
    return memory


@contextmanager
def _endpoint(recorder: Recorder, seed: int) -> Iterator[str]:
    """Webhooks arrive here; one in ten is answered with an error."""
    random = Random(f"endpoint {seed}")

    def answer(arrival: Arrival) -> Answer:
        number = recorder.begin("arrival", "webhook", {"id": arrival.headers["webhook-id"]})
        status = 500 if random.random() < 0.1 else 200
        recorder.end(number, "ok", status)
        return status

    with listening(answer) as endpoint:
        yield endpoint.url


def _furnish(recorder: Recorder, nodes: list[Node], dsn: str, access: Access, endpoint: str) -> None:
    """Queues, a stream, a schedule and subscriptions, each recorded for the checks."""
    rest, other = (Rest(recorder, [nodes[0].url], token) for token in (access.token, access.other_token))

    def made(op: str, target: str, given: dict[str, Any], path: str, body: dict[str, Any], how: str = "POST") -> None:
        number = recorder.begin(op, target, given)
        rest.ask(how, path, body)
        recorder.end(number, "ok")

    more: dict[str, dict[str, Any]] = {PROBE: {"visibility_timeout": 3}}
    more |= {name: {"visibility_timeout": 3, "fed_by": "others"} for name in (events.PUBLISHED, SCHEDULED)}
    for name, settings in {**queues.QUEUES, **more}.items():
        real = {key: value for key, value in settings.items() if key not in queues.OURS}
        made("create", name, settings, "/v1/queues", {"name": name, **real})
    other.ask("POST", "/v1/queues", {"name": name_of(queues.OTHER), "visibility_timeout": 3})
    recorder.end(recorder.begin("create", queues.OTHER, {"visibility_timeout": 3, "tenant": "two"}), "ok")
    rest.ask("POST", "/v1/queues", {"name": flood.QUEUE})
    consumers = [events.CONSUMER]
    stream = {"name": events.STREAM, "rotation_period": 5}
    made("create", events.STREAM, {"consumers": consumers}, "/v1/streams", stream)
    for consumer in (events.CONSUMER, events.SINK):
        rest.ask("POST", f"/v1/streams/{events.STREAM}/consumers", {"name": consumer})
    limits = {"concurrency": jobs.CONCURRENCY}
    made("create", jobs.LIMITED, limits, f"/queues/{jobs.LIMITED}/limits", limits, "PUT")
    schedule = {"name": SCHEDULE, "every": f"{STEP_S}s", "target": SCHEDULED, "message": "tick", "catchup": True}
    given = {"step_s": STEP_S, "at": datetime.now(UTC).isoformat()}
    made("schedule", SCHEDULE, given, "/v1/schedules", {**schedule, "catchup_limit": 1000})
    for body in ({"queue_name": events.PUBLISHED}, {"endpoint": f"{endpoint}/hook"}):
        rest.ask("POST", "/v1/events/fire.%23/subscriptions", body)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"create table {events.TABLE} (key text)".encode())
