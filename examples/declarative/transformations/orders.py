"""Orders as a table, counted by the hour, and the large ones forwarded to a queue.

The database is named by the environment variable DATABASE_URL of the machines that run the tasks.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

DATABASE = {"url": "env:DATABASE_URL"}

spark = SparkSession.active()


@dp.table
def orders() -> DataFrame:
    """Every event of the stream, once: a run appends those since the last one."""
    events = spark.readStream.format("penstock").options(**DATABASE, subscribe="orders", startingOffsets="earliest")
    amount = f.get_json_object("value", "$.amount").cast("double")
    return events.load().select("offset", "timestamp", "type", "value", amount.alias("amount"))


@dp.materialized_view
def orders_by_hour() -> DataFrame:
    hour = f.date_trunc("hour", "timestamp").alias("hour")
    totals = (f.count("*").alias("orders"), f.sum("amount").alias("amount"))
    return spark.read.table("orders").groupBy(hour, "type").agg(*totals)


dp.create_sink("large_orders", "penstock", {**DATABASE, "target": "queue", "name": "large-orders"})


@dp.append_flow(target="large_orders")
def forward_large_orders() -> DataFrame:
    return spark.readStream.table("orders").where("amount >= 100").select("value")
