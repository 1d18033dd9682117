"""What is asked of the head of every request, whoever serves it."""

from __future__ import annotations

import ipaddress

import httptools

from penstock.wire.http import Refusal

HOME_SUFFIXES = (".localhost", ".localhost.localstack.cloud", "host.docker.internal")
"""Names that the world resolves to the machine itself, used by local stand-ins of Amazon's services."""


def absolute(url: bytes) -> tuple[bytes, bytes]:
    """Path and query of a URL given in full, as to a proxy."""
    try:
        parsed = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError:
        raise Refusal(400, "InvalidUrl", "the URL is not valid", field="path") from None
    return parsed.path or b"/", parsed.query or b""


def check_repeated(headers: list[tuple[bytes, bytes]]) -> None:
    """What decides about the request must be said once, or two readers could understand it differently."""
    names = [name for name, _ in headers]
    for name in (b"host", b"authorization", b"content-length", b"transfer-encoding"):
        if names.count(name) > 1:
            raise Refusal(400, "RepeatedHeader", f"{name.decode()} is given twice", field=name.decode())


def check_coding(coding: bytes, length: bytes | None) -> None:
    if length is not None:
        raise Refusal(400, "InvalidRequest", "Content-Length and Transfer-Encoding exclude each other")
    if coding.strip().lower() != b"chunked":
        raise Refusal(501, "Unsupported", "only the transfer coding 'chunked' is understood", field="transfer-encoding")


def check_size(headers: list[tuple[bytes, bytes]], limit: int) -> None:
    if sum(len(name) + len(value) for name, value in headers) > limit:
        raise Refusal(431, "HeadersTooLarge", f"the headers may have {limit} bytes")


def is_home(host: bytes, also: frozenset[str]) -> bool:
    """Whether a Host header names this machine, as far as a name can tell.

    A page of another site can have its own name resolve to the loopback and talk to a server there as if it
    were its own; it cannot do so under a name without a dot, an address, or one of these.
    """
    name = host.decode("latin-1").lower()
    name = name.partition("]")[0][1:] if name.startswith("[") else name.partition(":")[0]
    if "." not in name or name in also or name.endswith(HOME_SUFFIXES):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
