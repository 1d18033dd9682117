"""Counts, latencies and errors, per name and hour."""

from penstock.spark.pipelines.insights.numbers import merged
from penstock.spark.pipelines.insights.pipeline import Insights

__all__ = ["Insights", "merged"]
