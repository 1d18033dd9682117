"""FastAPI: a request enqueues a job and returns at once; another asks how far the job is.

export PENSTOCK_URL=http://127.0.0.1:9324 PENSTOCK_TOKEN=me
penstock worker examples.fastapi_shop:tasks
fastapi run examples/fastapi_shop.py
curl -H 'Content-Type: application/json' -d '{"email": "ada@example.com", "pages": 3}' http://127.0.0.1:8000/reports
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel

from penstock import App, AsyncClient, JobNotFound, current_job

tasks = App(queue="reports")


@tasks.task(max_retries=5, timeout=60)
async def write_report(email: str, pages: int) -> dict[str, Any]:
    for page in range(pages):
        current_job().progress(100 * page // pages, f"page {page + 1}")
    return {"email": email, "pages": pages}


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One client for all requests: it keeps connections, and jobs enqueued at the same time share a request."""
    async with AsyncClient() as app.state.penstock:
        yield


app = FastAPI(lifespan=lifespan)


class NewReport(BaseModel):
    email: str
    pages: int = 1


@app.post("/reports", status_code=202)
async def create_report(report: NewReport, request: Request) -> dict[str, str]:
    job = write_report.job(report.email, pages=report.pages)
    [job_id] = await request.app.state.penstock.jobs.enqueue_many([job])
    return {"job": job_id}


@app.get("/reports/{job_id}")
async def read_report(job_id: str, request: Request) -> dict[str, Any]:
    try:
        job = await request.app.state.penstock.jobs.get(job_id)
    except JobNotFound:
        raise HTTPException(404, "there is no such report") from None
    return {"status": job.status, "progress": job.progress, "report": job.result}
