"""The composition of the HTTP side: every door over one engine, in one router, behind one protocol class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock import web
from penstock.auth import Authenticator, Mode
from penstock.config import Settings, is_loopback
from penstock.engine import Engine
from penstock.server.neighbours import Neighbours
from penstock.server.versions import version
from penstock.wire.aws.gateway import Gateway
from penstock.wire.aws.signature import AwsAuthenticator
from penstock.wire.http.limits import HttpLimits
from penstock.wire.http.protocol import PenstockProtocol, protocol_class
from penstock.wire.http.router import Route, Router
from penstock.wire.jobs import door as jobs
from penstock.wire.private.door import PrivateDoor
from penstock.wire.rest import door as rest
from penstock.wire.simple import door as simple
from penstock.wire.simple.settings import SimpleSettings
from penstock.wire.sns import door as sns
from penstock.wire.sqs import door as sqs

if TYPE_CHECKING:
    from penstock.tracing.spans import Tracer


@dataclass(frozen=True, slots=True)
class Doors:
    """The HTTP side of a server. uvicorn needs `app` and `protocol`; the rest is for tests."""

    app: web.App
    """The ASGI app that serves the pages."""
    protocol: type[PenstockProtocol]
    authenticator: Authenticator
    rest: rest.Rest


def doors(
    engine: Engine,
    settings: Settings,
    neighbours: Neighbours | None = None,
    *,
    limits: HttpLimits | None = None,
    extra: Sequence[Route] = (),
    url: str | None = None,
    app: web.App | None = None,
    tracer: Tracer | None = None,
) -> Doors:
    """Build every door. `url` is where the server listens. `limits` and `app` replace those of the settings."""
    neighbours = neighbours or Neighbours()
    tenants = engine.tenants
    mode = Mode(settings.auth_mode)
    authenticator = Authenticator(mode, engine.clock, tenants.find_tokens, tenants.saw_token)
    plain = _simple(engine, authenticator, settings) if settings.serves_simple else None
    work = jobs.JobsDoor(engine, authenticator, health=plain is None)
    private = PrivateDoor(engine)
    others = [*work.operations, *private.operations, *(plain.operations if plain is not None else ())]
    native = rest.Rest(engine, authenticator, version=version(), peers=neighbours.numbers, others=others)
    signed = AwsAuthenticator(mode, engine.clock, tenants.find_tokens, tenants.saw_token)
    own = f"http://{settings.address}"
    services = [
        sqs.service(engine, base_url=settings.base_url, strict=settings.strict),
        # Notices are signed: the links in them must not be those of a caller's Host header.
        sns.service(
            engine,
            base_url=settings.base_url or url or own,
            auto_confirm=settings.auto_confirm,
            strict=settings.strict,
        ),
    ]
    amazon = Gateway(services, signed, tenants)
    certificates = sns.Certificates(engine.signer)
    router = Router(
        [
            *native.routes(),
            *amazon.routes(),
            *certificates.routes(),
            *work.routes(),
            *private.routes(),
            *(plain.routes() if plain is not None else ()),
            *extra,
        ],
        [*rest.OWNS, *jobs.OWNS, *(simple.OWNS if plain is not None else ())],
    )
    protocol = protocol_class(router, authenticator, engine.metrics, limits or http_limits(settings), tracer)
    pages = app or web.app(engine, authenticator, lambda: native.document, web_settings(settings))
    return Doors(pages, protocol, authenticator, native)


def _simple(engine: Engine, authenticator: Authenticator, settings: Settings) -> simple.SimpleDoor:
    chosen = SimpleSettings(
        max_queue_length=settings.simple_max_queue_length,
        max_message_bytes=settings.simple_max_message_kb * 1024,
        max_body_bytes=settings.simple_max_body_kb * 1024,
        max_receives=settings.simple_max_receives,
        retention_s=settings.simple_retention_s,
        wait_s=settings.simple_wait_s,
        dedup_window_s=settings.simple_dedup_window_s,
        priority=settings.simple_priority,
    )
    return simple.SimpleDoor(engine, authenticator, chosen, version=version())


def web_settings(settings: Settings) -> web.WebSettings:
    base = urlsplit(settings.base_url or "")
    return web.WebSettings(
        read_only=settings.dashboard_read_only,
        payloads=settings.dashboard_payloads,
        secure_cookie=base.scheme == "https",
        hosts=frozenset(filter(None, [base.netloc.lower()])),
    )


def http_limits(settings: Settings) -> HttpLimits:
    return HttpLimits(
        header_bytes=settings.max_header_bytes,
        header_count=settings.max_headers,
        body_s=settings.request_timeout_s,
        handler_s=settings.request_timeout_s,
        keep_alive_s=settings.keep_alive_s,
        connections=settings.max_client_connections,
        connections_per_address=settings.max_client_connections,
        requests_in_flight=settings.max_requests_in_flight,
        turns=settings.auth_mode != "open",
        home_only=settings.auth_mode == "open" and is_loopback(settings.host),
        same_site_only=settings.auth_mode == "open",
        hosts=frozenset(filter(None, [urlsplit(settings.base_url or "").hostname])),
    )
