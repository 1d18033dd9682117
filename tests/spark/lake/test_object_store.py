"""The lake in an object store: tables by every reader and writer, upkeep, pipelines, and secrets that stay secret."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars
import psycopg
import pyarrow as pa
import pyarrow.dataset as dataset
import pytest
from botocore.exceptions import ClientError
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from penstock.cli import app
from penstock.spark import lake
from penstock.spark.lake.checkpoints import checkpoints_of, remember_checkpoints
from penstock.spark.lake.storage import filesystem
from tests.cli.runner import CliRunner, Result
from tests.docs.pages import blocks, page, section
from tests.spark import streams
from tests.spark.lake.object_store import BUCKET, SECRET, ObjectStore
from tests.spark.lake.racing import BATCHES, RACERS, race
from tests.spark.lake.test_lake import TEXTS
from tests.system.serving import ROOT, environment

pytestmark = pytest.mark.timeout(300)

PATIENCE_S = 240.0
FEW_ROWS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Code that is made for a query, and tasks side by side, cost more than two rows can earn."""
RUN_ALL = """
import json, sys
from penstock.cli import app
for words in json.loads(sys.argv[1]):
    app(words, standalone_mode=False)
"""
"""Several commands, one after the other, in one Java: another would take ten seconds to start."""


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    made = ObjectStore()
    yield made
    made.close()


@pytest.fixture
def place(store: ObjectStore) -> str:
    return store.place()


def options(store: ObjectStore, **more: str) -> dict[str, str]:
    return {f"storage.{name}": value for name, value in store.storage.items()} | more


# The store itself


def test_of_those_who_create_one_name_one_wins(store: ObjectStore) -> None:
    """What a commit stands on. Were it not so here, the tests below would show nothing."""
    clients = [store.client() for _ in range(RACERS)]

    def create(number: int) -> str:
        try:
            clients[number].put_object(Bucket=BUCKET, Key="raced", Body=b"x", IfNoneMatch="*")
            return "won"
        except ClientError as error:
            return str(error.response["Error"]["Code"])

    with ThreadPoolExecutor(RACERS) as racers:
        found = Counter(racers.map(create, range(RACERS)))
    assert found == {"won": 1, "PreconditionFailed": RACERS - 1}


# Tables


def test_every_reader_sees_the_rows(spark: SparkSession, store: ObjectStore, place: str) -> None:
    rows = [(number, text) for number, text in enumerate([*TEXTS, "<a|b>`+&$,;@()!~"])]
    frame = spark.createDataFrame(rows, "n bigint, k string").coalesce(1)
    frame.write.format("penstock_lake").options(path=place, partitionBy="k", **options(store)).mode("append").save()

    for _ in range(2):
        table = DeltaTable(place, storage_options=store.storage)
        assert sorted(map(tuple, lake.read(spark, place, storage=store.storage).collect())) == rows
        assert sorted(polars.scan_delta(place, storage_options=store.storage).select("n", "k").collect().rows()) == rows
        assert sorted(zip(*table.to_pyarrow_table().select(["n", "k"]).to_pydict().values(), strict=True)) == rows
        # Once more, after another writer's compaction.
        write_deltalake(table, pa.table({"n": [0], "k": ["plain"]}), mode="append")
        rows = sorted([*rows, (0, "plain")])
        assert lake.compact(place, storage=store.storage).removed == 2
    chosen = spark.read.format("penstock_lake").options(path=place, pushDownFilters="true", **options(store)).load()
    assert [tuple(row) for row in chosen.where("k = 'ünï 🚰'").collect()] == [(4, "ünï 🚰")]


def test_a_stream_goes_on_where_it_was(spark: SparkSession, store: ObjectStore, place: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    source = spark.readStream.schema("n bigint").json(str(tmp_path / "in"))
    for number in range(2):
        (tmp_path / "in" / f"{number}.json").write_text(json.dumps({"n": number}))
        given = options(store, checkpointLocation=str(tmp_path / "checkpoint"))
        writer = source.coalesce(1).writeStream.format("penstock_lake").options(**given)
        writer.trigger(availableNow=True).start(place).awaitTermination()

    assert sorted(polars.read_delta(place, storage_options=store.storage)["n"]) == [0, 1]
    assert DeltaTable(place, storage_options=store.storage).version() == 1


def test_plain_parquet_is_moved_in(spark: SparkSession, store: ObjectStore, place: str) -> None:
    frame = spark.createDataFrame([(1, "a b"), (2, "ü/")], "n bigint, k string").coalesce(1)
    given = options(store, path=f"{place}/t", tableFormat="parquet", partitionBy="k")
    frame.write.format("penstock_lake").options(**given).mode("append").save()

    found = dataset.dataset("", filesystem=filesystem(f"{place}/t", store.storage), partitioning="hive")
    assert sorted(found.to_table().to_pydict()["n"]) == [1, 2]
    assert {name.rpartition("/")[0] for name in store.names(place)} == {"t/k=a b", "t/k=ü%2F"}


@pytest.mark.slow
def test_of_racing_writers_of_one_batch_one_is_heard(store: ObjectStore, place: str) -> None:
    """The first batch makes the table."""
    assert race("write", place, store.storage) == [1] * BATCHES
    assert sorted(polars.read_delta(place, storage_options=store.storage)["n"]) == list(range(BATCHES))
    assert DeltaTable(place, storage_options=store.storage).version() == BATCHES - 1


@pytest.mark.slow
def test_of_racing_merges_of_one_batch_one_is_done(store: ObjectStore, place: str) -> None:
    lake.replace(place, pa.table({"id": [1, 2], "n": [0, 0]}), "true", partition_by=[], storage=store.storage)

    assert race("merge", place, store.storage) == [1] * BATCHES
    rows = polars.read_delta(place, storage_options=store.storage).select("id", "n").rows()
    assert sorted(rows) == [(1, BATCHES), (2, 0)]


# Upkeep


def command(store: ObjectStore, verb: str, *arguments: str) -> Result:
    given = store.storage | {"AWS_SECRET_ACCESS_KEY": "env:LAKE_SECRET"}
    storage = [word for name, value in given.items() for word in ("--storage", f"{name}={value}")]
    return CliRunner().invoke(app, ["lake", verb, *arguments, *storage], catch_exceptions=False)


def test_commands_look_after_it(store: ObjectStore, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_SECRET", SECRET)
    for number in range(4):
        write_deltalake(f"{place}/a/t", pa.table({"n": [number]}), mode="append", storage_options=store.storage)
    store.client().put_object(Bucket=BUCKET, Key=f"{place.partition(BUCKET)[2][1:]}/_checkpoints/archive", Body=b"x")

    [told] = json.loads(command(store, "tree", place, "--json").stdout)
    assert (told["table"], told["files"], told["rows"]) == ("a/t", 4, 4)
    assert command(store, "compact", place).stdout == f"{place}/a/t: merged 4 files into 1\n"
    assert command(store, "vacuum", place).stdout == f"{place}/a/t: 0 files removed\n"
    assert command(store, "vacuum", place, "--retention", "0s").stdout == f"{place}/a/t: 4 files removed\n"
    assert sorted(polars.read_delta(f"{place}/a/t", storage_options=store.storage)["n"]) == [0, 1, 2, 3]
    assert command(store, "tree", f"{place}/none").stderr == f"No tables found at {place}/none.\n"


@pytest.mark.parametrize(
    ("where", "other", "problem"),
    [
        (f"s3://{BUCKET}/t", {"AWS_ACCESS_KEY_ID": "stranger"}, "InvalidAccessKeyId"),
        ("s3://none/t", {}, "NoSuchBucket"),
    ],
    ids=["refused", "no bucket"],
)
def test_a_store_that_lets_nobody_in_says_why_in_one_line(
    store: ObjectStore, where: str, other: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE_SECRET", SECRET)
    monkeypatch.setattr(store, "storage", store.storage | other)
    for attempt in (lake.exists, lambda path, storage: lake.read(None, path, storage=storage)):  # type: ignore[arg-type]
        with pytest.raises(lake.LakeError, match=rf"^{where} cannot be reached: [^\n\x1b]*{problem}$"):
            attempt(where, store.storage)

    result = command(store, "tree", where)
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert re.fullmatch(rf"penstock: {where} cannot be reached: .*{problem}\n", result.output)


def test_a_secret_that_is_not_in_the_environment_is_named(store: ObjectStore) -> None:
    with pytest.raises(
        lake.LakeError, match="variable LAKE_SECRET, which holds AWS_SECRET_ACCESS_KEY of the store, is"
    ):
        lake.exists("s3://none/t", store.storage | {"AWS_SECRET_ACCESS_KEY": "env:LAKE_SECRET"})


# Checkpoints


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("archive --stream s", "Spark cannot write checkpoints to s3://lakes/shop: give a folder with --checkpoints"),
        ("insights --checkpoints FOLDER", "s3://lakes/shop cannot be reached: .*: InvalidAccessKeyId"),
        ("replay r --to s --checkpoints FOLDER", "replay runs no streaming queries: omit --checkpoints"),
        (
            "archive --stream s --storage region=here",
            "unknown storage option 'region': names begin with AWS_, AZURE_, GOOGLE_",
        ),
        ("archive --stream s --storage AWS_TOKEN=env:NONE", "the environment variable NONE, which holds AWS_TOKEN of"),
    ],
    ids=["no place", "refused", "no queries", "name", "no variable"],
)
def test_a_pipeline_that_cannot_run_there_is_refused_before_anything_starts(
    store: ObjectStore, words: str, problem: str, tmp_path: Path, migrated_database: str
) -> None:
    given = [str(tmp_path) if word == "FOLDER" else word for word in words.split()]
    stranger = store.storage | {"AWS_ACCESS_KEY_ID": "stranger"}
    given += [word for pair in stranger.items() for word in ("--storage", "=".join(pair))]
    before = dict(os.environ)
    places = ["--lake", "s3://lakes/shop", "--database-url", migrated_database]

    result = CliRunner().invoke(app, ["pipeline", "run", *given, *places])

    # Errors of ours are put into words by `main`.
    said = result.output or f"penstock: {result.exception}\n"
    assert (result.exit_code, said.count("\n")) == (1, 1)
    assert re.match(f"penstock: .*{problem}", said)
    assert SECRET not in said
    assert dict(os.environ) == before


def test_lakes_do_not_share_checkpoints(tmp_path: Path) -> None:
    found = {checkpoints_of(each, str(tmp_path)) for each in ("s3://a/lake", "s3://b/lake", "s3://a/lake/")}

    assert found == {f"{tmp_path}/s3%3A%2F%2Fa%2Flake", f"{tmp_path}/s3%3A%2F%2Fb%2Flake"}
    assert checkpoints_of("/lake", None) == "/lake/_checkpoints"
    with pytest.raises(lake.LakeError, match="omit --checkpoints"):
        checkpoints_of("/lake", str(tmp_path))


def test_a_lake_whose_checkpoints_are_lost_is_not_written_again(
    store: ObjectStore, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in store.storage.items():
        monkeypatch.setenv(name, value)
    remember_checkpoints(place, "archive", str(tmp_path / "here"))
    remember_checkpoints(place, "archive", str(tmp_path / "here"))
    remember_checkpoints(place, "insights", str(tmp_path / "elsewhere"))

    with pytest.raises(lake.LakeError, match=rf"checkpoints in {tmp_path}/here/archive, and there are none in"):
        remember_checkpoints(place, "archive", str(tmp_path / "elsewhere"))


# What the page says


def test_the_program_of_the_page_runs(
    spark: SparkSession, store: ObjectStore, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in store.storage.items():
        monkeypatch.setenv(name, value)
    [storage] = [line for line in on_the_page("python").splitlines() if line.startswith("storage = ")]
    # Tasks have the environment that Spark was started with, so everything takes the place of some of it there.
    program = on_the_page("python").replace(storage, f"storage = {store.storage}").replace("s3://lakes/shop", place)
    frame = spark.sql("select 1 as n, current_date() as date")

    exec(program, {"lake": lake, "polars": polars, "spark": spark, "frame": frame})

    assert polars.read_delta(f"{place}/copy", storage_options=store.storage)["n"].to_list() == [1]


def on_the_page(language: str) -> str:
    [text] = [text for found, text in blocks(section(page("docs/lake.md"), "## Object stores")) if found == language]
    return text


def commands_of_the_page(store: ObjectStore, place: str, folder: Path) -> list[list[str]]:
    lines = on_the_page("sh").replace("\\\n", "").splitlines()
    changed = {"s3://lakes/shop": place, "/var/lib/checkpoints": str(folder)}
    found = [
        [changed.get(word, word) for word in shlex.split(line)[1:]] for line in lines if line.startswith("penstock ")
    ]
    given = store.storage | {"AWS_SECRET_ACCESS_KEY": "env:LAKE_SECRET"}
    return [[*words, *(word for pair in given.items() for word in ("--storage", "=".join(pair)))] for words in found]


def run_all(commands: list[list[str]], more: dict[str, str], output: Path) -> set[str]:
    """Every command line on this machine meanwhile that the secret is in."""
    telling: set[str] = set()
    with output.open("wb") as said:
        run = subprocess.Popen(
            [sys.executable, "-c", RUN_ALL, json.dumps(commands)],
            cwd=ROOT, env=environment(more), stdout=said, stderr=said,
        )  # fmt: skip
    try:
        until = time.monotonic() + PATIENCE_S
        while run.poll() is None and time.monotonic() < until:
            telling |= {line for line in command_lines() if SECRET in line}
            time.sleep(0.5)
    finally:
        run.kill()
        run.wait(30)
    assert run.returncode == 0, output.read_text()
    return telling


def command_lines() -> Iterator[str]:
    for found in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield found.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # It has ended.


@pytest.mark.slow
def test_the_commands_of_the_page_run_and_tell_no_secret(
    store: ObjectStore, dsn: str, database: psycopg.Connection, place: str, tmp_path: Path
) -> None:
    for name in ("orders", "orders-again"):
        streams.make(database, name)
    streams.send(database, "orders", ["one", "two"], "made")
    streams.tick(database, "orders")
    database.execute("create table public.customers (id bigint primary key, name text)")
    database.execute("insert into public.customers values (1, 'Ada'), (2, 'Grace')")
    log = tmp_path / "log"
    log.mkdir()
    settings = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(log), "spark.eventLog.compress": "false"}
    conf = [word for pair in (settings | FEW_ROWS).items() for word in ("--conf", "=".join(pair))]
    *pipelines, tree = commands_of_the_page(store, place, tmp_path / "checkpoints")
    # One of those with a query of its own is enough: insights write as archive does, and take as long as all others.
    pipelines = [[*words, *conf] for words in pipelines if words[2] != "insights"]

    said = log / "said"
    telling = run_all([*pipelines, tree], {"DATABASE_URL": dsn, "LAKE_SECRET": SECRET}, said)

    assert [words[2] for words in pipelines] == ["archive", "cdc", "replay"]
    counts = {found.name: found.rows for found in lake.tables(place, store.storage)}
    assert {name: counts[name] for name in ("events", "current/public.customers")} == {
        "events": 2,
        "current/public.customers": 2,
    }
    assert database.execute("select state, error from penstock.pipeline_runs").fetchall() == [("done", None)] * 3
    sent = database.execute("select rows from penstock.pipeline_runs where pipeline = 'replay'").fetchone()
    assert sent == (2,)
    assert telling == set()
    runs = database.execute("select row_to_json(r)::text from penstock.pipeline_runs as r").fetchall()
    logs = [found.read_text() for found in log.rglob("*") if found.is_file()]
    assert len(logs) > len(pipelines), "what was said, and what Spark wrote of each run"
    assert not any(SECRET in text for text in [*(row[0] for row in runs), *logs])
