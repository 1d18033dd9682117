"""Penstock for tests: a server in memory in a thread of the test process, and a tenant for each test.

With pytest the fixtures are there once the package is installed: see `penstock.testing.plugin`. Elsewhere:

    with MemoryServer() as server:
        sqs = server.new_tenant().sqs()
"""

from penstock.testing.server import MemoryServer, TestTenant

__all__ = ["MemoryServer", "TestTenant"]
