"""How much went through, how fast, and what went wrong, per name and hour."""

from penstock.spark.pipelines.insights.pipeline import Insights
from penstock.spark.pipelines.insights.rollups import merged

__all__ = ["Insights", "merged"]
