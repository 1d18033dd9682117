from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from opentelemetry import trace

from penstock.testing.server import MemoryServer
from penstock.tracing.spans import Tracer, open_tracer
from tests.tracing.receiver import Receiver, receiving


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with receiving() as found:
        yield found


@pytest.fixture
def program(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tracer]:
    """The tracer of the program that uses Penstock, set up as its global one."""
    tracer = open_tracer(receiver.url, 1.0, service="program", version="1")
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", tracer.provider)
    yield tracer
    tracer.close()


@dataclass
class Traced:
    server: MemoryServer
    receiver: Receiver


@pytest.fixture
def traced(receiver: Receiver) -> Iterator[Traced]:
    with MemoryServer(otlp_enabled=True, otlp_endpoint=receiver.url) as server:
        yield Traced(server, receiver)
