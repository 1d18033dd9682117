"""The client for programs that block."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from penstock.client.address import address
from penstock.client.exchange import Retries
from penstock.client.job_calls import Jobs
from penstock.client.namespaces import Admin, Queues, Schedules, Streams, Topics
from penstock.client.transport import HttpTransport, Transport


class Client:
    """Everything that the HTTP API of a server offers.

    `url` and `token` default to the variables PENSTOCK_URL and PENSTOCK_TOKEN. May be shared between threads. Failures
    that pass are tried again, with growing pauses; what may have been done already is repeated only when that does no
    harm.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retries: Retries | None = None,
        transport: Transport | None = None,
    ) -> None:
        self._transport = transport or HttpTransport(*address(url, token))
        parts = (self._transport, retries or Retries())
        self.queues = Queues(*parts)
        self.jobs = Jobs(*parts)
        self.topics = Topics(*parts)
        self.streams = Streams(*parts)
        self.schedules = Schedules(*parts)
        self.admin = Admin(*parts)

    def __repr__(self) -> str:
        return f"<Client of {self._transport}>"

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
