"""Who may call: everyone where authentication is open, except for a page of another site in somebody's browser.

`penstock/wire/http` refuses what a browser says it sends for another site. An old browser may not say so. What a form
of another site can make it send is told by its type: a form cannot send `application/json`, and only as `text/plain` or
`multipart/form-data` can its fields be made to look like JSON.
"""

from __future__ import annotations

from penstock.auth import EVERYONE, Authenticator, Mode, Principal
from penstock.wire.http.messages import Refusal, Request

_FORM_TYPES = (b"text/plain", b"multipart/form-data")


def check_type(request: Request) -> None:
    """Refuse JSON that calls itself something a form of another site may send."""
    kind = request.found.get(b"content-type")
    if kind is not None and kind.lower().startswith(_FORM_TYPES):
        raise Refusal(415, "UnsupportedMediaType", "send JSON as application/json", field="content-type")


class Guard:
    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self.everyone = EVERYONE if authenticator.mode is Mode.OPEN else None
        """Every caller, where no token is needed."""

    def remembered(self, request: Request) -> Principal | None:
        """The caller when that needs no look-up; `Unauthorized` for one without a token."""
        return self._authenticator.remembered(request.authorization)

    async def principal(self, request: Request) -> Principal:
        return await self._authenticator.principal(request.authorization)
