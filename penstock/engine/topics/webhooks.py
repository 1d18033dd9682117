"""Webhooks: requests to the endpoints of subscribers, repeated until they succeed or are exhausted.

A delivery is a row that a node claims for some time. When the node stops, the claim runs out and another node claims
the row: a delivery is made at least once, and each attempt by one node.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import logging
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING

from penstock.clock import Clock
from penstock.engine.batching import Batcher
from penstock.engine.insights.outcomes import Outcomes
from penstock.engine.metrics import Metrics
from penstock.engine.topics.addresses import Guard, refusal_of_host
from penstock.engine.topics.breakers import Breakers
from penstock.engine.topics.retries import USUAL_DELAYS_S, jittered
from penstock.errors import PenstockError
from penstock.model.samples import OutcomeKind
from penstock.model.tenants import TenantId
from penstock.model.topics import Attempted, Delivery, DeliveryState
from penstock.store import Store

if TYPE_CHECKING:
    from aiohttp import ClientSession

log = logging.getLogger(__name__)

LEASE_MARGIN_S = 5.0
"""How much longer than its request a claim lasts: time to write down what became of it."""
ERROR_CHARACTERS = 300
EXHAUSTED_KEPT = timedelta(days=14)
"""How long an exhausted delivery can be looked at and replayed."""
SECRET_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    timeout_s: float = 5.0
    parallel: int = 50
    """Requests under way in this process, at most."""
    each: int = 10
    """Of them, to one endpoint."""
    delays_s: tuple[float, ...] = USUAL_DELAYS_S
    rest_s: float = 10.0
    """How long an endpoint is left alone after failures in a row."""
    allow_private: bool = False
    """Endpoints may be at private, loopback and other addresses that are not public."""
    allow_loopback: bool = False
    """Endpoints may be at loopback addresses: for a server that listens on one itself."""
    retention_s: float = 86_400.0
    """How long a delivery that was made is kept for people to look at."""


class Webhooks:
    def __init__(
        self, store: Store, clock: Clock, metrics: Metrics, outcomes: Outcomes, settings: WebhookSettings
    ) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._outcomes = outcomes
        self._settings = settings
        self._breakers = Breakers(settings.rest_s)
        self._busy: Counter[int] = Counter()
        self._after = -(2**63)
        self._session: ClientSession | None = None
        self._guard = Guard(allow_loopback=settings.allow_loopback)
        self._finishes: Batcher[Attempted, bool] = Batcher(self._finish)

    def warning_about(self, endpoint: str) -> str | None:
        """Why deliveries to this endpoint will fail, as far as its URL shows it."""
        if self._settings.allow_private:
            return None
        return refusal_of_host(endpoint, allow_loopback=self._settings.allow_loopback)

    # For people who look

    async def get(self, tenant: TenantId, delivery_id: int) -> Delivery:
        return await self._store.topics.get_delivery(tenant, delivery_id)

    async def list(
        self,
        tenant: TenantId,
        *,
        state: DeliveryState | None = None,
        subscription_id: int | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> Sequence[Delivery]:
        return await self._store.topics.list_deliveries(
            tenant, state=state, subscription_id=subscription_id, before=before, limit=limit
        )

    async def replay(self, tenant: TenantId, delivery_id: int) -> Delivery:
        return await self._store.topics.replay_delivery(tenant, delivery_id, self._clock.now())

    async def drop(self, tenant: TenantId, delivery_id: int) -> bool:
        return await self._store.topics.drop_delivery(tenant, delivery_id)

    async def sweep(self, limit: int) -> int:
        now = self._clock.now()
        return await self._store.topics.sweep_topics(
            now,
            delivered_before=now - timedelta(seconds=self._settings.retention_s),
            exhausted_before=now - EXHAUSTED_KEPT,
            limit=limit,
        )

    # For the duty that delivers

    @property
    def free(self) -> int:
        return self._settings.parallel - self._busy.total()

    async def claim(self) -> Sequence[Delivery]:
        """Due deliveries, as many as there is room for; each must be given to `attempt`, and soon."""
        settings = self._settings
        if self.free <= 0:
            return []
        busy = {**self._busy, **dict.fromkeys(self._breakers.resting(monotonic()), settings.each)}
        claimed = await self._store.topics.claim_deliveries(
            self._clock.now(),
            limit=self.free,
            each=settings.each,
            busy=busy,
            after=self._after,
            lease_s=settings.timeout_s + LEASE_MARGIN_S,
        )
        for delivery in claimed:
            self._busy[delivery.endpoint_key] += 1
            self._after = delivery.endpoint_key
        return claimed

    async def attempt(self, delivery: Delivery) -> bool:
        """Make one attempt and write down what became of it; whether it was delivered."""
        delays = self._settings.delays_s if delivery.delays is None else delivery.delays
        status: int | None = None
        error: str | None = "the last attempt was interrupted"
        try:
            if delivery.attempts <= len(delays) + 1:
                status, error = await self._request(delivery)
        finally:
            self._leave(delivery.endpoint_key)
        delivered = error is None
        self._note(delivery.endpoint_key, delivered)
        result = Attempted(
            id=delivery.id,
            lease=delivery.lease,
            delivered=delivered,
            retry_at=None if delivered else self._retry_at(delivery, delays),
            status=status,
            error=error,
        )
        try:
            await self._finishes.submit([result])
        except PenstockError as trouble:
            # Its claim runs out, and it is tried again.
            log.warning("cannot record a delivery", extra={"delivery": delivery.id, "error": str(trouble)})
            return False
        if not delivered and result.retry_at is None:
            self._metrics.deliveries_exhausted.add()
        return delivered

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _leave(self, key: int) -> None:
        self._busy[key] -= 1
        if self._busy[key] <= 0:
            del self._busy[key]

    def _note(self, key: int, delivered: bool) -> None:
        if delivered:
            self._breakers.succeeded(key)
        else:
            self._breakers.failed(key, monotonic())

    def _retry_at(self, delivery: Delivery, delays: tuple[float, ...]) -> datetime | None:
        if delivery.attempts > len(delays):
            return None
        return self._clock.now() + timedelta(seconds=jittered(delays[delivery.attempts - 1]))

    async def _finish(self, attempts: Sequence[Attempted]) -> Sequence[bool]:
        return await self._store.topics.finish_deliveries(attempts, self._clock.now())

    async def _request(self, delivery: Delivery) -> tuple[int | None, str | None]:
        """The status that came back, and what is wrong with it, or with the way there."""
        began = monotonic()
        status, error = await self._ask(delivery)
        outcome = "success" if error is None else "failure"
        self._metrics.delivery_attempts.add((outcome,))
        self._outcomes.count(delivery.tenant, OutcomeKind.DELIVERY, good=int(error is None), bad=int(error is not None))
        self._metrics.delivery_seconds.observe((outcome,), monotonic() - began)
        return status, error

    async def _ask(self, delivery: Delivery) -> tuple[int | None, str | None]:
        from aiohttp import ClientError, InvalidURL

        body = delivery.body.encode()
        refusals: list[str] = []
        self._guard.refusals.set(refusals)
        try:
            headers = json.loads(delivery.headers) | signature(delivery, body, self._clock.now())
            # The answer's status is all that counts. What else it says is not read, however long it is.
            async with self._opened().post(
                delivery.endpoint, data=body, headers=headers, allow_redirects=False
            ) as response:
                status = response.status
        except TimeoutError:
            return None, f"no answer within {self._settings.timeout_s:g} s"
        except (ClientError, InvalidURL, OSError, ValueError) as error:
            return None, refusals[0] if refusals else f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]
        return status, None if 200 <= status < 300 else f"the endpoint answered {status}"

    def _opened(self) -> ClientSession:
        if self._session is None:
            # Heavy, and only servers with webhooks need it.
            from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

            guard = None if self._settings.allow_private else self._guard
            # A connection each: one that is kept may be closed by the other side just as it is used, and that would
            # look like a failure of the endpoint.
            connector = TCPConnector(limit=0, socket_factory=guard, ttl_dns_cache=10, force_close=True)
            self._session = ClientSession(
                connector=connector,
                timeout=ClientTimeout(total=self._settings.timeout_s),
                # No proxies and no passwords from the environment.
                trust_env=False,
                cookie_jar=DummyCookieJar(),
                skip_auto_headers={"Accept"},
                auto_decompress=False,
            )
        return self._session


def new_secret() -> str:
    """A secret to sign a subscription's webhooks with, in the form of Standard Webhooks."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def is_secret(text: str) -> bool:
    try:
        return 24 <= len(base64.b64decode(text.removeprefix("whsec_"), validate=True)) <= 64
    except (binascii.Error, ValueError):
        return False


def signature(delivery: Delivery, body: bytes, now: datetime) -> dict[str, str]:
    """The headers of Standard Webhooks. Every attempt has the same id, by which a receiver knows a repetition."""
    if delivery.secret is None:
        return {}
    key = base64.b64decode(delivery.secret.removeprefix("whsec_"))
    moment = str(int(now.timestamp()))
    signed = b"%s.%s.%s" % (delivery.message_id.encode(), moment.encode(), body)
    digest = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": delivery.message_id,
        "webhook-timestamp": moment,
        "webhook-signature": f"v1,{digest}",
    }


async def settle(tasks: set[asyncio.Task[bool]], seconds: float) -> None:
    """Give attempts under way some time to end, then end them: their claims run out by themselves."""
    if not tasks:
        return
    _, slow = await asyncio.wait(tasks, timeout=seconds)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
