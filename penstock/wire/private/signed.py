"""The signature of a request, as its headers carry it."""

from __future__ import annotations

from penstock.engine.private import ids
from penstock.engine.private.queues import REFUSED
from penstock.engine.private.signatures import SIGNATURE_BYTES, Proof
from penstock.errors import Forbidden, Invalid
from penstock.model.private import signed_text
from penstock.wire.http.messages import Request
from penstock.wire.private.types import SignedLookup

TIMESTAMP = b"penstock-timestamp"
NONCE = b"penstock-nonce"
SIGNATURE = b"penstock-signature"


def proof_of(request: Request) -> Proof | None:
    """None for a request without a signature; `Invalid` for one whose headers cannot be read."""
    given = [request.header(name) for name in (TIMESTAMP, NONCE, SIGNATURE)]
    if all(value is None for value in given):
        return None
    timestamp, nonce, signature = ((value or b"").decode("latin-1") for value in given)
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12) or not 1 <= len(nonce) <= 64:
        raise Invalid(
            "a signed request has the headers penstock-timestamp (seconds since 1970), penstock-nonce (1 to 64 "
            "characters) and penstock-signature",
            field="penstock-timestamp",
        )
    target = request.path + (f"?{request.query.decode('latin-1')}" if request.query else "")
    text = signed_text(request.method, target, int(timestamp), nonce, request.body)
    return Proof(text, int(timestamp), ids.decode("penstock-signature", signature, SIGNATURE_BYTES))


def proof_of_lookup(path: str, given: SignedLookup) -> Proof:
    text = signed_text("GET", f"{path}/{given.id}", given.timestamp, given.nonce, b"")
    return Proof(text, given.timestamp, ids.decode("signature", given.signature, SIGNATURE_BYTES))


def party_id(request: Request) -> bytes:
    """The id in the path. One that cannot be an id is refused as one that does not exist."""

    try:
        return ids.decode("id", request.arguments[0], ids.ID_BYTES)
    except Invalid:
        raise Forbidden(REFUSED) from None
