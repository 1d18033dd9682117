"""What protects the pages: headers, the session cookie, and the check that a form was sent by one of our own pages."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

COOKIE = "penstock_session"
SESSION_S = 43_200
"""A browser forgets the session after twelve hours."""

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    # Not no-referrer: with it browsers send our own forms with the origin "null".
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}


def credentials(request: Request) -> str | None:
    """The Authorization header, or the token of the session as such a header."""
    given = request.headers.get("authorization")
    if given is not None:
        return given
    token = request.cookies.get(COOKIE)
    return f"Bearer {token}" if token else None


def start_session(response: Response, token: str, *, secure: bool) -> None:
    response.set_cookie(COOKIE, token, max_age=SESSION_S, path="/", httponly=True, samesite="strict", secure=secure)


def end_session(response: Response, *, secure: bool) -> None:
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict", secure=secure)


def sent_by_own_page(request: Request, hosts: frozenset[str]) -> bool:
    """Whether a form comes from a page of this server, as far as the browser says.

    A client that sends its token in the Authorization header is not a browser acting for another site.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        return False
    if origin is not None:
        parts = urlsplit(origin)
        own = {_without_usual_port(host) for host in (request.headers.get("host", "").lower(), *hosts)} - {""}
        return parts.scheme in ("http", "https") and _without_usual_port(parts.netloc.lower()) in own
    return site is not None or "authorization" in request.headers


def _without_usual_port(host: str) -> str:
    return host.removesuffix(":80").removesuffix(":443")


def local_path(text: str) -> str:
    """A path of this server to go to after login; `/` for anything else."""
    printable = all(" " < character < "\x7f" for character in text)
    if not printable or "\\" in text or not text.startswith("/") or text.startswith("//"):
        return "/"
    return text
