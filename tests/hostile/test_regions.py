"""Headers that once took quadratic time."""

from __future__ import annotations

from time import process_time

import pytest

from penstock.auth import Mode
from tests.wire.conftest import Live, running
from tests.wire.raw import connected, request


@pytest.mark.parametrize("text", ["Credential=" * 2900, "Credential=%2" * 2400, "Credential=/" * 2600])
async def test_a_header_of_credentials_is_read_in_linear_time(open_server: Live, text: str) -> None:
    async with connected(open_server.port) as raw:
        began = process_time()
        sent = request("POST", "/", b"Action=ListQueues", auth=f"AWS4-HMAC-SHA256 {text}")
        assert (await raw.ask(sent)).status == 200
        assert process_time() - began < 0.5


async def test_thousands_of_signed_headers_are_judged_in_linear_time() -> None:
    names = ";".join(f"h{number}" for number in range(4000))
    scope = "AKIDEXAMPLE/20260101/us-east-1/sqs/aws4_request"
    auth = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={names}, Signature=0"
    amazon = [f"X-Amz-{number}: 1" for number in range(80)]
    async with running(Mode.SIGV4) as live, connected(live.port) as raw:
        began = process_time()
        sent = request("POST", "/", b"Action=ListQueues", "X-Amz-Date: 20260101T000000Z", *amazon, auth=auth)
        assert (await raw.ask(sent)).status in (400, 403)
        assert process_time() - began < 0.5
