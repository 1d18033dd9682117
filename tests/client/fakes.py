"""Servers that are not there: one that answers from a list, and one that leases jobs from memory."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from penstock.client.exchange import Answer, Failure, Request


def answer(status: int, body: object = None, retry_after: str | None = None) -> Answer:
    return Answer(status, b"" if body is None else json.dumps(body).encode(), retry_after)


def fault(status: int, code: str, message: str = "no", retry_after: str | None = None) -> Answer:
    return answer(status, {"error": message, "code": code}, retry_after)


class Scripted:
    """Answers in this order, and keeps what it was asked. For both kinds of client."""

    def __init__(self, *outcomes: Answer | Failure) -> None:
        self._outcomes = deque(outcomes)
        self.requests: list[Request] = []

    def send(self, request: Request) -> Answer | Failure:
        self.requests.append(request)
        return self._outcomes.popleft()

    def close(self) -> None:
        pass


class AsyncScripted:
    def __init__(self, *outcomes: Answer | Failure) -> None:
        self.script = Scripted(*outcomes)

    async def send(self, request: Request) -> Answer | Failure:
        await asyncio.sleep(0)
        return self.script.send(request)

    async def close(self) -> None:
        pass


Override = Callable[[Request], Answer | Failure | None]


class JobServer:
    """Leases the given payloads, once each, and keeps what is reported. `override` may answer in its place."""

    def __init__(self, payloads: Iterable[Any] = ()) -> None:
        self.waiting: deque[tuple[str, Any]] = deque((f"job-{n}", payload) for n, payload in enumerate(payloads, 1))
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        """Verb, subject and body of each request but leases."""
        self.leases: list[dict[str, Any]] = []
        self.override: Override = lambda request: None
        self._news = asyncio.Event()

    def add(self, job_id: str, payload: Any = None) -> None:
        self.waiting.append((job_id, payload))
        self._news.set()

    def told(self, verb: str) -> list[tuple[str, dict[str, Any]]]:
        return [(subject, body) for found, subject, body in self.calls if found == verb]

    async def send(self, request: Request) -> Answer | Failure:
        await asyncio.sleep(0)
        body = json.loads(request.body or b"{}")
        _, _, _, subject, verb = request.path.split("/")
        if verb == "lease":
            self.leases.append(body)
        else:
            self.calls.append((verb, subject, body))
        overridden = self.override(request)
        if overridden is not None:
            return overridden
        return await self._lease(body) if verb == "lease" else answer(200, {"status": "ok"})

    async def _lease(self, body: dict[str, Any]) -> Answer:
        if not self.waiting and "wait" in body:
            self._news.clear()
            try:
                async with asyncio.timeout(body["wait"]):
                    await self._news.wait()
            except TimeoutError:
                return answer(200, [])
        found = [self.waiting.popleft() for _ in range(min(body["max"], len(self.waiting)))]
        return answer(200, [_leased(job_id, payload) for job_id, payload in found])

    async def close(self) -> None:
        pass


def _leased(job_id: str, payload: Any) -> dict[str, Any]:
    job = {"id": job_id, "queue_name": "work", "status": "processing", "payload": payload}
    return {"job": job, "lease_token": f"token-of-{job_id}", "lease_expires_at": "2026-01-01T00:00:30Z"}
