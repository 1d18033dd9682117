"""Compacts the lake's tables: a merge rewrites files and leaves the old ones behind."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.spark import lake
from penstock.spark.pipelines.change_data.tables import LakeTable


def compact_and_vacuum(tables: Sequence[LakeTable]) -> None:
    for table in tables:
        if table.exists:
            lake.compact(table.path)
            lake.vacuum(table.path)
