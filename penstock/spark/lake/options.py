"""Options of `format("penstock_lake")`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.spark.lake.storage import is_folder, without_scheme
from penstock.spark.options import OptionError

KNOWN = (
    "path", "partitionBy", "tableFormat", "mergeSchema", "txnAppId", "txnVersion", "version", "pushDownFilters",
    "startingVersion", "maxFilesPerTrigger", "skipChangeCommits", "readChangeFeed", "checkpointLocation", "queryName",
)  # fmt: skip
STORAGE = "storage."
FORMATS = ("delta", "parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeOptions:
    path: str
    partition_by: tuple[str, ...]
    """Empty means the partitions of the table, and none for a new table."""
    table_format: str
    merge_schema: bool
    app: str | None
    app_version: int | None
    version: int | None
    """Version of the table to read; None is the newest."""
    push_down: bool
    starting_version: str | None
    """Of a stream: `latest`, or the first version to read; None begins with all rows of the table."""
    max_files: int | None
    skip_changes: bool
    change_feed: bool
    storage: dict[str, str]
    """Options of the object store. Tasks get them unchanged and resolve `env:NAME` themselves."""


def lake_options(options: Mapping[str, str]) -> LakeOptions:
    known = {name.lower() for name in KNOWN}
    given = {name.lower(): value for name, value in options.items()}
    if unknown := [name for name in given if name not in known and not name.startswith(STORAGE)]:
        raise OptionError(unknown[0], f"unknown option; known are {', '.join(KNOWN)} and {STORAGE}*")
    if not given.get("path"):
        raise OptionError(
            "path",
            "required: the location of the table. Spark does not pass that of a catalog table: write"
            " `select … from name with (path = '…')`, or call penstock.spark.lake.register",
        )
    if is_folder(given["path"]) and not without_scheme(given["path"]).startswith("/"):
        raise OptionError("path", "must be absolute: tasks have other working directories")
    app, app_version = given.get("txnappid"), _number(given, "txnVersion")
    if (app is None) != (app_version is None):
        raise OptionError("txnAppId", "give txnAppId and txnVersion together")
    return LakeOptions(
        path=given["path"],
        partition_by=tuple(name.strip() for name in given.get("partitionby", "").split(",") if name.strip()),
        table_format=_one_of(given, "tableFormat", FORMATS, "delta"),
        merge_schema=_one_of(given, "mergeSchema", ("true", "false"), "false") == "true",
        app=app,
        app_version=app_version,
        version=_number(given, "version"),
        push_down=_one_of(given, "pushDownFilters", ("true", "false"), "true") == "true",
        starting_version=_starting(given),
        max_files=_number(given, "maxFilesPerTrigger"),
        skip_changes=_one_of(given, "skipChangeCommits", ("true", "false"), "false") == "true",
        change_feed=_one_of(given, "readChangeFeed", ("true", "false"), "false") == "true",
        storage={name.removeprefix(STORAGE): value for name, value in given.items() if name.startswith(STORAGE)},
    )


def _starting(given: Mapping[str, str]) -> str | None:
    text = given.get("startingversion")
    if text is not None and text != "latest":
        _number(given, "startingVersion")
    return text


def _one_of(given: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    value = given.get(name.lower(), default).lower()
    if value not in choices:
        raise OptionError(name, f"{value!r} is not one of {', '.join(choices)}")
    return value


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.isdigit():
        raise OptionError(name, f"{text!r} is not a whole number of at least 0")
    return int(text)
