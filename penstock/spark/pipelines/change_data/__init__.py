"""Tables of PostgreSQL in the lake, as they are and as they were."""

from penstock.spark.pipelines.change_data.pipeline import ChangeData, as_of

__all__ = ["ChangeData", "as_of"]
