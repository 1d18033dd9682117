"""Who is calling, and what may they do. Standard library only; tokens are looked up through a function.

A token reads `pst_` + 8 characters that find it + `_` + 43 characters that prove it (256 random bits). Only
the SHA-256 of the whole is kept. A wrong token and an unknown one take the same path.

An AWS access key is a token of another form: its id finds it, and what its secret signs proves it. That takes
the secret itself, so of these it is kept.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase

from penstock.clock import Clock
from penstock.errors import Forbidden, Unauthorized
from penstock.model import DEFAULT_TENANT, Scope, TenantId, Token

REMEMBER_S = 2
"""How long a verdict on a token is kept: a revoked one works at most this much longer."""
SEEN_S = 60
"""How often a token in use has its last_seen_at written."""

_NO_SHA256 = bytes(32)
_KEY_ID = string.ascii_uppercase + string.digits


class Mode(StrEnum):
    OPEN = "open"
    """Any Authorization header passes: for one machine, one developer."""
    TOKEN = "token"  # noqa: S105
    SIGV4 = "sigv4"
    """AWS doors verify signatures; every other door asks for a token."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller: one tenant, some scopes, the queues within reach."""

    tenant: TenantId
    scopes: frozenset[Scope]
    queues: str = "*"
    name: str = ""
    token: int | None = field(default=None, compare=False)
    """Tells the tokens of a tenant apart; None where tokens are not verified."""

    def require(self, scope: Scope, queue: str | None = None) -> None:
        if Scope.ADMIN not in self.scopes and scope not in self.scopes:
            raise Forbidden(f"this token lacks the scope '{scope}'")
        if queue is not None and self.queues != "*" and not fnmatchcase(queue, self.queues):
            raise Forbidden("this token has no access to that queue")

    @property
    def operates(self) -> bool:
        """Whether this is an operator of the server, who may see the names of all tenants."""
        return self.tenant == DEFAULT_TENANT and Scope.ADMIN in self.scopes and self.queues == "*"

    @property
    def sees_every_metric(self) -> bool:
        """Operators do, and tokens of theirs that may do nothing else."""
        return self.operates or (self.tenant == DEFAULT_TENANT and Scope.OPERATOR in self.scopes)

    def reaches(self, queue: str) -> bool:
        return self.queues == "*" or fnmatchcase(queue, self.queues)


EVERYONE = Principal(DEFAULT_TENANT, frozenset(Scope))


def principal_of(token: Token) -> Principal:
    return Principal(token.tenant, token.scopes, token.queues, token.name, token.id)


def new_secret() -> tuple[str, str, bytes]:
    """A fresh token: the text to show once, the prefix to find it by, the hash to keep."""
    prefix = secrets.token_hex(4)
    text = f"pst_{prefix}_{secrets.token_urlsafe(32)}"
    return text, prefix, digest(text)


def new_aws_secret() -> tuple[str, str, bytes]:
    """A fresh AWS access key: the secret to show once and to keep, the id to find it by, the hash."""
    key_id = "PSAK" + "".join(secrets.choice(_KEY_ID) for _ in range(16))
    text = b64encode(secrets.token_bytes(30)).decode()
    return text, key_id, digest(text)


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def prefix_of(text: str) -> str:
    """The part a token is found by; of a text that is no token, something no token has."""
    parts = text.split("_", 2)
    return parts[1] if len(parts) == 3 and parts[0] == "pst" else "-"


def token_in(header: str) -> str:
    """The token of an Authorization header, however many spaces surround it; empty when it is of another kind."""
    kind, _, text = header.strip().partition(" ")
    return text.strip() if kind.lower() == "bearer" else ""


class Sightings:
    """Notes that a token is in use, but not every time."""

    def __init__(self, saw: Callable[[int], Awaitable[None]]) -> None:
        self._saw = saw
        self._next: dict[int, datetime] = {}

    async def note(self, token_id: int, now: datetime) -> None:
        if self._next.get(token_id, now) <= now:
            self._next[token_id] = now + timedelta(seconds=SEEN_S)
            await self._saw(token_id)


class Authenticator:
    """Turns an Authorization header into a principal, or `Unauthorized`."""

    def __init__(
        self,
        mode: Mode,
        clock: Clock,
        find: Callable[[str], Awaitable[Sequence[Token]]],
        saw: Callable[[int], Awaitable[None]],
    ) -> None:
        self.mode = mode
        self._clock = clock
        self._find = find
        self._sightings = Sightings(saw)
        self._verdicts: dict[str, tuple[datetime, Principal]] = {}

    def remembered(self, header: str | None) -> Principal | None:
        """The verdict when it needs no look-up; `Unauthorized` when there is no header at all."""
        if not header:
            raise Unauthorized("an Authorization header is required", field="authorization")
        if self.mode is Mode.OPEN:
            return EVERYONE
        verdict = self._verdicts.get(token_in(header))
        if verdict is not None and verdict[0] > self._clock.now():
            return verdict[1]
        return None

    async def principal(self, header: str | None) -> Principal:
        known = self.remembered(header)
        if known is not None:
            return known
        assert header is not None
        now = self._clock.now()
        text = token_in(header)
        token = await self._verify(text, now)
        principal = principal_of(token)
        if len(self._verdicts) > 10_000:
            self._verdicts.clear()
        self._verdicts[text] = (now + timedelta(seconds=REMEMBER_S), principal)
        await self._sightings.note(token.id, now)
        return principal

    async def _verify(self, text: str, now: datetime) -> Token:
        offered = digest(text)
        found: Token | None = None
        candidates = await self._find(prefix_of(text))
        if not candidates:
            hmac.compare_digest(offered, _NO_SHA256)
        for token in candidates:
            # An access key signs; sent as it is, it proves nothing.
            if hmac.compare_digest(offered, token.sha256) and token.aws_secret is None:
                found = token
        if found is None or not in_force(found, now):
            raise Unauthorized("the token is unknown, expired or revoked", field="authorization")
        return found


def in_force(token: Token, now: datetime) -> bool:
    revoked = token.revoked_at is not None and token.revoked_at <= now
    expired = token.expires_at is not None and token.expires_at <= now
    return not revoked and not expired
