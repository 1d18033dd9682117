"""The Python process that Spark reuses for one task after another."""

from __future__ import annotations

import gc
import sys

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


def filters_are_offered() -> bool:
    """Whether this process plans a read that Spark pushes filters down to.

    Spark fails reads of a class that takes filters unless `spark.sql.python.filterPushdown.enabled` is set, and tells a
    source nothing about its settings. But it plans such reads in a module of their own.
    """
    return "pyspark.sql.worker.data_source_pushdown_filters" in sys.modules
