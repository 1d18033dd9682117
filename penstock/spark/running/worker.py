"""The Python process that Spark reuses for one task after another."""

from __future__ import annotations

import gc

_settled = False


def freeze_imports() -> None:
    """Exclude imported modules from garbage collection.

    Spark's worker collects garbage after every task, over all imported modules. That takes longer than reading ten
    thousand events, and frees nothing.
    """
    global _settled
    if not _settled:
        gc.freeze()
        _settled = True
