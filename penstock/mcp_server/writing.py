"""Tools that change something. They exist only with `--allow-writes`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from penstock.mcp_server.api import Api
from penstock.mcp_server.bounds import bounded
from penstock.mcp_server.reading import Answer, Name, Tool

Ids = Annotated[list[int], Field(min_length=1, max_length=100)]
JobIds = Annotated[list[str], Field(min_length=1, max_length=100)]


class WritingTools:
    """The docstring of a method is what the agent reads about it."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def adding(self) -> list[Tool]:
        """Those that only add."""
        return [self.send_message, self.enqueue_job]

    def changing(self) -> list[Tool]:
        """Those that change or delete what exists."""
        return [
            self.redrive_dead_letters,
            self.delete_message,
            self.retry_dead_jobs,
            self.cancel_job,
            self.set_job_limits,
            self.replay_delivery,
        ]

    async def send_message(
        self,
        queue: Name,
        message: Annotated[Any, Field(description="Any JSON value; a string is sent as plain text.")],
        delay: Annotated[int | None, Field(ge=0, description="Seconds until it can be received.")] = None,
        group_id: Annotated[str | None, Field(description="Group; FIFO queues require it.")] = None,
        dedup_id: str | None = None,
    ) -> Answer:
        """Send one message to a queue. Its receivers act on it."""
        given = {"message": message, "delay": delay, "group_id": group_id, "dedup_id": dedup_id}
        body = {name: value for name, value in given.items() if value is not None or name == "message"}
        return bounded(await self._api.post("v1", "queues", queue, "messages", body=body))

    async def enqueue_job(
        self,
        queue: Name,
        payload: dict[str, Any],
        max_retries: Annotated[int, Field(ge=0)] = 3,
        priority: int = 0,
        run_at: Annotated[str | None, Field(description="Earliest start, in ISO 8601. Default: now.")] = None,
        unique_key: str | None = None,
    ) -> Answer:
        """Enqueue one job. A worker of the queue runs it."""
        body: dict[str, Any] = {
            "queue_name": queue,
            "payload": payload,
            "max_retries": max_retries,
            "priority": priority,
        }
        body |= {name: value for name, value in {"run_at": run_at, "unique_key": unique_key}.items() if value}
        return bounded(await self._api.post("jobs", body=body))

    async def redrive_dead_letters(
        self,
        queue: Annotated[str, Field(description="The queue that holds the dead letters.")],
        message_ids: Annotated[Ids | None, Field(description="Only these messages. Default: all.")] = None,
        rate: Annotated[int | None, Field(ge=1, description="Messages per second. Not with message_ids.")] = None,
    ) -> Answer:
        """Move dead letters back to the queues they came from. First repair what made them fail, or they come back.
        All: runs in the background, and `get_queue` shows its progress."""
        body = {name: value for name, value in {"ids": message_ids, "rate": rate}.items() if value is not None}
        return bounded(await self._api.post("v1", "queues", queue, "redrive", body=body))

    async def delete_message(self, queue: Name, message_id: int) -> Answer:
        """Delete one message for good, such as one that makes every receiver fail. `peek_messages` shows the ids."""
        await self._api.ask("DELETE", ("v1", "queues", queue, "messages", str(message_id)))
        return {"deleted": message_id}

    async def retry_dead_jobs(
        self,
        queue: Name,
        job_ids: Annotated[JobIds | None, Field(description="Only these jobs. Default: the oldest dead jobs.")] = None,
        limit: Annotated[int, Field(ge=1, le=10_000, description="Maximum number, without job_ids.")] = 100,
    ) -> Answer:
        """Make dead jobs of a queue pending again, with all their retries. First repair what made them fail."""
        body: dict[str, Any] = {"job_ids": job_ids} if job_ids else {"limit": limit}
        return bounded(await self._api.post("queues", queue, "dead", "requeue", body=body))

    async def cancel_job(self, job_id: Annotated[str, Field(max_length=64)]) -> Answer:
        """Cancel a pending job. It will not run."""
        return bounded(await self._api.post("jobs", job_id, "cancel"))

    async def set_job_limits(
        self,
        queue: Name,
        concurrency: Annotated[int | None, Field(ge=1, description="Jobs at a time; null: unlimited.")] = None,
        rate: Annotated[float | None, Field(gt=0, description="Starts per second; null: unlimited.")] = None,
        burst: Annotated[int | None, Field(ge=1, description="Starts at once after a pause.")] = None,
    ) -> Answer:
        """Replace the limits of a queue of jobs, across all workers. What is not given becomes unlimited."""
        body = {"concurrency": concurrency, "rate": rate, "burst": burst}
        return bounded(await self._api.ask("PUT", ("queues", queue, "limits"), body=body))

    async def replay_delivery(self, delivery_id: int) -> Answer:
        """Send a finished webhook delivery again, with all its retries. The endpoint receives it a second time."""
        found = await self._api.post("v1", "deliveries", str(delivery_id), "replay")
        return bounded(found if isinstance(found, dict) else {"replayed": delivery_id})
