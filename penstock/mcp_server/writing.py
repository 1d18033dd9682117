"""Tools that change something. They exist only with `--allow-writes`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from pydantic import Field

from penstock.client import AsyncClient
from penstock.client.api.queues import MessageOptions
from penstock.errors import Invalid
from penstock.mcp_server.reading import Answer, JobId, Name, Tool

Ids = Annotated[list[int], Field(min_length=1, max_length=100)]
JobIds = Annotated[list[JobId], Field(min_length=1, max_length=100)]


class WritingTools:
    """The docstring of a method is what the agent reads about it."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

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
        options = MessageOptions()
        if delay is not None:
            options["delay"] = delay
        if group_id is not None:
            options["group_id"] = group_id
        if dedup_id is not None:
            options["dedup_id"] = dedup_id
        return {"id": await self._client.queues.send(queue, message, **options)}

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
        job_id = await self._client.jobs.enqueue(
            queue, payload, max_retries=max_retries, priority=priority, run_at=run_at, unique_key=unique_key
        )
        return {"job_id": job_id}

    async def redrive_dead_letters(
        self,
        queue: Annotated[Name, Field(description="The queue that holds the dead letters.")],
        message_ids: Annotated[Ids | None, Field(description="Only these messages. Default: all.")] = None,
        rate: Annotated[int | None, Field(ge=1, description="Messages per second. Not with message_ids.")] = None,
    ) -> Answer:
        """Move dead letters back to the queues they came from. First repair what made them fail, or they come back.
        All: runs in the background, and `get_queue` shows its progress."""
        if message_ids is None:
            task: Answer = msgspec.to_builtins(await self._client.queues.redrive(queue, rate=rate))
            return task
        if rate is not None:
            raise Invalid("rate is for all dead letters, not for message_ids", field="rate")
        return {"moved": await self._client.queues.redrive_messages(queue, message_ids)}

    async def delete_message(self, queue: Name, message_id: int) -> Answer:
        """Delete one message for good, such as one that makes every receiver fail. `peek_messages` shows the ids."""
        await self._client.queues.delete_message(queue, message_id)
        return {"deleted": message_id}

    async def retry_dead_jobs(
        self,
        queue: Name,
        job_ids: Annotated[JobIds | None, Field(description="Only these jobs. Default: the oldest dead jobs.")] = None,
        limit: Annotated[int, Field(ge=1, le=10_000, description="Maximum number, without job_ids.")] = 100,
    ) -> Answer:
        """Make dead jobs of a queue pending again, with all their retries. First repair what made them fail."""
        return {"requeued": await self._client.jobs.requeue_dead(queue, job_ids, limit=limit)}

    async def cancel_job(self, job_id: JobId) -> Answer:
        """Cancel a pending job. It will not run."""
        await self._client.jobs.cancel(job_id)
        return {"cancelled": job_id}

    async def set_job_limits(
        self,
        queue: Name,
        concurrency: Annotated[int | None, Field(ge=1, description="Jobs at a time; null: unlimited.")] = None,
        rate: Annotated[float | None, Field(gt=0, description="Starts per second; null: unlimited.")] = None,
        burst: Annotated[int | None, Field(ge=1, description="Starts at once after a pause.")] = None,
    ) -> Answer:
        """Replace the limits of a queue of jobs, across all workers. What is not given becomes unlimited."""
        found = await self._client.jobs.set_limits(queue, concurrency=concurrency, rate=rate, burst=burst)
        limits: Answer = msgspec.to_builtins(found)
        return limits

    async def replay_delivery(self, delivery_id: int) -> Answer:
        """Send a finished webhook delivery again, with all its retries. The endpoint receives it a second time."""
        found: Answer = msgspec.to_builtins(await self._client.topics.replay_delivery(delivery_id))
        return found
