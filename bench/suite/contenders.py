"""Job queues on PostgreSQL, each used as its documentation recommends, behind the same few verbs.

Run as processes of their own by bench/jobs.py: `python -m bench.suite.contenders NAME ROLE ADDRESS COUNT`. A process
says `ready` when it is connected, does its part when it reads a line, and then says `done`.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

QUEUE = "bench"
PAYLOAD = {"customer": "ada", "note": "x" * 150}
TEXT = json.dumps(PAYLOAD)
PRODUCERS = 16
"""Tasks of one process that enqueue at the same time, each one job after the other."""
BATCH = 500
HANDS = 100
"""Jobs that a worker process may have under way at a time."""


class Producer(Protocol):
    async def one(self) -> None: ...
    async def many(self, count: int) -> None: ...


class Contender(Protocol):
    unfinished: str
    """A query that finds a job that is not finished, if there is one."""

    async def install(self, address: str) -> None: ...

    @asynccontextmanager
    def producer(self, address: str) -> AsyncIterator[Producer]: ...

    @asynccontextmanager
    def worker(self, address: str) -> AsyncIterator[Callable[[asyncio.Event], Awaitable[None]]]:
        """What works until the event is set."""
        ...


class Procrastinate:
    unfinished = "select true from procrastinate_jobs where status in ('todo', 'doing') limit 1"

    def _app(self, address: str, connections: int) -> Any:
        import procrastinate

        connector = procrastinate.PsycopgConnector(conninfo=address, min_size=1, max_size=connections)
        app = procrastinate.App(connector=connector)

        @app.task(name="noop", queue=QUEUE)
        async def noop(**payload: Any) -> None:
            pass

        return app, noop

    async def install(self, address: str) -> None:
        app, _ = self._app(address, 2)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    @asynccontextmanager
    async def producer(self, address: str) -> AsyncIterator[Producer]:
        app, noop = self._app(address, PRODUCERS)

        class Defer:
            async def one(self) -> None:
                await noop.defer_async(**PAYLOAD)

            async def many(self, count: int) -> None:
                await noop.batch_defer_async(*[PAYLOAD] * count)

        async with app.open_async():
            yield Defer()

    @asynccontextmanager
    async def worker(self, address: str) -> AsyncIterator[Callable[[asyncio.Event], Awaitable[None]]]:
        app, _ = self._app(address, 20)

        async def work(stop: asyncio.Event) -> None:
            worker = asyncio.create_task(
                app.run_worker_async(queues=[QUEUE], concurrency=HANDS, install_signal_handlers=False)
            )
            await stop.wait()
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)

        async with app.open_async():
            yield work


class Pgqueuer:
    unfinished = "select true from pgqueuer limit 1"

    async def install(self, address: str) -> None:
        import asyncpg
        from pgqueuer.queries import Queries

        connection = await asyncpg.connect(address)
        await Queries.from_asyncpg_connection(connection).install()
        await connection.close()

    @asynccontextmanager
    async def producer(self, address: str) -> AsyncIterator[Producer]:
        import asyncpg
        from pgqueuer.queries import Queries

        async with asyncpg.create_pool(address, min_size=1, max_size=PRODUCERS) as pool:
            queries = Queries.from_asyncpg_pool(pool)
            body = TEXT.encode()

            class Enqueue:
                async def one(self) -> None:
                    await queries.enqueue(QUEUE, body)

                async def many(self, count: int) -> None:
                    await queries.enqueue([QUEUE] * count, [body] * count, [0] * count)

            yield Enqueue()

    @asynccontextmanager
    async def worker(self, address: str) -> AsyncIterator[Callable[[asyncio.Event], Awaitable[None]]]:
        import asyncpg
        from pgqueuer import PgQueuer

        async with asyncpg.create_pool(address, min_size=1, max_size=20) as pool:
            queuer = PgQueuer.from_asyncpg_pool(pool)

            @queuer.entrypoint(QUEUE)
            async def noop(job: Any) -> None:
                pass

            async def work(stop: asyncio.Event) -> None:
                worker = asyncio.create_task(queuer.run(batch_size=HANDS))
                await stop.wait()
                queuer.shutdown.set()
                await worker

            yield work


class PenstockHttp:
    """The SDK over HTTP: what users run."""

    unfinished = "select true from penstock.jobs where state <> 3 limit 1"

    async def install(self, address: str) -> None:
        pass

    @asynccontextmanager
    async def producer(self, address: str) -> AsyncIterator[Producer]:
        from penstock import AsyncClient, NewJob

        async with AsyncClient(address, "bench") as client:

            class Enqueue:
                async def one(self) -> None:
                    await client.jobs.enqueue(QUEUE, PAYLOAD)

                async def many(self, count: int) -> None:
                    await client.jobs.enqueue_many([NewJob(QUEUE, PAYLOAD)] * count)

            yield Enqueue()

    @asynccontextmanager
    async def worker(self, address: str) -> AsyncIterator[Callable[[asyncio.Event], Awaitable[None]]]:
        from penstock import Worker

        worker = Worker(address, "bench", QUEUE, concurrency=HANDS)

        @worker.task
        async def noop(job: Any) -> None:
            pass

        async def work(stop: asyncio.Event) -> None:
            serving = asyncio.create_task(worker.serve())
            await stop.wait()
            worker.stop()
            await serving

        yield work


class PenstockEngine:
    """The engine in the process of the caller, as its peers are."""

    unfinished = PenstockHttp.unfinished

    async def install(self, address: str) -> None:
        pass

    @asynccontextmanager
    async def _engine(self, address: str) -> AsyncIterator[Any]:
        from penstock.engine import Engine
        from penstock.store.postgres.store import PostgresStore

        engine = Engine(PostgresStore(address))
        await engine.open()
        try:
            yield engine
        finally:
            await engine.close()

    @asynccontextmanager
    async def producer(self, address: str) -> AsyncIterator[Producer]:
        from penstock.model import DEFAULT_TENANT
        from penstock.model.jobs import NewJob

        async with self._engine(address) as engine:

            class Enqueue:
                async def one(self) -> None:
                    await engine.jobs.enqueue(NewJob(tenant=DEFAULT_TENANT, queue=QUEUE, payload=TEXT))

                async def many(self, count: int) -> None:
                    jobs = [NewJob(tenant=DEFAULT_TENANT, queue=QUEUE, payload=TEXT) for _ in range(count)]
                    await engine.jobs.enqueue_batch(jobs)

            yield Enqueue()

    @asynccontextmanager
    async def worker(self, address: str) -> AsyncIterator[Callable[[asyncio.Event], Awaitable[None]]]:
        from penstock.model import DEFAULT_TENANT
        from penstock.model.jobs import Completion, LeaseRequest

        async with self._engine(address) as engine:

            async def run(job: Any) -> None:
                await engine.jobs.complete(Completion(tenant=DEFAULT_TENANT, id=job.id, token=job.token))

            async def work(stop: asyncio.Event) -> None:
                request = LeaseRequest(tenant=DEFAULT_TENANT, queue=QUEUE, lease_s=30, workers=["bench"] * HANDS)
                under_way: set[asyncio.Task[None]] = set()
                while not stop.is_set():
                    if len(under_way) >= HANDS:
                        await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                    for job in await engine.jobs.lease(request, 0.5):
                        task = asyncio.create_task(run(job))
                        under_way.add(task)
                        task.add_done_callback(under_way.discard)
                if under_way:
                    await asyncio.wait(under_way)

            yield work


CONTENDERS: dict[str, Contender] = {
    "penstock": PenstockHttp(),
    "in-process": PenstockEngine(),
    "procrastinate": Procrastinate(),
    "pgqueuer": Pgqueuer(),
}


# Roles


async def ready() -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def single(contender: Contender, address: str, count: int) -> None:
    """Sixteen at the same time, each one job after the other."""
    async with contender.producer(address) as producer:
        await producer.one()
        await ready()
        await asyncio.gather(*(repeat(producer.one, count // PRODUCERS) for _ in range(PRODUCERS)))
        print("done", flush=True)


async def batch(contender: Contender, address: str, count: int) -> None:
    async with contender.producer(address) as producer:
        await producer.one()
        await ready()
        for _ in range(count // BATCH):
            await producer.many(BATCH)
        print("done", flush=True)


async def work(contender: Contender, address: str, count: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with contender.worker(address) as worker:
        await ready()
        await worker(stop)


async def install(contender: Contender, address: str, count: int) -> None:
    await contender.install(address)


async def repeat(verb: Callable[[], Awaitable[None]], count: int) -> None:
    for _ in range(count):
        await verb()


def main() -> None:
    name, role, address, count = sys.argv[1:]
    roles = {"single": single, "batch": batch, "work": work, "install": install}
    asyncio.run(roles[role](CONTENDERS[name], address, int(count)))


if __name__ == "__main__":
    main()
