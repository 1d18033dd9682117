"""What AWS forbids for a minute after: a name to be used again, a queue to be purged again.

Only a strict server keeps to it, and each process to what it has seen itself: it is there for tests of clients.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from penstock.clock import Clock
from penstock.model import TenantId
from penstock.wire.sqs.errors import sqs_error

PAUSE = timedelta(seconds=60)

Moments = dict[tuple[TenantId, str], datetime]


class Recent:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deleted: Moments = {}
        self._purged: Moments = {}

    def deleted(self, tenant: TenantId, name: str) -> None:
        self._note(self._deleted, tenant, name)

    def check_created(self, tenant: TenantId, name: str) -> None:
        if self._is_recent(self._deleted, tenant, name):
            text = "You must wait 60 seconds after deleting a queue before you can create another with the same name."
            raise sqs_error("QueueDeletedRecently", text)

    def check_purged(self, tenant: TenantId, name: str) -> None:
        """Refuse a second purge too soon; the first is noted."""
        if self._is_recent(self._purged, tenant, name):
            text = f"Only one PurgeQueue operation on {name} is allowed every 60 seconds."
            raise sqs_error("PurgeQueueInProgress", text)
        self._note(self._purged, tenant, name)

    def _is_recent(self, moments: Moments, tenant: TenantId, name: str) -> bool:
        ended = moments.get((tenant, name))
        return ended is not None and ended > self._clock.now()

    def _note(self, moments: Moments, tenant: TenantId, name: str) -> None:
        now = self._clock.now()
        for key in [key for key, ends in moments.items() if ends <= now]:
            del moments[key]
        moments[tenant, name] = now + PAUSE
