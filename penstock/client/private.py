"""Private queues from Python: a recipient, a sender and a notifier, each with its own id and key.

Keys are Ed25519; the server sees public keys alone. `sign` is pure; the classes send what it makes.
"""

from __future__ import annotations

import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from penstock.errors import Conflict, Forbidden, Invalid, NotFound, PenstockError, QueueFull, Unavailable, Unsupported
from penstock.model.private import signed_text

TIMEOUT_S = 10.0

_ERRORS: dict[int, type[PenstockError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: Invalid,
    429: QueueFull,
    501: Unsupported,
    503: Unavailable,
}


@dataclass(frozen=True, slots=True)
class PrivateMessage:
    body: str
    receipt: str
    sent_at: datetime
    receives: int


@dataclass(frozen=True, slots=True)
class LinkData:
    fixed: bytes
    mutable: bytes


def new_key() -> bytes:
    """A new private key: 32 bytes, to be kept secret."""
    return Ed25519PrivateKey.generate().private_bytes_raw()


def public_key(key: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()


def sign(key: bytes, method: str, target: str, body: bytes, seconds: int, nonce: str) -> dict[str, str]:
    """The headers of a signed request."""
    signature = Ed25519PrivateKey.from_private_bytes(key).sign(signed_text(method, target, seconds, nonce, body))
    return {
        "penstock-timestamp": str(seconds),
        "penstock-nonce": nonce,
        "penstock-signature": encode(signature),
    }


def encode(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


class _Party:
    """One id and its key at one server."""

    path = ""

    def __init__(self, url: str, party_id: str, key: bytes | None) -> None:
        self._http = httpx.Client(base_url=url, timeout=TIMEOUT_S)
        self._target = f"/v1/private/{self.path}/{party_id}"
        self._key = key
        self.id = party_id

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(
        self, method: str, path: str = "", given: Any = None, query: dict[str, Any] | None = None, wait_s: float = 0.0
    ) -> Any:
        target = self._target + path + (f"?{urlencode(query)}" if query else "")
        # The body is encoded here and not by httpx, since the signature covers its bytes.
        request = self._http.build_request(method, target, json=given, timeout=TIMEOUT_S + wait_s)
        request.read()
        if self._key is not None:
            nonce = secrets.token_urlsafe(16)
            request.headers.update(sign(self._key, method, target, request.content, int(time.time()), nonce))
        try:
            answer = self._http.send(request)
        except httpx.TransportError as error:
            raise Unavailable(f"the server did not answer: {error}") from error
        return read_answer(answer)


def read_answer(answer: httpx.Response) -> Any:
    if answer.is_success:
        return answer.json() if answer.content else None
    try:
        message = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        message = f"the server answered {answer.status_code}"
    raise _ERRORS.get(answer.status_code, PenstockError)(message)


class PrivateQueue(_Party):
    """The recipient of a private queue: receives its messages and manages it."""

    path = "recipients"

    def __init__(self, url: str, recipient_id: str, key: bytes, sender_id: str | None = None) -> None:
        super().__init__(url, recipient_id, key)
        self._sender_id = sender_id

    @classmethod
    def create(
        cls, url: str, token: str = "", *, key: bytes | None = None, sender_key: bytes | None = None
    ) -> PrivateQueue:
        """A new queue. `key` is the recipient's private key, `sender_key` the public key of a known sender."""
        key = key or new_key()
        new = {"recipient_key": encode(public_key(key)), "sender_key": encode(sender_key) if sender_key else None}
        with httpx.Client(
            base_url=url, timeout=TIMEOUT_S, headers={"authorization": f"Bearer {token or 'me'}"}
        ) as http:
            [made] = read_answer(http.post("/v1/private/queues", json={"queues": [new]}))["queues"]
        return cls(url, made["recipient_id"], key, made["sender_id"])

    @property
    def key(self) -> bytes:
        """The private key, to be kept with the id."""
        assert self._key is not None
        return self._key

    @property
    def sender_id(self) -> str:
        """What the sender needs; asked for once."""
        if self._sender_id is None:
            self._sender_id = str(self.get()["sender_id"])
        return self._sender_id

    def get(self) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("GET")
        return found

    def receive(
        self, limit: int = 1, *, wait_s: int = 0, visibility_timeout_s: int | None = None
    ) -> list[PrivateMessage]:
        query = {"max": limit, "wait": wait_s, "visibility_timeout": visibility_timeout_s}
        given = {name: value for name, value in query.items() if value is not None}
        found = self._ask("GET", "/messages", query=given, wait_s=wait_s)
        return [
            PrivateMessage(each["message"], each["receipt"], datetime.fromisoformat(each["sent_at"]), each["receives"])
            for each in found
        ]

    def delete_message(self, message: PrivateMessage) -> None:
        self._ask("DELETE", f"/messages/{message.receipt}")

    def secure(self, sender_key: bytes) -> None:
        """Accept messages signed with this key alone. The first key wins."""
        self._ask("PUT", "/sender-key", {"key": encode(sender_key)})

    def add_notifier(self, notifier_key: bytes) -> str:
        """A notifier id for the holder of this key; an earlier one ends."""
        return str(self._ask("POST", "/notifier", {"key": encode(notifier_key)})["notifier_id"])

    def remove_notifier(self) -> None:
        self._ask("DELETE", "/notifier")

    def set_link(self, fixed: bytes, mutable: bytes = b"", link_id: str | None = None) -> str:
        """Data that anyone with the link id can read. The fixed part is set once."""
        given = {"fixed": encode(fixed), "mutable": encode(mutable), "link_id": link_id}
        return str(self._ask("PUT", "/link", given)["link_id"])

    def remove_link(self) -> None:
        self._ask("DELETE", "/link")

    def replace_keys(self, keys: list[bytes]) -> None:
        """Public keys that may sign for the recipient from now on; sign with one of them afterwards."""
        self._ask("PUT", "/keys", {"keys": [encode(key) for key in keys]})

    def associate(self, service_id: int | None) -> None:
        self._ask("PUT", "/service", {"service_id": service_id})

    def suspend(self) -> None:
        self._ask("POST", "/suspend")

    def resume(self) -> None:
        self._ask("POST", "/resume")

    def touch(self) -> None:
        self._ask("POST", "/touch")

    def delete(self) -> None:
        """The queue, its messages and all its ids."""
        self._ask("DELETE")


class PrivateSender(_Party):
    """A sender: can send, and nothing else. Without a key only until the queue is secured."""

    path = "senders"

    def __init__(self, url: str, sender_id: str, key: bytes | None = None) -> None:
        super().__init__(url, sender_id, key)

    def secure(self) -> None:
        """Let nobody else send: the queue accepts what is signed with this sender's key alone."""
        if self._key is None:
            raise Invalid("a sender without a key cannot secure a queue", field="key")
        self._ask("PUT", "/key", {"key": encode(public_key(self._key))})

    def send(self, body: str, *, delay_s: int | None = None) -> None:
        self._ask("POST", "/messages", {"message": body, "delay": delay_s})


class PrivateNotifier(_Party):
    """A notifier: learns that messages wait, and nothing else."""

    path = "notifiers"

    def __init__(self, url: str, notifier_id: str, key: bytes) -> None:
        super().__init__(url, notifier_id, key)

    def is_waiting(self, *, wait_s: int = 0) -> bool:
        """Whether a message can be received; with `wait_s`, as soon as one can."""
        return bool(self._ask("GET", query={"wait": wait_s}, wait_s=wait_s)["waiting"])

    def set_webhook(self, url: str) -> str:
        """Tell an endpoint about every send; the secret that signs the requests."""
        return str(self._ask("PUT", "/webhook", {"url": url})["secret"])

    def remove_webhook(self) -> None:
        self._ask("DELETE", "/webhook")


def read_link(url: str, link_id: str) -> LinkData:
    """The data of a short link; needs no key."""
    found = read_answer(httpx.get(f"{url}/v1/private/links/{link_id}", timeout=TIMEOUT_S))
    return LinkData(decode(found["fixed"]), decode(found["mutable"]))
