"""Exporting traces, when the settings ask for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from penstock.config import Settings, SettingsError
from penstock.server.versions import version

if TYPE_CHECKING:
    from penstock.tracing.spans import Tracer

log = logging.getLogger(__name__)

SERVICE = "penstock"


def check_traces(settings: Settings) -> None:
    """Traces that are asked for and never sent would only be missed when they are needed."""
    if settings.otlp_enabled and not _installed():
        raise SettingsError(
            ["OTLP_ENABLED is set, but OpenTelemetry is not installed: install penstock[otel], or unset it to start"]
        )


def _installed() -> bool:
    try:
        return (
            find_spec("opentelemetry.sdk.trace") is not None
            and find_spec("opentelemetry.exporter.otlp.proto.http") is not None
        )
    except ModuleNotFoundError:
        return False


@asynccontextmanager
async def tracing(settings: Settings) -> AsyncIterator[Tracer | None]:
    """The tracer of this process; None when traces are not exported."""
    if not settings.otlp_enabled:
        yield None
        return
    tracer = _open(settings, SERVICE)
    try:
        yield tracer
    finally:
        # In a thread: a receiver that does not answer must not hold up the rest.
        await asyncio.to_thread(tracer.close)


@contextmanager
def exporting(settings: Settings, service: str) -> Iterator[None]:
    """Have this program record spans, if the settings ask for it: for commands that are programs of their own."""
    if not settings.otlp_enabled:
        yield
        return
    tracer = _open(settings, service)
    from opentelemetry import trace

    trace.set_tracer_provider(tracer.provider)
    try:
        yield
    finally:
        tracer.close()


def _open(settings: Settings, service: str) -> Tracer:
    check_traces(settings)
    from penstock.tracing.spans import open_tracer

    tracer = open_tracer(settings.otlp_endpoint, settings.otlp_sample_rate, service=service, version=version())
    log.info("exporting traces", extra={"endpoint": settings.otlp_endpoint, "sample_rate": settings.otlp_sample_rate})
    return tracer
