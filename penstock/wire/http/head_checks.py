"""Checks of the head of every request."""

from __future__ import annotations

import ipaddress

import httptools

from penstock.wire.http.messages import Refusal, Request
from penstock.wire.http.router import Route

HOME_SUFFIXES = (".localhost", ".localhost.localstack.cloud", "host.docker.internal")
"""Names that the world resolves to the machine itself, used by local stand-ins of Amazon's services."""


DECISIVE = (b"host", b"authorization", b"content-length", b"transfer-encoding", b"origin", b"sec-fetch-site")


def split_url(method: str, url: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request target: a path, a URL given in full as to a proxy, or `*` of OPTIONS."""
    if url[:1] == b"/":
        path, _, query = url.partition(b"?")
        return path, query
    if method == "CONNECT":
        raise Refusal(405, "MethodNotAllowed", "this server is not a proxy", field="method")
    if url == b"*" and method == "OPTIONS":
        return b"/", b""
    try:
        parsed = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError:
        raise Refusal(400, "InvalidUrl", "the URL is not valid", field="path") from None
    path = parsed.path or b"/"
    if path[:1] != b"/":
        raise Refusal(400, "InvalidUrl", "the URL is not valid", field="path")
    return path, parsed.query or b""


def check_repeated(headers: list[tuple[bytes, bytes]]) -> None:
    """What decides about the request must be said once, or two readers could understand it differently."""
    names = [name for name, _ in headers]
    for name in DECISIVE:
        if names.count(name) > 1:
            raise Refusal(400, "RepeatedHeader", f"{name.decode()} is given twice", field=name.decode())


def check_coding(coding: bytes, length: bytes | None) -> None:
    if length is not None:
        raise Refusal(400, "InvalidRequest", "Content-Length and Transfer-Encoding exclude each other")
    if coding.strip().lower() != b"chunked":
        raise Refusal(501, "Unsupported", "only the transfer coding 'chunked' is supported", field="transfer-encoding")


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


def made_for_another_site(request: Request) -> bool:
    """Whether a browser says that a page of another origin asked for this, or that its origin is unknown."""
    origin, site = request.found.get(b"origin"), request.found.get(b"sec-fetch-site")
    if origin is not None and not _is_own(origin, request.found.get(b"host", b"")):
        return True
    return site is not None and site not in (b"same-origin", b"none")


def check_site(request: Request) -> None:
    """Without authentication, refuse what a page of another site has a browser send. Following a link is allowed."""
    if made_for_another_site(request) and not _follows_link(request):
        text = "without authentication this server takes no requests that a browser makes for another site"
        raise Refusal(403, "CrossSiteRequest", text, field="origin")


def _follows_link(request: Request) -> bool:
    found = request.found
    return (
        request.method in ("GET", "HEAD")
        and b"origin" not in found
        and found.get(b"sec-fetch-mode") == b"navigate"
        and found.get(b"sec-fetch-dest") == b"document"
    )


def _is_own(origin: bytes, host: bytes) -> bool:
    """Whether an origin is the address that the request was sent to, whose name `is_home` has judged."""
    scheme, _, place = origin.lower().partition(b"://")
    return scheme in (b"http", b"https") and _without_usual_port(place) == _without_usual_port(host.lower()) != b""


def _without_usual_port(place: bytes) -> bytes:
    return place.removesuffix(b":80").removesuffix(b":443")


def announced(request: Request, route: Route) -> int:
    """Bytes the body may have, as far as its head says."""
    length = request.found.get(b"content-length")
    if length is not None:
        return int(length)
    return route.body_bytes if b"transfer-encoding" in request.found else 0


def refusal_of(error: httptools.HttpParserError) -> Exception:
    cause = error.__context__
    if isinstance(cause, Exception):
        return cause
    return Refusal(400, "InvalidRequest", "this is not a valid HTTP request")
