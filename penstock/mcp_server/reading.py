"""Tools that only read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from pydantic import Field

from penstock.mcp_server.api import Api
from penstock.mcp_server.bounds import bounded

Answer = dict[str, Any]
Tool = Callable[..., Awaitable[Answer]]
Name = Annotated[str, Field(min_length=1, max_length=255)]
Limit = Annotated[int, Field(ge=1, le=50, description="Maximum number of entries.")]
JobStatus = Literal["pending", "processing", "completed", "cancelled", "dead"]


class ReadingTools:
    """The docstring of a method is what the agent reads about it."""

    def __init__(self, api: Api) -> None:
        self._api = api

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

    async def overview(
        self,
        stuck_after: Annotated[
            int, Field(ge=1, le=604_800, description="Seconds after which a wait is a problem")
        ] = 300,
    ) -> Answer:
        """Start here. Lists problems (stuck queues, dead letters, dead jobs, late consumers, failing endpoints and
        schedules), then queues, jobs, consumers, endpoints and schedules with their numbers, the fullest first."""
        found = await self._api.get("v1", "status", stuck_after=stuck_after)
        parts = {name: _fullest(rows) for name, rows in found.items() if isinstance(rows, list) and name != "problems"}
        return bounded({"at": found["at"], "problems": found["problems"], **parts})

    async def list_queues(self, prefix: Annotated[str, Field(max_length=80)] = "", limit: Limit = 50) -> Answer:
        """List queues of messages by name. Queues of jobs are separate: `overview` lists both with their numbers."""
        found = await self._api.get("v1", "queues", prefix=prefix or None, limit=limit + 1)
        return bounded({"queues": [one["name"] for one in found[:limit]], "more": len(found) > limit})

    async def get_queue(self, queue: Name) -> Answer:
        """Show a queue of messages: counts, the age of the oldest message in seconds, settings, the queues whose dead
        letters it receives, and its redrives. Many in flight and none deleted: receivers are slow or crash. Many
        visible and none in flight: there is no receiver."""
        found = await self._api.get("v1", "queues", queue)
        sources = await self._api.get("v1", "queues", queue, "sources")
        redrives = await self._api.get("v1", "queues", queue, "redrive")
        return bounded({**found, "dead_letters_of": sources, "redrives": redrives[:5]})

    async def peek_messages(self, queue: Name, limit: Limit = 10) -> Answer:
        """Show the next messages of a queue. They are neither received nor hidden. `read_count` is the number of
        receives so far, `dead_letter_source` the queue that a dead letter came from. Needs the scope `receive`."""
        found = await self._api.get("v1", "queues", queue, "messages", peek=True, max=limit)
        return bounded({"messages": found})

    async def list_jobs(
        self,
        queue: Annotated[str | None, Field(max_length=80)] = None,
        status: JobStatus | None = None,
        limit: Limit = 20,
        cursor: Annotated[str | None, Field(description="`next_cursor` of the previous page.")] = None,
    ) -> Answer:
        """List jobs, newest first, with their payloads and last errors."""
        found = await self._api.get("jobs", queue_name=queue, status=status, limit=limit, cursor=cursor)
        return bounded({"jobs": found["items"], "total": found["total"], "next_cursor": found["next_cursor"]})

    async def get_job(self, job_id: Annotated[str, Field(max_length=64)]) -> Answer:
        """Show a job: payload, status, result, error, and each attempt with its worker, times and error."""
        return bounded(await self._api.get("jobs", job_id, "detail"))

    async def get_job_queue(self, queue: Name) -> Answer:
        """Show a queue of jobs: counts by status, the oldest pending job, and the limits on concurrency and rate.
        Many pending and none processing: no worker runs, or a limit holds them back."""
        rows = await self._api.get("dashboard", "queues")
        counts = next((row for row in rows if row["queue_name"] == queue), None)
        limits = await self._api.find("queues", queue, "limits")
        return bounded({"queue": queue, "counts": counts, "limits": limits})

    async def list_schedules(
        self, name: Annotated[str | None, Field(description="Show only this schedule, with its next fires.")] = None
    ) -> Answer:
        """List schedules with their status, next and last fire, and last error."""
        if name:
            return bounded(await self._api.get("v1", "schedules", name))
        return bounded({"schedules": await self._api.get("v1", "schedules")})

    async def list_topics(self) -> Answer:
        """List topics, and the subscriptions to topics and to patterns of routing keys."""
        topics = await self._api.get("v1", "topics")
        return bounded({"topics": topics, "subscriptions": await self._api.get("v1", "subscriptions")})

    async def list_deliveries(
        self, state: Literal["pending", "sending", "delivered", "exhausted"] | None = None, limit: Limit = 20
    ) -> Answer:
        """List deliveries to webhooks, newest first, with their attempts and last error."""
        return bounded({"deliveries": await self._api.get("v1", "deliveries", state=state, limit=limit)})

    async def list_streams(self) -> Answer:
        """List streams with their numbers. Streams require PostgreSQL."""
        return bounded({"streams": await self._api.get("v1", "streams")})

    async def get_stream(self, stream: Name) -> Answer:
        """Show a stream: settings, health checks, the position and lag of each consumer, and its dead letters."""
        path = ("v1", "streams", stream)
        return bounded(
            {
                "stream": await self._api.get(*path),
                "health": await self._api.get(*path, "health"),
                "consumers": await self._api.get(*path, "consumers"),
                "dead_letters": await self._api.get(*path, "dead-letters", limit=10),
            }
        )


def _fullest(rows: list[dict[str, Any]], most: int = 20) -> list[Any]:
    """The rows with the largest numbers, and how many are left out."""
    ordered = sorted(rows, key=lambda row: -sum(value for value in row.values() if isinstance(value, int)))
    left = len(rows) - most
    return ordered if left <= 0 else [*ordered[:most], f"… (cut, {left} more)"]
