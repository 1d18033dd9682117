"""Archive streams into a lake, on whatever Spark this is submitted to:

    spark-submit --master spark://master:7077 spark_archive.py LAKE STREAM…

The address of the database is in the environment variable DATABASE_URL, on the driver and on the executors. Runs of
this program take turns by themselves: each goes on where the last one ended, also when that one was killed.
"""

import sys

from penstock.spark.pipelines.archive import Archive
from penstock.spark.pipelines.run import run_pipeline
from penstock.spark.running.session import session


def main(lake: str, *streams: str) -> None:
    spark = session("archive")
    run_pipeline(Archive(streams=streams), spark=spark, url="env:DATABASE_URL", lake=lake)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
