"""The Python client: queues, jobs, topics, streams and schedules over HTTP, blocking or awaited, and a worker."""

from penstock.client.api.jobs import Job, JobFailed, LeasedJob
from penstock.client.api.new_jobs import NewJob
from penstock.client.api.queues import Message
from penstock.client.app import App, current_job
from penstock.client.async_client import AsyncClient
from penstock.client.client import Client
from penstock.client.exchange import Retries
from penstock.client.running import RunningJob
from penstock.client.tasks import Dead, Retry
from penstock.client.worker import Worker

__all__ = [
    "App",
    "AsyncClient",
    "Client",
    "Dead",
    "Job",
    "JobFailed",
    "LeasedJob",
    "Message",
    "NewJob",
    "Retries",
    "Retry",
    "RunningJob",
    "Worker",
    "current_job",
]
