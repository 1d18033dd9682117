"""The id of a streaming query, by which a table knows the batches that it has."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.spark.lake.storage import folder, is_folder


def query_id(spark: SparkSession, checkpoint: str) -> str:
    """The id of the query, from its checkpoint: Spark gives it to tasks only."""
    path = f"{checkpoint}/metadata"
    if is_folder(path):
        text = Path(folder(path)).read_text("utf-8")
    else:
        [[text]] = spark.read.text(path).collect()
    return str(json.loads(text)["id"])
