"""Fixtures for pytest, found by pytest itself once Penstock is installed.

| fixture | scope | what it is |
|---|---|---|
| `penstock_server` | session | a server in memory; one for each process of pytest-xdist |
| `penstock_tenant` | test | a tenant of its own: url, token, AWS access key |
| `penstock_environment` | test | the same tenant, in the variables that clients read |
| `penstock_client` | test | a `penstock.Client` of that tenant |
| `penstock_sqs`, `penstock_sns` | test | boto3 clients of that tenant |
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.testing.server import MemoryServer, TestTenant


@pytest.fixture(scope="session")
def penstock_server() -> Iterator[MemoryServer]:
    """A server in memory for the whole run."""
    from penstock.testing.server import MemoryServer

    with MemoryServer() as server:
        yield server


@pytest.fixture
def penstock_tenant(penstock_server: MemoryServer) -> TestTenant:
    """A tenant for this test alone."""
    return penstock_server.new_tenant()


@pytest.fixture
def penstock_environment(penstock_tenant: TestTenant, monkeypatch: pytest.MonkeyPatch) -> TestTenant:
    """The tenant of this test, for programs that make their own clients."""
    for name, value in penstock_tenant.environment.items():
        monkeypatch.setenv(name, value)
    if "boto3" in sys.modules:
        # Its default session keeps the access key that it read first.
        monkeypatch.setattr(sys.modules["boto3"], "DEFAULT_SESSION", None)
    return penstock_tenant


@pytest.fixture
def penstock_client(penstock_tenant: TestTenant) -> Iterator[Client]:
    """A client of the whole API."""
    with penstock_tenant.client() as client:
        yield client


@pytest.fixture
def penstock_sqs(penstock_tenant: TestTenant) -> Iterator[Any]:
    """A boto3 client of SQS."""
    client = penstock_tenant.sqs()
    yield client
    client.close()


@pytest.fixture
def penstock_sns(penstock_tenant: TestTenant) -> Iterator[Any]:
    """A boto3 client of SNS."""
    client = penstock_tenant.sns()
    yield client
    client.close()
