"""Plays a script on two nodes of one store, with a clock of its own, and writes the history that the checks read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.engine.topics.webhooks import WebhookSettings, new_secret
from penstock.errors import JobNotFound, LeaseStale
from penstock.loops.deliverer import Deliverer
from penstock.loops.scheduler import Scheduler
from penstock.model import Handle, Message, Outcome, Receive, Send, TenantId
from penstock.model.jobs import Completion, Failure, JobLimits, LeasedJob, LeaseRequest, NewJob
from penstock.model.schedules import TargetKind
from penstock.model.topics import NewSubscription, Publish
from penstock.store import Store
from tests.endpoint import Answer, Arrival, Endpoint, listening
from tests.fire.history import Call, History, key_of

LEASE_S = 5
EACH_S = 0.01
"""What every call takes by the clock of the script."""


class Player:
    def __init__(self, store: Store, clock: FakeClock, tenants: tuple[TenantId, TenantId]) -> None:
        self._store = store
        self._clock = clock
        self._tenants = tenants
        self._calls: list[Call] = []
        self.nodes = [self._node(), self._node()]

    def _node(self) -> Engine:
        return Engine(self._store, self._clock, webhooks=WebhookSettings(allow_private=True))

    @property
    def history(self) -> History:
        return History(self._calls)

    def restart(self, node: int) -> None:
        """The node dies: what only it knew is gone."""
        self.nodes[node] = self._node()

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds=seconds)

    async def _call(self, op: str, target: str, given: dict[str, Any], act: Callable[[], Awaitable[Any]]) -> Any:
        self.advance(EACH_S)
        began = self._clock.now().timestamp()
        self.advance(EACH_S)
        result = await act()
        self.advance(EACH_S)
        self._calls.append(Call(op, target, began, self._clock.now().timestamp(), "ok", given, result, "script"))
        return result

    def note(self, op: str, target: str, result: Any = None, **given: Any) -> None:
        now = self._clock.now().timestamp()
        self._calls.append(Call(op, target, now, now, "ok", given, result, "script"))

    # Queues. The name of a queue of the second tenant begins with `two:`

    def _at(self, queue: str) -> tuple[TenantId, str]:
        return self._tenants[queue.startswith("two:")], queue.removeprefix("two:")

    async def create(self, queue: str, **settings: Any) -> None:
        tenant, name = self._at(queue)
        real = {key: value for key, value in settings.items() if key in ("max_receives", "dead_letter_queue")}
        await self.nodes[0].queues.create(tenant, name, real)
        self.note("create", queue, **settings)

    async def send(self, queue: str, *bodies: str, node: int = 0, **more: Any) -> None:
        tenant, name = self._at(queue)
        for body in bodies:
            attributes = json.dumps({"check": {"type": "String", "value": body}})
            dedup_id = more.get("dedup_id") or (key_of(body) if "group" in more else None)
            entry = Send(
                tenant=tenant, queue=name, body=body, attributes=attributes, delay_s=more.get("delay"),
                group_id=more.get("group"), dedup_id=dedup_id,
            )  # fmt: skip
            message = {"body": body, "attributes": {"check": body}, **more, "dedup_id": entry.dedup_id}

            async def act(entry: Send = entry) -> dict[str, Any]:
                await self.nodes[node].messages.send(entry)
                return {"refused": []}

            await self._call("send", queue, {"messages": [message], "door": "rest"}, act)

    async def send_at_once(self, queue: str, *bodies: str) -> None:
        """So many clients at the same moment: their messages share a statement."""
        await asyncio.gather(*(self.send(queue, body) for body in bodies))

    async def receive(self, queue: str, limit: int = 10, vt: int = LEASE_S, node: int = 1) -> list[Message]:
        tenant, name = self._at(queue)
        found: list[Message] = []

        async def act() -> list[dict[str, Any]]:
            request = Receive(tenant=tenant, queue=name, limit=limit, visibility_timeout_s=vt)
            found.extend(await self.nodes[node].messages.receive(request))
            return [_seen(message) for message in found]

        await self._call("receive", queue, {"vt": vt, "max": limit, "door": "rest"}, act)
        return found

    async def delete(self, queue: str, *messages: Message, node: int = 1) -> None:
        tenant, name = self._at(queue)
        for message in messages:
            handle = Handle(tenant=tenant, queue=name, id=message.id, lease=message.lease)

            async def act(handle: Handle = handle) -> bool:
                return await self.nodes[node].messages.delete(handle) is Outcome.DONE

            given = {"id": str(message.id), "count": message.receives, "door": "rest"}
            await self._call("delete", queue, given, act)

    async def hide(self, queue: str, message: Message, seconds: int, node: int = 1) -> None:
        tenant, name = self._at(queue)
        handle = Handle(tenant=tenant, queue=name, id=message.id, lease=message.lease)

        async def act() -> bool:
            return (await self.nodes[node].messages.change_visibility(handle, seconds))[0] is Outcome.DONE

        given = {"id": str(message.id), "count": message.receives, "door": "rest", "seconds": seconds}
        await self._call("hide", queue, given, act)

    async def empty(self, queue: str, rounds: int = 8) -> None:
        """Receive and delete until nothing is left, and write down the counts."""
        for _ in range(rounds):
            await self.delete(queue, *await self.receive(queue))
            self.advance(LEASE_S + 1)
        tenant, name = self._at(queue)

        async def act() -> dict[str, int]:
            [(_, counts)] = await self._store.queue_counts(tenant, [name], self._clock.now())
            return {"queue_length": counts.total, "total_messages": counts.sent}

        await self._call("counts", queue, {}, act)

    # Jobs

    async def limit(self, queue: str, concurrency: int) -> None:
        limits = JobLimits(concurrency=concurrency)
        await self.nodes[0].jobs.set_limits(self._tenants[0], queue, limits, "script")
        self.note("create", queue, concurrency=concurrency)

    async def enqueue(self, queue: str, retries: int = 3, after: str | None = None) -> str:
        async def act() -> dict[str, list[str]]:
            others = () if after is None else (after,)
            entry = NewJob(tenant=self._tenants[0], queue=queue, payload="{}", max_retries=retries, after=others)
            return {"ids": [(await self.nodes[0].jobs.enqueue(entry)).id]}

        answer: dict[str, list[str]] = await self._call("enqueue", queue, {"after": after}, act)
        return answer["ids"][0]

    async def lease(self, queue: str, limit: int = 1, node: int = 1) -> list[LeasedJob]:
        found: list[LeasedJob] = []

        async def act() -> list[dict[str, Any]]:
            request = LeaseRequest(tenant=self._tenants[0], queue=queue, lease_s=LEASE_S, workers=["w"] * limit)
            found.extend(await self.nodes[node].jobs.lease(request))
            return [{"id": job.id, "attempt": job.attempts} for job in found]

        await self._call("lease", queue, {"lease_s": LEASE_S, "max": limit}, act)
        return found

    async def ack(self, *jobs: LeasedJob) -> None:
        for job in jobs:

            async def act(job: LeasedJob = job) -> bool:
                try:
                    entry = Completion(tenant=self._tenants[0], id=job.id, token=job.token)
                    await self.nodes[1].jobs.complete(entry)
                except (LeaseStale, JobNotFound):
                    return False
                return True

            await self._call("ack", job.queue, {"id": job.id, "attempt": job.attempts}, act)

    async def nack(self, job: LeasedJob) -> None:
        async def act() -> bool:
            await self.nodes[1].jobs.fail(
                Failure(tenant=self._tenants[0], id=job.id, token=job.token, error="no", retry_after_s=0)
            )
            return True

        await self._call("nack", job.queue, {"id": job.id, "attempt": job.attempts}, act)

    async def cancel(self, queue: str, job_id: str) -> None:
        async def act() -> bool:
            await self.nodes[0].jobs.cancel(self._tenants[0], job_id)
            return True

        await self._call("cancel", queue, {"id": job_id}, act)

    async def final(self, queue: str, *job_ids: str) -> None:
        for job_id in job_ids:

            async def act(job_id: str = job_id) -> dict[str, Any]:
                job = await self._store.jobs.get(self._tenants[0], job_id)
                attempts = await self._store.jobs.attempts(self._tenants[0], job_id)
                return {
                    "status": job.status.value,
                    "max_retries": job.max_retries,
                    "attempts": [
                        {
                            "attempt": each.attempt,
                            "outcome": each.outcome.value,
                            "started_at": each.started_at.isoformat(),
                            "ended_at": None if each.ended_at is None else each.ended_at.isoformat(),
                        }
                        for each in attempts
                    ],
                }

            await self._call("job", queue, {"id": job_id}, act)

    # Schedules and webhooks

    async def schedule(self, name: str, queue: str, seconds: int) -> None:
        given: dict[str, Any] = {
            "every": f"{seconds}s",
            "target_kind": TargetKind.QUEUE,
            "target": queue,
            "body": "tick",
            "catchup": True,
        }
        await self.nodes[0].schedules.create(self._tenants[0], name, given)
        self.note("schedule", name, step_s=seconds, at=self._clock.now().isoformat())

    async def pause(self, name: str) -> None:
        self.note("pause", name, at=self._clock.now().isoformat())
        await self.nodes[0].schedules.patch(self._tenants[0], name, {"status": "paused"})

    async def fire(self) -> None:
        """Both nodes look for due schedules."""
        for node in self.nodes:
            await Scheduler(node).once()

    async def publish(self, *keys: str) -> None:
        """To a webhook, whose arrivals and final states are written down."""

        def answer(arrival: Arrival) -> Answer:
            self.note("arrival", "webhook", 200, id=arrival.headers["webhook-id"])
            return 200

        with listening(answer) as endpoint:
            await self._publish(endpoint, *keys)

    async def _publish(self, endpoint: Endpoint, *keys: str) -> None:
        node, tenant = self.nodes[0], self._tenants[0]
        raw, address = {"RawMessageDelivery": "true"}, f"{endpoint.url}/"
        new = NewSubscription(
            tenant=tenant, pattern="fire.#", protocol="http", endpoint=address, secret=new_secret(), attributes=raw
        )
        await node.topics.subscribe(new)
        deliverer = Deliverer(node, enabled=False)
        for key in keys:

            async def act(key: str = key) -> dict[str, str]:
                return {"id": (await node.topics.publish(Publish(tenant=tenant, routing_key="fire.e", body=key))).id}

            await self._call("publish", "fire", {"key": key, "queues": [], "webhook": True}, act)
            await deliverer.once()
            await deliverer.finish()
        for delivery in await node.webhooks.list(tenant):
            now = self._clock.now().timestamp()
            result = {"state": delivery.state.value}
            self._calls.append(Call("delivery", "webhook", now, now, "ok", {"id": delivery.message_id}, result))
        await deliverer.close()


def _seen(message: Message) -> dict[str, Any]:
    attributes = json.loads(message.attributes or "{}")
    return {
        "id": str(message.id),
        "count": message.receives,
        "body": message.body,
        "attributes": {name: found["value"] for name, found in attributes.items()},
        "group": message.group_id,
        "headers": json.loads(message.headers or "{}"),
    }
