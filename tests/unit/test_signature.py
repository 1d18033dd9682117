"""Signature Version 4, with botocore as the oracle: what it signs passes, and nothing else does."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch
from urllib.parse import quote, urlsplit

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from penstock import auth
from penstock.auth import EVERYONE, Mode, Principal
from penstock.clock import FakeClock
from penstock.model import Scope, TenantId, Token
from penstock.wire.aws import signature
from penstock.wire.aws.signature import AwsAuthenticator, SignatureFault
from penstock.wire.http.messages import Request

SECRET, KEY_ID, SHA256 = auth.new_aws_secret()
NOW = FakeClock().now()
HOST = "queues.example.com:9324"
TARGET = {"X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0"}

LACKS = "Authorization header requires"


@dataclass(frozen=True)
class Signed:
    """A request as it goes over the wire, in parts that a test can change."""

    method: str
    path: str
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes = b""

    def request(self) -> Request:
        made = Request(self.method, self.path, self.query, list(self.headers), True)
        made.body = self.body
        return made

    def header(self, name: bytes) -> bytes:
        return dict(self.headers)[name]

    def with_header(self, name: bytes, value: bytes | None) -> Signed:
        kept = [(known, old) for known, old in self.headers if known != name]
        return replace(self, headers=(*kept, (name, value)) if value is not None else tuple(kept))


def sign(
    method: str = "POST",
    path: str = "/",
    query: str = "",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    params: Any = None,
    at: datetime = NOW,
    expires_s: int | None = None,
    key_id: str = KEY_ID,
    secret: str = SECRET,
    session: str | None = None,
    service: str = "sqs",
    region: str = "eu-west-1",
) -> Signed:
    """What botocore would send."""
    url = f"http://{HOST}{path}" + (f"?{query}" if query else "")
    asked = AWSRequest(method=method, url=url, headers=dict(headers or {}), data=body, params=params)
    credentials = Credentials(key_id, secret, session)
    signer = (
        SigV4Auth(credentials, service, region)
        if expires_s is None
        else SigV4QueryAuth(credentials, service, region, expires_s)
    )
    with patch("botocore.auth.get_current_datetime", return_value=at.replace(tzinfo=None)):
        signer.add_auth(asked)
    prepared = asked.prepare()
    sent = urlsplit(prepared.url)
    wire = [(b"host", HOST.encode())]
    wire += [(name.lower().encode(), _bytes(value)) for name, value in prepared.headers.items()]
    return Signed(method, sent.path or "/", sent.query.encode(), tuple(wire), body)


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def verify(signed: Signed, now: datetime = NOW, secret: str | None = SECRET, service: str = "sqs") -> None:
    request = signed.request()
    credential = signature.parse(request)
    assert credential is not None
    # A signature does not cover the id of its key: that is what finds the secret.
    found = secret if credential.access_key == KEY_ID else None
    signature.verify(request, credential, found, now, service=service)


def refused(signed: Signed, code: str = "SignatureDoesNotMatch", **arguments: Any) -> str:
    with pytest.raises(SignatureFault) as raised:
        verify(signed, **arguments)
    assert raised.value.code == code
    assert raised.value.status == (400 if code in ("IncompleteSignature", "RequestExpired") else 403)
    return raised.value.message


# What botocore signs

SEGMENT = st.text(st.characters(codec="utf-8"), max_size=8).map(lambda text: quote(text, safe=""))
PATHS = st.lists(st.one_of(SEGMENT, st.sampled_from(["", ".", "..", "a%2Fb", "~x"])), max_size=5).map(
    lambda segments: "/" + "/".join(segments)
)
WORD = st.text(st.characters(codec="utf-8"), max_size=8)
QUERIES = st.lists(st.tuples(st.one_of(WORD, st.sampled_from(["a", "b"])), WORD), max_size=6).map(
    lambda pairs: "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)
)
HEADERS = st.dictionaries(
    st.from_regex(r"x-[a-z]{1,6}", fullmatch=True),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20),
    max_size=5,
)


@given(
    method=st.sampled_from(["GET", "POST"]),
    path=PATHS,
    query=QUERIES,
    headers=HEADERS,
    body=st.one_of(st.just(b""), st.binary(max_size=50), st.text(st.characters(codec="utf-8")).map(str.encode)),
)
def test_what_botocore_signs_is_accepted(
    method: str, path: str, query: str, headers: dict[str, str], body: bytes
) -> None:
    verify(sign(method, path, query, {**TARGET, **headers}, body))


@given(path=PATHS, parameters=st.dictionaries(WORD.filter(bool), WORD.filter(bool), max_size=5), headers=HEADERS)
def test_what_botocore_presigns_is_accepted(path: str, parameters: dict[str, str], headers: dict[str, str]) -> None:
    query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in parameters.items())
    signed = sign("GET", path, query, headers, expires_s=60)
    assert b"X-Amz-Signature=" in signed.query
    verify(signed)


@given(params=st.dictionaries(WORD, WORD, max_size=5))
def test_a_query_may_be_written_as_a_form_writes_it(params: dict[str, str]) -> None:
    verify(sign("GET", "/1/orders", params={"Action": "SendMessage", "MessageBody": "a b+c", **params}))


@pytest.mark.parametrize("query", ["a=2&a=1&a=", "a", "a&b=&=c", "b=1&a=2&B=3", "a-b=1&a=2&a.b=3", "x=%E2%82%AC&x=~"])
def test_names_given_twice_and_names_without_values(query: str) -> None:
    verify(sign("GET", "/", query))


def test_repeated_headers_are_signed_together() -> None:
    signed = sign(headers={"x-many": "one, two"})
    spread = signed.with_header(b"x-many", None)
    # botocore writes one line of them; canonically the two are "one,two".
    assert refused(replace(spread, headers=(*spread.headers, (b"x-many", b"one"), (b"x-many", b"two"))))
    joined = sign(headers={"x-many": "one,two"}).with_header(b"x-many", None)
    verify(replace(joined, headers=(*joined.headers, (b"x-many", b"one"), (b"x-many", b" two "))))


def test_headers_added_on_the_way_need_no_signature() -> None:
    verify(sign().with_header(b"user-agent", b"Boto3").with_header(b"x-amzn-trace-id", b"Root=1"))


def test_a_session_token_is_no_hindrance() -> None:
    verify(sign(session="FwoGZXIvYXdzEXAMPLE=="))
    verify(sign("GET", expires_s=60, session="FwoGZXIvYXdzEXAMPLE=="))


def test_a_credential_says_who_where_and_how() -> None:
    found = signature.parse(sign().request())
    assert found is not None
    assert (found.access_key, found.date, found.region, found.service) == (KEY_ID, "20260101", "eu-west-1", "sqs")
    assert found.signed_headers == ("host", "x-amz-date")
    assert not found.presigned
    presigned = signature.parse(sign("GET", expires_s=60).request())
    assert presigned is not None
    assert presigned.presigned
    assert presigned.signed_headers == ("host",)


@pytest.mark.parametrize("authorization", [None, b"Bearer x", b"Basic eDp5", b"AWS KEY:signature"])
def test_what_is_not_signed_has_no_credential(authorization: bytes | None) -> None:
    headers = [(b"authorization", authorization)] if authorization is not None else []
    assert signature.parse(Request("GET", "/", b"Action=ListQueues&X-Amz-Other=1", headers, True)) is None


# Tampering

HEADER_FORM = sign(
    "POST", "/1/orders%20x", "Action=SendMessage&b=%20", {**TARGET, "X-Other": "a b"}, b'{"MessageBody":"hello"}'
)
QUERY_FORM = sign("GET", "/1/orders%20x", "Action=SendMessage&b=%20", {"X-Amz-Other": "a b"}, expires_s=60)


def flips(text: bytes) -> Iterator[bytes]:
    """The text with each of its bytes changed, left out and doubled."""
    for at in range(len(text)):
        swapped = b"0" if text[at : at + 1] != b"0" else b"1"
        yield text[:at] + swapped + text[at + 1 :]
        yield text[:at] + text[at + 1 :]
        yield text[:at] + text[at : at + 1] + text[at:]


def test_both_samples_are_good() -> None:
    verify(HEADER_FORM)
    verify(QUERY_FORM)


@pytest.mark.parametrize("signed", [HEADER_FORM, QUERY_FORM])
def test_any_other_method_is_refused(signed: Signed) -> None:
    for method in ("GET", "POST", "PUT", "HEAD", "get", "post"):
        if method != signed.method:
            refused(replace(signed, method=method))


@pytest.mark.parametrize("signed", [HEADER_FORM, QUERY_FORM])
def test_any_other_path_is_refused(signed: Signed) -> None:
    for rest in flips(signed.path.encode()[1:]):
        if b"//" not in rest:  # a doubled slash means the same, and is no queue's address
            refused(replace(signed, path=f"/{rest.decode()}"))


def test_any_other_query_is_refused() -> None:
    for query in flips(HEADER_FORM.query):
        refused(replace(HEADER_FORM, query=query))
    for more in (b"&", b"&c=", b"&X-Amz-Signature=0", b"&b=%20"):
        refused(replace(HEADER_FORM, query=HEADER_FORM.query + more))


def test_any_other_presigned_query_is_refused() -> None:
    for query in (*flips(QUERY_FORM.query), b"c=&" + QUERY_FORM.query, QUERY_FORM.query + b"&"):
        with pytest.raises(SignatureFault):
            verify(replace(QUERY_FORM, query=query))


@pytest.mark.parametrize("signed", [HEADER_FORM, QUERY_FORM])
def test_any_other_signed_header_is_refused(signed: Signed) -> None:
    names = [b"host", b"x-amz-target", b"content-type", b"x-other", b"x-amz-date", b"x-amz-other"]
    for name in names:
        value = dict(signed.headers).get(name)
        if value is None:
            continue
        spoilt = [signed.with_header(name, changed) for changed in flips(value) if changed.split() != value.split()]
        twice = replace(signed, headers=(*signed.headers, (name, value)))
        for request in (*spoilt, signed.with_header(name, None), twice):
            with pytest.raises(SignatureFault):
                verify(request)


@pytest.mark.parametrize("signed", [HEADER_FORM, QUERY_FORM])
def test_any_other_body_is_refused(signed: Signed) -> None:
    for body in (*flips(signed.body), signed.body + b" ", b"\0" + signed.body):
        refused(replace(signed, body=body))


def test_any_other_authorization_is_refused() -> None:
    header = HEADER_FORM.header(b"authorization")
    for changed in flips(header[len(signature.ALGORITHM) :]):
        spoilt = header[: len(signature.ALGORITHM)] + changed
        if spoilt.replace(b" ", b"") != header.replace(b" ", b""):
            with pytest.raises(SignatureFault):
                verify(HEADER_FORM.with_header(b"authorization", spoilt))


@pytest.mark.parametrize(
    "secret", [SECRET[:-1], SECRET + "x", SECRET.swapcase(), "x"], ids=["shorter", "longer", "swapped", "other"]
)
def test_any_other_secret_is_refused(secret: str) -> None:
    message = refused(HEADER_FORM, secret=secret)
    assert message.startswith("The request signature we calculated does not match the signature you provided.")
    refused(QUERY_FORM, secret=secret)


def test_a_signature_of_another_service_or_region_is_refused() -> None:
    assert refused(sign(service="sns")) == "Credential should be scoped to correct service: 'sqs'. "
    verify(sign(service="sns"), service="sns")
    refused(sign(), service="sns")
    assert "valid region" in refused(sign(region="EU_west"))
    header = HEADER_FORM.header(b"authorization")
    refused(HEADER_FORM.with_header(b"authorization", header.replace(b"eu-west-1", b"us-east-1")))
    message = refused(HEADER_FORM.with_header(b"authorization", header.replace(b"aws4_request", b"aws5_request")))
    assert "valid terminator: 'aws4_request', not 'aws5_request'" in message


def test_an_unsigned_body_is_refused() -> None:
    for claimed in ("UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "0" * 64):
        refused(sign(headers={"X-Amz-Content-SHA256": claimed}, body=b"hello"))
    # Said rightly, it may be said.
    right = hashlib.sha256(b"hello").hexdigest()
    verify(sign(headers={"X-Amz-Content-SHA256": right}, body=b"hello"))


# Which headers are signed


def sign_headers(names: Sequence[str], headers: Mapping[str, str] | None = None) -> Signed:
    """Signed in good order, but for the headers: a careless client, not a forger."""

    class Careless(SigV4Auth):
        def headers_to_sign(self, request: Any) -> Any:
            chosen = super().headers_to_sign(request)
            for name in set(chosen.keys()) - set(names):
                del chosen[name]
            return chosen

        def signed_headers(self, headers_to_sign: Any) -> str:
            return ";".join(names)

        def canonical_headers(self, headers_to_sign: Any) -> str:
            return "\n".join(f"{name}:{headers_to_sign.get(name) or ''}" for name in names)

    with patch("tests.unit.test_signature.SigV4Auth", Careless):
        return sign(headers=headers)


def test_a_careless_client_is_the_same_as_botocore_when_it_takes_care() -> None:
    verify(sign_headers(["host", "x-amz-date"]))


def test_host_and_every_amz_header_must_be_signed() -> None:
    assert refused(sign_headers(["x-amz-date"])).startswith("'Host' or ':authority' must be a 'SignedHeader'")
    assert refused(sign_headers(["host"])).startswith("'x-amz-date' must be a 'SignedHeader'")
    unsigned = sign_headers(["content-type", "host", "x-amz-date"], TARGET)
    assert refused(unsigned).startswith("'x-amz-target' must be a 'SignedHeader'")
    refused(QUERY_FORM.with_header(b"x-amz-target", b"AmazonSQS.PurgeQueue"))


@pytest.mark.parametrize(
    "names",
    [
        ["x-amz-date", "host"],
        ["host", "host", "x-amz-date"],
        ["host", "x-absent", "x-amz-date"],
        ["", "host", "x-amz-date"],
        ["Host", "host", "x-amz-date"],
    ],
)
def test_signed_headers_are_sorted_unique_and_there(names: list[str]) -> None:
    refused(sign_headers(names))


# Time


@pytest.mark.parametrize("skew_s", [-900, -1, 0, 1, 900])
def test_clocks_may_differ_by_a_quarter_of_an_hour(skew_s: int) -> None:
    verify(sign(at=NOW + timedelta(seconds=skew_s)))


def test_a_clock_that_is_behind_is_told_so() -> None:
    assert (
        refused(sign(at=NOW - timedelta(seconds=901)))
        == "Signature expired: 20251231T234459Z is now earlier than 20251231T234500Z (20260101T000000Z - 15 min.)"
    )


def test_a_clock_that_is_ahead_is_told_so() -> None:
    text = "20260101T001501Z is still later than 20260101T001500Z (20260101T000000Z + 15 min.)"
    ahead = NOW + timedelta(seconds=901)
    assert refused(sign(at=ahead)) == f"Signature not yet current: {text}"
    assert refused(sign("GET", at=ahead, expires_s=60)) == f"Signature not yet current: {text}"


def test_a_presigned_request_lasts_as_long_as_it_says() -> None:
    signed = sign("GET", expires_s=3600)
    verify(signed, now=NOW + timedelta(seconds=3600))
    assert refused(signed, "RequestExpired", now=NOW + timedelta(seconds=3601)) == "Request has expired."
    verify(sign("GET", expires_s=604_800), now=NOW + timedelta(days=7))


@pytest.mark.parametrize("expires_s", [0, -1, 604_801, 10**9])
def test_a_presigned_request_lasts_a_second_to_a_week(expires_s: int) -> None:
    assert "1 to 604800" in refused(sign("GET", expires_s=expires_s), "IncompleteSignature")


@pytest.mark.parametrize("moment", ["2026-01-01T00:00:00Z", "20261301T000000Z", "٢٠٢٦0101T000000Z", "x", "20260101"])
def test_a_moment_that_is_none_is_refused(moment: str) -> None:
    message = refused(HEADER_FORM.with_header(b"x-amz-date", moment.encode()), "IncompleteSignature")
    assert message.startswith("Date must be in ISO-8601 'basic format'.")


def test_the_scope_is_of_the_same_day() -> None:
    header = HEADER_FORM.header(b"authorization").replace(b"/20260101/", b"/20251231/")
    assert "'20251231' != '20260101'" in refused(HEADER_FORM.with_header(b"authorization", header))


# Half a signature


@pytest.mark.parametrize(
    ("authorization", "says"),
    [
        (b"AWS4-HMAC-SHA256", "not a valid key=value pair"),
        (b"AWS4-HMAC-SHA256 Credential", "not a valid key=value pair"),
        (b"AWS4-HMAC-SHA256 Credential=a/b/c/d/e, Credential=a/b/c/d/e", "not a valid key=value pair"),
        (
            b"AWS4-HMAC-SHA256 Credential=a/b/c/d/e",
            f"{LACKS} 'Signature' parameter. {LACKS} 'SignedHeaders' parameter.",
        ),
        (b"AWS4-HMAC-SHA256 Credential=, SignedHeaders=host, Signature=0", f"{LACKS} 'Credential' parameter."),
        (b"AWS4-HMAC-SHA256 Credential=a/b/c/d, SignedHeaders=host, Signature=0", "exactly 5 slash-delimited"),
        (b"AWS4-HMAC-SHA1 Credential=a/b/c/d/e, SignedHeaders=host, Signature=0", "Unsupported AWS 'algorithm'"),
        (b"AWS4-ECDSA-P256-SHA256 Credential=a", "Unsupported AWS 'algorithm'"),
    ],
)
def test_half_an_authorization_header(authorization: bytes, says: str) -> None:
    assert says in refused(HEADER_FORM.with_header(b"authorization", authorization), "IncompleteSignature")


def test_no_date() -> None:
    message = refused(HEADER_FORM.with_header(b"x-amz-date", None), "IncompleteSignature")
    assert "existence of either a 'X-Amz-Date' or a 'Date' header" in message
    assert HEADER_FORM.header(b"authorization").decode() not in message


@pytest.mark.parametrize("name", ["Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature"])
def test_half_a_presigned_query(name: str) -> None:
    parts = QUERY_FORM.query.split(b"&")
    kept = [part for part in parts if not part.startswith(f"X-Amz-{name}=".encode())]
    message = refused(replace(QUERY_FORM, query=b"&".join(kept)), "IncompleteSignature")
    assert message.startswith(f"AWS query-string parameters must include 'X-Amz-{name}'.")
    [part] = set(parts) - set(kept)
    assert "twice" in refused(replace(QUERY_FORM, query=b"&".join([*parts, part])), "IncompleteSignature")


# Keys


def key(**changes: Any) -> Token:
    made = Token(
        id=1,
        tenant=TenantId(7),
        tenant_name="acme",
        name="ci",
        prefix=KEY_ID,
        sha256=SHA256,
        scopes=frozenset({Scope.SEND}),
        queues="orders-*",
        created_at=NOW,
        expires_at=None,
        revoked_at=None,
        last_seen_at=None,
        aws_secret=SECRET,
    )
    return replace(made, **changes)


@dataclass
class Shelf:
    tokens: list[Token] = field(default_factory=lambda: [key()])
    asked: list[str] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)

    async def find(self, prefix: str) -> Sequence[Token]:
        self.asked.append(prefix)
        return [token for token in self.tokens if token.prefix == prefix]

    async def saw(self, token_id: int) -> None:
        self.seen.append(token_id)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


Make = Callable[[Mode], AwsAuthenticator]


@pytest.fixture
def make(shelf: Shelf, clock: FakeClock) -> Make:
    return lambda mode: AwsAuthenticator(mode, clock, shelf.find, shelf.saw)


@pytest.fixture
def sigv4(make: Make) -> AwsAuthenticator:
    return make(Mode.SIGV4)


async def turned_away(authenticator: AwsAuthenticator, request: Request, code: str) -> str:
    with pytest.raises(SignatureFault) as raised:
        await authenticator.principal(request)
    assert raised.value.code == code
    return raised.value.message


@pytest.mark.parametrize("signed", [HEADER_FORM, QUERY_FORM])
async def test_a_key_names_its_tenant_powers_and_region(sigv4: AwsAuthenticator, signed: Signed) -> None:
    expected = (Principal(TenantId(7), frozenset({Scope.SEND}), "orders-*", "ci"), "eu-west-1")

    assert await sigv4.principal(signed.request()) == expected
    assert sigv4.remembered(signed.request()) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"prefix": "PSAKANOTHER123456789"},
        {"revoked_at": NOW},
        {"expires_at": NOW},
        {"aws_secret": None},
    ],
)
async def test_an_unknown_or_ended_key_goes_through_the_same_sums(
    changes: dict[str, Any], sigv4: AwsAuthenticator, shelf: Shelf
) -> None:
    shelf.tokens = [key(**changes)]
    sums = patch.object(signature, "_signature", wraps=signature._signature)
    compared = patch("penstock.wire.aws.signature.hmac.compare_digest", wraps=hmac.compare_digest)
    with sums as signatures, compared as comparisons:
        message = await turned_away(sigv4, HEADER_FORM.request(), "InvalidClientTokenId")
    assert message == "The security token included in the request is invalid."
    assert (signatures.call_count, comparisons.call_count) == (1, 1)
    assert shelf.asked == [KEY_ID]
    assert shelf.seen == []


async def test_whoever_knows_the_stand_in_secret_is_unknown_all_the_same(sigv4: AwsAuthenticator) -> None:
    forged = sign(key_id="PSAK0000000000000000", secret=signature._NO_SECRET)
    await turned_away(sigv4, forged.request(), "InvalidClientTokenId")


@pytest.mark.parametrize("key_id", ["a%00b", "ключ", "x" * 129, "short"])
async def test_no_odd_key_reaches_the_database(key_id: str, sigv4: AwsAuthenticator, shelf: Shelf) -> None:
    header = re.sub(rb"Credential=[^/]*", b"Credential=" + key_id.encode(), HEADER_FORM.header(b"authorization"))
    signed = HEADER_FORM.with_header(b"authorization", header)
    await turned_away(sigv4, signed.request(), "InvalidClientTokenId")
    assert shelf.asked == ["-"]


async def test_only_the_key_is_remembered_and_only_briefly(
    sigv4: AwsAuthenticator, shelf: Shelf, clock: FakeClock
) -> None:
    await sigv4.principal(HEADER_FORM.request())
    shelf.tokens = []

    await sigv4.principal(sign("GET", "/other").request())
    await turned_away(sigv4, replace(HEADER_FORM, body=b"other").request(), "SignatureDoesNotMatch")
    await turned_away(sigv4, sign(service="sns").request(), "SignatureDoesNotMatch")
    assert shelf.asked == [KEY_ID]

    clock.advance(seconds=auth.REMEMBER_S)
    await turned_away(sigv4, HEADER_FORM.request(), "InvalidClientTokenId")


async def test_a_key_ends_on_time_even_while_remembered(
    sigv4: AwsAuthenticator, shelf: Shelf, clock: FakeClock
) -> None:
    shelf.tokens = [key(expires_at=NOW + timedelta(seconds=1))]
    await sigv4.principal(HEADER_FORM.request())
    clock.advance(seconds=1)
    await turned_away(sigv4, HEADER_FORM.request(), "InvalidClientTokenId")


async def test_use_is_noted_once_a_minute(sigv4: AwsAuthenticator, shelf: Shelf, clock: FakeClock) -> None:
    for _ in range(3):
        await sigv4.principal(HEADER_FORM.request())
        clock.advance(seconds=auth.REMEMBER_S)
    assert shelf.seen == [1]


async def test_a_wrong_signature_is_no_use(sigv4: AwsAuthenticator, shelf: Shelf) -> None:
    await turned_away(sigv4, replace(HEADER_FORM, body=b"x").request(), "SignatureDoesNotMatch")
    assert shelf.seen == []


def bare(method: str = "POST", query: bytes = b"", authorization: str | None = None) -> Request:
    headers = [(b"authorization", authorization.encode())] if authorization is not None else []
    return Request(method, "/", query, [(b"host", b"localhost"), *headers], True)


async def test_sigv4_takes_nothing_but_signatures(sigv4: AwsAuthenticator) -> None:
    for method in ("GET", "POST"):
        assert await turned_away(sigv4, bare(method), "MissingAuthenticationToken") == (
            "Request is missing Authentication Token"
        )
    await turned_away(sigv4, bare(authorization="Bearer pst_a_b"), "IncompleteSignature")
    await turned_away(sigv4, bare(authorization=f"Bearer {SECRET}"), "IncompleteSignature")


async def test_open_asks_for_something_but_of_a_get(make: Make, shelf: Shelf) -> None:
    everyone = make(Mode.OPEN)
    home = (EVERYONE, "us-east-1")

    await turned_away(everyone, bare(), "MissingAuthenticationToken")
    await turned_away(everyone, bare(authorization=""), "MissingAuthenticationToken")
    assert await everyone.principal(bare("GET")) == home
    assert await everyone.principal(bare(authorization="x")) == home
    assert await everyone.principal(bare(query=b"AWSAccessKeyId=x&Signature=y")) == home
    assert shelf.asked == []


@pytest.mark.parametrize(
    ("request_", "region"),
    [
        (sign(region="eu-west-1").request(), "eu-west-1"),
        (sign("GET", region="ap-south-1", expires_s=60).request(), "ap-south-1"),
        (sign(key_id="any/thing", region="eu-west-1").request(), "us-east-1"),
        (bare(authorization="AWS4-HMAC-SHA256 Credential=x/20260101/eu-west-1/sqs/aws4_request"), "eu-west-1"),
        (bare(authorization="AWS4-HMAC-SHA256 Credential=x/20260101/../sqs/aws4_request"), "us-east-1"),
        (bare(authorization="AWS4-HMAC-SHA256 garbage"), "us-east-1"),
        (bare("GET", b"X-Amz-Credential=x%2f20260101%2feu-west-1%2fsqs%2faws4_request"), "eu-west-1"),
    ],
)
async def test_open_believes_the_region(request_: Request, region: str, make: Make) -> None:
    assert await make(Mode.OPEN).principal(request_) == (EVERYONE, region)


async def test_token_mode_takes_tokens(make: Make, shelf: Shelf) -> None:
    text, prefix, sha256 = auth.new_secret()
    shelf.tokens = [key(prefix=prefix, sha256=sha256, aws_secret=None), key(id=2)]
    tokens = make(Mode.TOKEN)

    for _ in range(2):
        caller, region = await tokens.principal(bare(authorization=f"Bearer {text}"))
        assert (caller.tenant, region) == (TenantId(7), "us-east-1")
    await turned_away(tokens, bare(authorization="Bearer x"), "InvalidClientTokenId")
    await turned_away(tokens, bare(), "MissingAuthenticationToken")
    for signed in (HEADER_FORM, QUERY_FORM):
        assert "--auth sigv4" in await turned_away(tokens, signed.request(), "AccessDenied")
