"""Jobs over HTTP: a client to enqueue them and ask after them, blocking or awaited, and a worker to run them."""

from penstock.client.async_client import AsyncClient
from penstock.client.client import Client
from penstock.client.exchange import Retries
from penstock.client.jobs import Job, JobFailed, LeasedJob
from penstock.client.new_jobs import NewJob
from penstock.client.running import RunningJob
from penstock.client.tasks import Dead, Retry
from penstock.client.worker import Worker

__all__ = [
    "AsyncClient",
    "Client",
    "Dead",
    "Job",
    "JobFailed",
    "LeasedJob",
    "NewJob",
    "Retries",
    "Retry",
    "RunningJob",
    "Worker",
]
