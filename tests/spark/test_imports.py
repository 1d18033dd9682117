"""What every process of Spark's pays for, before it does anything."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("pandas", "polars", "penstock.store", "psycopg", "asyncpg")


def test_the_formats_are_found_without_heavy_packages() -> None:
    """Spark imports both formats anew in each of the five processes or more that begin a query."""
    found = "import sys, pyspark_penstock, pyspark_penstock_lake; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", found], capture_output=True, text=True, timeout=60, check=True)
    assert set(HEAVY).isdisjoint(done.stdout.split())
