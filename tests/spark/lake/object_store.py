"""An S3 on this machine, as a process of its own: moto's, let in by one key, and with creation that only one wins.

In a process of its own, because readers written in Rust hold Python up while they ask.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

import boto3
from botocore.config import Config

from tests.system.serving import ROOT, environment

HERE = "127.0.0.1"
KEY_ID = "pump"
SECRET = "Sluice-keeper's-secret"
BUCKET = "lakes"
REFUSED = b"<?xml version='1.0'?><Error><Code>InvalidAccessKeyId</Code><Message>Who is that?</Message></Error>"


class ObjectStore:
    """The caller closes it."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.spark.lake.object_store"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        self.storage = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "eu-central-1",
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }
        self.client().create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": self.storage["AWS_REGION"]}
        )

    def client(self) -> Any:
        return boto3.client(
            "s3", endpoint_url=self.url, region_name=self.storage["AWS_REGION"], aws_access_key_id=KEY_ID,
            aws_secret_access_key=SECRET, config=Config(retries={"total_max_attempts": 1}),
        )  # fmt: skip

    def place(self) -> str:
        """A new one, with nothing in it."""
        return f"s3://{BUCKET}/{uuid4().hex}"

    def names(self, place: str) -> list[str]:
        prefix = place.removeprefix(f"s3://{BUCKET}/") + "/"
        found = self.client().list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        return [each["Key"].removeprefix(prefix) for each in found]

    def close(self) -> None:
        self._process.communicate(timeout=30)


def _serve() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    application: Any = DomainDispatcherApplication(create_backend_app)
    # Moto looks whether a name is free, and takes it later: in between another may do the same.
    one_by_one = threading.Lock()

    def answer(asked: dict[str, Any], begin: Callable[..., Any]) -> Iterable[bytes]:
        if f"Credential={KEY_ID}/" not in asked.get("HTTP_AUTHORIZATION", ""):
            begin("403 Forbidden", [("Content-Type", "application/xml"), ("Content-Length", str(len(REFUSED)))])
            return [REFUSED]
        if asked["REQUEST_METHOD"] in ("GET", "HEAD"):
            return application(asked, begin)  # type: ignore[no-any-return]
        with one_by_one:
            return list(application(asked, begin))

    server = make_server(HERE, 0, answer, threaded=True, request_handler=MotoRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://{HERE}:{server.server_port}", flush=True)
    sys.stdin.read()  # Ends with the parent process.


if __name__ == "__main__":
    _serve()
