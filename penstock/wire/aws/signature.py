"""AWS Signature Version 4: who signed a request, and did they.

`parse` and `verify` look at nothing but their arguments. `AwsAuthenticator` is what the AWS doors ask; it knows
the server's mode and looks keys up. An unknown key is put through the same sums as a known one.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from urllib.parse import quote, unquote_to_bytes

from penstock.auth import EVERYONE, REMEMBER_S, Authenticator, Mode, Principal, Sightings, in_force, principal_of
from penstock.clock import Clock
from penstock.errors import Forbidden
from penstock.model import Token
from penstock.wire.http.messages import Request

ALGORITHM = "AWS4-HMAC-SHA256"
TERMINATOR = "aws4_request"
SKEW = timedelta(minutes=15)
MAX_EXPIRES_S = 604_800
MAX_SCOPE = 512
"""Characters of a credential that are looked at where nothing is verified."""

_IN_HEADER = ("Credential", "Signature", "SignedHeaders")
_IN_QUERY = (
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Signature",
    "X-Amz-SignedHeaders",
    "X-Amz-Date",
    "X-Amz-Expires",
)
_MOMENT = "%Y%m%dT%H%M%SZ"
_MOMENT_TEXT = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_REGION = re.compile(r"[a-z0-9-]{1,32}")
_DIGITS = re.compile(r"[0-9]*")
_ACCESS_KEY = re.compile(r"[A-Za-z0-9]{16,128}")
_REGION_HOST = re.compile(rb"(?:sqs|sns)\.([a-z]{2}(?:-[a-z]{1,10}){1,3}-[0-9]{1,2})\.")
"""A host name such as `sqs.eu-west-1.localhost`: without credentials, it says the region."""
_NO_SECRET = "0" * 40


class SignatureFault(Exception):
    """A request that AWS would turn away, with the code, text and status it would give."""

    def __init__(self, code: str, message: str, status: int = 403) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


def _missing() -> SignatureFault:
    return SignatureFault("MissingAuthenticationToken", "Request is missing Authentication Token")


def _incomplete(message: str) -> SignatureFault:
    return SignatureFault("IncompleteSignature", message, 400)


def _unknown_key() -> SignatureFault:
    return SignatureFault("InvalidClientTokenId", "The security token included in the request is invalid.")


def _mismatch(message: str | None = None) -> SignatureFault:
    return SignatureFault(
        "SignatureDoesNotMatch",
        message
        or "The request signature we calculated does not match the signature you provided. Check your AWS Secret "
        "Access Key and signing method. Consult the service documentation for details.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What a signed request says about its signature. Nothing of it is true until verified."""

    access_key: str
    date: str
    region: str
    service: str
    terminator: str
    signed_headers: tuple[str, ...]
    signature: str
    moment: str
    """When it was signed, as given."""
    expires_s: int | None = None
    """Of a presigned request: how long it is good for."""

    @property
    def presigned(self) -> bool:
        return self.expires_s is not None

    @property
    def scope(self) -> str:
        return f"{self.date}/{self.region}/{self.service}/{self.terminator}"


# Reading


def parse(request: Request) -> Credential | None:
    """The credential of a signed request; None when it is not signed in the way of AWS at all."""
    header = request.authorization
    if header is not None:
        return _from_header(request, header) if header.startswith("AWS4-") else None
    if b"X-Amz-" not in request.query:
        return None
    found = _query_parameters(request.query)
    return _from_query(found) if found else None


def _from_header(request: Request, header: str) -> Credential:
    algorithm, _, rest = header.partition(" ")
    if algorithm != ALGORITHM:
        raise _incomplete(f"Unsupported AWS 'algorithm': '{algorithm}' (only {ALGORITHM} for now).")
    found: dict[str, str] = {}
    for part in rest.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or name in found:
            raise _incomplete(f"'{name}' not a valid key=value pair (missing equal-sign) in Authorization header.")
        found[name] = value
    lacks = [f"Authorization header requires '{name}' parameter." for name in _IN_HEADER if not found.get(name)]
    moments = [value for name, value in request.headers if name == b"x-amz-date"]
    if len(moments) != 1:
        lacks.append("Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.")
    if lacks:
        # As AWS does: enough to recognise the header by, and not the header.
        hashed = b64encode(sha256(header.encode()).digest()).decode()
        raise _incomplete(f"{' '.join(lacks)} (Hashed with SHA-256 and encoded with Base64) Authorization={hashed}")
    return _credential(
        found["Credential"], found["SignedHeaders"], found["Signature"], moments[0].decode("latin-1").strip()
    )


def _query_parameters(query: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in _pairs(query):
        text = name.decode("latin-1")
        if text in _IN_QUERY:
            if text in found:
                raise _incomplete(f"'{text}' is given twice. Re-examine the query-string parameters.")
            found[text] = value.decode("latin-1")
    return found


def _from_query(found: Mapping[str, str]) -> Credential:
    lacks = [f"AWS query-string parameters must include '{name}'." for name in _IN_QUERY if not found.get(name)]
    if lacks:
        raise _incomplete(f"{' '.join(lacks)} Re-examine the query-string parameters.")
    if found["X-Amz-Algorithm"] != ALGORITHM:
        raise _incomplete(f"Unsupported AWS 'algorithm': '{found['X-Amz-Algorithm']}' (only {ALGORITHM} for now).")
    expires = found["X-Amz-Expires"]
    if not re.fullmatch(r"[0-9]{1,6}", expires) or not 1 <= int(expires) <= MAX_EXPIRES_S:
        raise _incomplete(f"X-Amz-Expires must be a number of seconds from 1 to {MAX_EXPIRES_S}.")
    signed = found["X-Amz-Credential"], found["X-Amz-SignedHeaders"], found["X-Amz-Signature"], found["X-Amz-Date"]
    return _credential(*signed, expires_s=int(expires))


def _credential(
    text: str, signed_headers: str, signature: str, moment: str, expires_s: int | None = None
) -> Credential:
    parts = text.split("/")
    if len(parts) != 5:
        raise _incomplete(
            "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, "
            f"got '{text}'"
        )
    return Credential(
        access_key=parts[0],
        date=parts[1],
        region=parts[2],
        service=parts[3],
        terminator=parts[4],
        signed_headers=tuple(signed_headers.split(";")),
        signature=signature,
        moment=moment,
        expires_s=expires_s,
    )


# Verifying


def verify(
    request: Request, credential: Credential, secret: str | None, now: datetime, *, service: str = "sqs"
) -> None:
    """Return when the request was signed with `secret`, for this service, about now. None: the key is unknown."""
    _check_scope(credential, service)
    _check_time(credential, now)
    headers = _signed_headers(request, credential)
    expected = _signature(secret or _NO_SECRET, credential, _canonical_request(request, credential, headers))
    good = hmac.compare_digest(expected, credential.signature.encode())
    if not secret:
        raise _unknown_key()
    if not good:
        raise _mismatch()


def _check_scope(credential: Credential, service: str) -> None:
    if credential.terminator != TERMINATOR:
        raise _mismatch(
            f"Credential should be scoped with a valid terminator: '{TERMINATOR}', not '{credential.terminator}'."
        )
    if not _REGION.fullmatch(credential.region):
        raise _mismatch(f"Credential should be scoped to a valid region, not '{credential.region}'. ")
    check_service(credential.service, service)


def check_service(signed_for: str, service: str) -> None:
    if signed_for != service:
        raise _mismatch(f"Credential should be scoped to correct service: '{service}'. ")


def service_of(request: Request) -> str:
    """The service that a signed request names in the scope of its credential."""
    return _required(request).service


def _check_time(credential: Credential, now: datetime) -> None:
    signed_at = _moment(credential.moment)
    if credential.date != credential.moment[:8]:
        raise _mismatch(
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "
            f"'{credential.date}' != '{credential.moment[:8]}', from '{credential.moment}'."
        )
    latest, earliest = now + SKEW, now - SKEW
    if signed_at > latest:
        raise _mismatch(
            f"Signature not yet current: {credential.moment} is still later than {latest:{_MOMENT}} "
            f"({now:{_MOMENT}} + 15 min.)"
        )
    if credential.expires_s is not None:
        if signed_at + timedelta(seconds=credential.expires_s) < now:
            raise SignatureFault("RequestExpired", "Request has expired.", 400)
    elif signed_at < earliest:
        raise _mismatch(
            f"Signature expired: {credential.moment} is now earlier than {earliest:{_MOMENT}} "
            f"({now:{_MOMENT}} - 15 min.)"
        )


def _moment(text: str) -> datetime:
    try:
        if _MOMENT_TEXT.fullmatch(text):
            return datetime.fromisoformat(text)
    except ValueError:
        pass
    raise _incomplete(
        f"Date must be in ISO-8601 'basic format'. Got '{text}'. See http://en.wikipedia.org/wiki/ISO_8601"
    )


def _signed_headers(request: Request, credential: Credential) -> list[bytes]:
    """The lines of the signed headers. What gives the request its meaning must be among them."""
    names, known = credential.signed_headers, frozenset(credential.signed_headers)
    values: dict[str, list[bytes]] = {}
    for raw, value in request.headers:
        values.setdefault(raw.decode("latin-1"), []).append(b" ".join(value.split()))
    if "host" not in names:
        raise _mismatch("'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.")
    for name in values:
        # The action, the moment and the session stand in such headers: unsigned, anyone could change them.
        if name.startswith("x-amz-") and name not in known:
            raise _mismatch(f"'{name}' must be a 'SignedHeader' in the AWS Authorization.")
    if list(names) != sorted(known) or not values.keys() >= known:
        raise _mismatch()
    return [b"%b:%b\n" % (name.encode(), b",".join(values[name])) for name in names]


def _canonical_request(request: Request, credential: Credential, headers: list[bytes]) -> bytes:
    parts = (
        request.method.encode(),
        _canonical_path(request.path),
        _canonical_query(request.query, credential.presigned),
        b"".join(headers),
        ";".join(credential.signed_headers).encode(),
        # Of the body that came, whatever x-amz-content-sha256 says: neither service takes unsigned bodies.
        sha256(request.body).hexdigest().encode(),
    )
    return b"\n".join(parts)


def _canonical_path(path: str) -> bytes:
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment and segment != ".":
            kept.append(segment)
    plain = "/" + "/".join(kept) + ("/" if kept and path.endswith("/") else "")
    # The path is encoded already; every service but S3 signs it encoded once more.
    return quote(plain.encode("latin-1"), safe="/~").encode()


def _canonical_query(query: bytes, presigned: bool) -> bytes:
    """Read and written again, since clients differ in how they write a space: the meaning is what is signed."""
    if not query:
        return b""
    pairs = sorted(
        (quote(name, safe=""), quote(value, safe=""))
        for name, value in _pairs(query)
        if not (presigned and name == b"X-Amz-Signature")
    )
    return "&".join(f"{name}={value}" for name, value in pairs).encode()


def _pairs(query: bytes) -> list[tuple[bytes, bytes]]:
    pairs = []
    for part in query.replace(b"+", b" ").split(b"&"):
        name, _, value = part.partition(b"=")
        pairs.append((unquote_to_bytes(name), unquote_to_bytes(value)))
    return pairs


def _signature(secret: str, credential: Credential, canonical: bytes) -> bytes:
    text = f"{ALGORITHM}\n{credential.moment}\n{credential.scope}\n{sha256(canonical).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in (credential.date, credential.region, credential.service, credential.terminator):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex().encode()


# Asking


Caller = tuple[Principal, str]
"""Who calls, and the region they call in."""


class AwsAuthenticator:
    """Turns a request at an AWS door into its caller, or a `SignatureFault`.

    What is remembered for a moment is the key that was looked up; every signature is verified.
    """

    def __init__(
        self,
        mode: Mode,
        clock: Clock,
        find: Callable[[str], Awaitable[Sequence[Token]]],
        saw: Callable[[int], Awaitable[None]],
        *,
        home_region: str = "us-east-1",
    ) -> None:
        self.mode = mode
        self._clock = clock
        self._find = find
        self._home_region = home_region
        self._bearer = Authenticator(mode, clock, find, saw)
        self._sightings = Sightings(saw)
        self._keys: dict[str, tuple[datetime, Token]] = {}
        self._scopes: dict[bytes, str] = {}

    def remembered(self, request: Request, service: str = "sqs") -> Caller | None:
        """The caller when that needs no look-up."""
        if self.mode is Mode.OPEN:
            return self._anyone(request)
        if self.mode is Mode.TOKEN:
            known = self._bearer.remembered(_bearer_header(request))
            return (known, self._home_region) if known is not None else None
        credential = _required(request)
        token = self._known_key(credential.access_key)
        if token is None:
            return None
        verify(request, credential, token.aws_secret, self._clock.now(), service=service)
        return principal_of(token), credential.region

    def admit(self, request: Request) -> Awaitable[None] | None:
        """Judge the head of a request with a large body: `SignatureFault` when its sender cannot be let in.

        A signature is verified when the body is there; its key, its time and its scope are known before.
        """
        if self.mode is Mode.OPEN:
            self._anyone(request)
            return None
        if self.mode is Mode.TOKEN:
            header = _bearer_header(request)
            return None if self._bearer.remembered(header) is not None else self._admit_token(request)
        credential = _required(request)
        _check_time(credential, self._clock.now())
        return None if self._known_key(credential.access_key) is not None else self._admit_key(credential)

    async def _admit_token(self, request: Request) -> None:
        await self._by_token(request)

    async def _admit_key(self, credential: Credential) -> None:
        if await self._find_key(credential.access_key) is None:
            raise _unknown_key()

    async def principal(self, request: Request, service: str = "sqs") -> Caller:
        known = self.remembered(request, service)
        if known is not None:
            return known
        if self.mode is Mode.TOKEN:
            return await self._by_token(request)
        return await self._by_signature(request, service)

    def _anyone(self, request: Request) -> Caller:
        header = request.found.get(b"authorization", b"")
        # Where the credential comes first, what precedes the first comma is the same all day.
        scope = header.partition(b",")[0]
        region = self._scopes.get(scope)
        if region is None:
            region = self._region(request)
            if b"Credential=" in scope and len(scope) <= MAX_SCOPE and len(self._scopes) < 1000:
                self._scopes[scope] = region
        return EVERYONE, region

    def _region(self, request: Request) -> str:
        text = request.authorization or request.query.decode("latin-1")
        # A GET may come with no credentials at all, as from a browser; anything else must at least pretend.
        pretends = request.authorization or "X-Amz-Credential=" in text or "AWSAccessKeyId=" in text
        if not pretends and request.method not in ("GET", "HEAD"):
            raise _missing()
        region = _region_in(text)
        if region is not None:
            return region
        host = _REGION_HOST.match(request.found.get(b"host", b""))
        return host[1].decode() if host else self._home_region

    async def _by_token(self, request: Request) -> Caller:
        try:
            return await self._bearer.principal(request.authorization), self._home_region
        except Forbidden:
            raise _unknown_key() from None

    async def _by_signature(self, request: Request, service: str) -> Caller:
        credential = _required(request)
        token = await self._find_key(credential.access_key)
        now = self._clock.now()
        verify(request, credential, token.aws_secret if token is not None else None, now, service=service)
        assert token is not None
        if len(self._keys) > 10_000:
            self._keys.clear()
        self._keys[credential.access_key] = (now + timedelta(seconds=REMEMBER_S), token)
        await self._sightings.note(token.id, now)
        return principal_of(token), credential.region

    def _known_key(self, access_key: str) -> Token | None:
        known, now = self._keys.get(access_key), self._clock.now()
        return known[1] if known is not None and known[0] > now and in_force(known[1], now) else None

    async def _find_key(self, access_key: str) -> Token | None:
        found = await self._find(access_key if _ACCESS_KEY.fullmatch(access_key) else "-")
        now = self._clock.now()
        return next((token for token in found if token.aws_secret is not None and in_force(token, now)), None)


def _required(request: Request) -> Credential:
    credential = parse(request)
    if credential is not None:
        return credential
    if not request.authorization:
        raise _missing()
    raise _incomplete(" ".join(f"Authorization header requires '{name}' parameter." for name in _IN_HEADER))


def _region_in(text: str) -> str | None:
    """The region in the first credential of a header or a query string, without judging the rest."""
    scope = text.partition("Credential=")[2][:MAX_SCOPE].partition(",")[0].partition("&")[0]
    parts = scope.replace("%2F", "/").replace("%2f", "/").split("/")
    if len(parts) > 3 and _DIGITS.fullmatch(parts[1]) and _REGION.fullmatch(parts[2]):
        return parts[2]
    return None


def _bearer_header(request: Request) -> str:
    header = request.authorization
    if header and not header.startswith("AWS4-"):
        return header
    if header or b"X-Amz-Credential=" in request.query:
        raise SignatureFault("AccessDenied", "This server takes API tokens; --auth sigv4 makes it verify signatures.")
    raise _missing()
