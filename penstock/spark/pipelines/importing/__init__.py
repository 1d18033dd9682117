"""Imports from other queues and from files."""

from penstock.spark.pipelines.importing.pipeline import SOURCES, Import

__all__ = ["SOURCES", "Import"]
