"""What stands in front of an engine: routes for programs, pages for people."""

from __future__ import annotations

from urllib.parse import urlsplit

from penstock import web
from penstock.auth import Authenticator, Mode
from penstock.config import Settings, is_loopback
from penstock.engine import Engine
from penstock.server.neighbours import Neighbours
from penstock.server.versions import version
from penstock.wire import jobs, rest, sns, sqs
from penstock.wire.aws import Gateway
from penstock.wire.http import HttpLimits, Router
from penstock.wire.protocol import PenstockProtocol, protocol_class
from penstock.wire.signature import AwsAuthenticator


def doors(engine: Engine, settings: Settings, neighbours: Neighbours) -> tuple[web.App, type[PenstockProtocol]]:
    """What uvicorn asks for: an ASGI app, and a class that speaks HTTP."""
    tenants = engine.tenants
    mode = Mode(settings.auth_mode)
    authenticator = Authenticator(mode, engine.clock, tenants.find_tokens, tenants.saw_token)
    work = jobs.JobsDoor(engine, authenticator)
    native = rest.Rest(engine, authenticator, version=version(), peers=neighbours.numbers, others=work.operations)
    signed = AwsAuthenticator(mode, engine.clock, tenants.find_tokens, tenants.saw_token)
    services = [
        sqs.service(engine, base_url=settings.base_url, strict=settings.strict),
        sns.service(engine, base_url=settings.base_url, auto_confirm=settings.auto_confirm),
    ]
    amazon = Gateway(services, signed, tenants)
    router = Router(
        [*native.routes(), *amazon.routes(), *sns.Certificates(engine.signer).routes(), *work.routes()],
        [*rest.OWNS, *jobs.OWNS],
    )

    pages = web.app(engine, authenticator, lambda: native.document)
    return pages, protocol_class(router, authenticator, engine.insights, _limits(settings))


def _limits(settings: Settings) -> HttpLimits:
    return HttpLimits(
        header_bytes=settings.max_header_bytes,
        header_count=settings.max_headers,
        body_s=settings.request_timeout_s,
        handler_s=settings.request_timeout_s,
        keep_alive_s=settings.keep_alive_s,
        connections=settings.max_client_connections,
        connections_per_address=settings.max_client_connections,
        requests_in_flight=settings.max_requests_in_flight,
        home_only=settings.auth_mode == "open" and is_loopback(settings.host),
        hosts=frozenset(filter(None, [urlsplit(settings.base_url or "").hostname])),
    )
