"""Tools that only read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, Field

from penstock.client import AsyncClient

Answer = dict[str, Any]
Tool = Callable[..., Awaitable[Answer]]
JobStatus = Literal["pending", "processing", "completed", "cancelled", "dead"]


def _not_only_dots(name: str) -> str:
    """A name is a part of a URL, where dots alone mean another place."""
    if not name.strip("."):
        raise ValueError("a name must not consist of dots only")
    return name


Name = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_not_only_dots)]
JobId = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_not_only_dots)]
Limit = Annotated[int, Field(ge=1, le=50, description="Maximum number of entries.")]
Seconds = Annotated[int, Field(ge=1, le=604_800, description="Seconds after which a wait is a problem.")]


class ReadingTools:
    """The docstring of a method is what the agent reads about it."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def all(self) -> list[Tool]:
        return [
            self.overview,
            self.list_queues,
            self.get_queue,
            self.peek_messages,
            self.list_jobs,
            self.get_job,
            self.get_job_queue,
            self.list_schedules,
            self.list_topics,
            self.list_deliveries,
            self.list_streams,
            self.get_stream,
        ]

    async def overview(self, stuck_after: Seconds = 300) -> Answer:
        """Start here. Lists problems (stuck queues, dead letters, dead jobs, late consumers, failing endpoints and
        schedules), then queues, jobs, consumers, endpoints and schedules with their numbers, the fullest first."""
        found: Answer = msgspec.to_builtins(await self._client.admin.status(stuck_after=stuck_after))
        parts = {name: _fullest(rows) for name, rows in found.items() if isinstance(rows, list) and name != "problems"}
        return {"at": found["at"], "problems": found["problems"], **parts}

    async def list_queues(self, prefix: Annotated[str, Field(max_length=80)] = "", limit: Limit = 50) -> Answer:
        """List queues of messages by name. Queues of jobs are separate: `overview` lists both with their numbers."""
        found = await self._client.queues.list(prefix=prefix, limit=limit + 1)
        return {"queues": [one.name for one in found[:limit]], "more": len(found) > limit}

    async def get_queue(self, queue: Name) -> Answer:
        """Show a queue of messages: counts, the age of the oldest message in seconds, settings, the queues whose dead
        letters it receives, and its redrives. Many in flight and none deleted: receivers are slow or crash. Many
        visible and none in flight: there is no receiver."""
        found = await self._client.queues.get(queue)
        sources = await self._client.queues.sources(queue)
        redrives = await self._client.queues.redrives(queue)
        return {**msgspec.to_builtins(found), "dead_letters_of": sources, "redrives": redrives[:5]}

    async def peek_messages(self, queue: Name, limit: Limit = 10) -> Answer:
        """Show the next messages of a queue. They are neither received nor hidden. `read_count` is the number of
        receives so far, `dead_letter_source` the queue that a dead letter came from. Needs the scope `receive`."""
        return {"messages": await self._client.queues.peek(queue, max=limit)}

    async def list_jobs(
        self,
        queue: Annotated[str | None, Field(max_length=80)] = None,
        status: JobStatus | None = None,
        limit: Limit = 20,
        cursor: Annotated[str | None, Field(description="`next_cursor` of the previous page.")] = None,
    ) -> Answer:
        """List jobs, newest first, with their payloads and last errors."""
        found = await self._client.jobs.list(queue_name=queue, status=status, limit=limit, cursor=cursor)
        return {"jobs": found.items, "total": found.total, "next_cursor": found.next_cursor}

    async def get_job(self, job_id: JobId) -> Answer:
        """Show a job: payload, status, result, error, and each attempt with its worker, times and error."""
        found: Answer = msgspec.to_builtins(await self._client.jobs.get(job_id))
        return found

    async def get_job_queue(self, queue: Name) -> Answer:
        """Show a queue of jobs: counts by status, the oldest pending job, and the limits on concurrency and rate.
        Many pending and none processing: no worker runs, or a limit holds them back."""
        counts = [one for one in await self._client.jobs.queues() if one.queue_name == queue]
        limits = await self._client.jobs.limits(queue)
        return {"queue": queue, "counts": counts[0] if counts else None, "limits": limits}

    async def list_schedules(
        self, name: Annotated[Name | None, Field(description="Show only this schedule, with its next fires.")] = None
    ) -> Answer:
        """List schedules with their status, next and last fire, and last error."""
        if name is None:
            return {"schedules": await self._client.schedules.list()}
        found: Answer = msgspec.to_builtins(await self._client.schedules.get(name))
        return found

    async def list_topics(self) -> Answer:
        """List topics, and the subscriptions to topics and to patterns of routing keys."""
        topics = await self._client.topics.list()
        return {"topics": topics, "subscriptions": await self._client.topics.subscriptions()}

    async def list_deliveries(
        self, state: Literal["pending", "sending", "delivered", "exhausted"] | None = None, limit: Limit = 20
    ) -> Answer:
        """List deliveries to webhooks, newest first, with their attempts and last error."""
        return {"deliveries": await self._client.topics.deliveries(state=state, limit=limit)}

    async def list_streams(self) -> Answer:
        """List streams with their numbers. Streams require PostgreSQL."""
        return {"streams": await self._client.streams.list()}

    async def get_stream(self, stream: Name) -> Answer:
        """Show a stream: settings, health checks, the position and lag of each consumer, and its dead letters."""
        streams = self._client.streams
        return {
            "stream": await streams.get(stream),
            "health": await streams.health(stream),
            "consumers": await streams.consumers(stream),
            "dead_letters": await streams.dead_letters(stream, limit=10),
        }


def _fullest(rows: list[dict[str, Any]], most: int = 20) -> list[Any]:
    """The rows with the largest numbers, and how many are left out."""
    ordered = sorted(rows, key=lambda row: -sum(value for value in row.values() if isinstance(value, int)))
    left = len(rows) - most
    return ordered if left <= 0 else [*ordered[:most], f"… (cut, {left} more)"]
