"""The Python process in which Spark runs a task, and another one after it."""

from __future__ import annotations

import gc

_settled = False


def spare_imports() -> None:
    """Leave what was imported out of garbage collection.

    After every task Spark's worker collects garbage, through all that this process ever imported. That takes longer
    than to read ten thousand events, and finds nothing.
    """
    global _settled
    if not _settled:
        gc.freeze()
        _settled = True
