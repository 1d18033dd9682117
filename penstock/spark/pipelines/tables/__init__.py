"""Events as typed tables: one for each event type, and a quarantine for events that do not fit."""

from penstock.spark.pipelines.tables.pipeline import Tables

__all__ = ["Tables"]
