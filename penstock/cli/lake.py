"""`penstock lake`: maintain the tables of a lake. Needs neither a Spark session nor a database."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import Json, parse_duration
from penstock.cli.output import counted, print_rows
from penstock.cli.spark import Storage, one_line_errors, storage_options

if TYPE_CHECKING:
    from penstock.spark.lake.upkeep import TableSummary

app = typer.Typer(help="Maintain the tables of a lake.", no_args_is_help=True)

Root = Annotated[
    str, typer.Argument(metavar="PATH", help="Lake or single table: a folder, or the URI of an object store.")
]

NONE = "No tables found at {}."


@app.command("tree")
def tree(path: Root, storage: Storage = None, as_json: Json = False) -> None:
    """List the tables with their versions, files, rows and sizes."""
    with one_line_errors(False):
        from penstock.spark import lake

        rows: list[dict[str, Any]] = []
        for found in lake.tables(path, storage_options(storage)):
            rows.append(
                {
                    "table": found.name or found.path,
                    "version": found.version,
                    "files": found.files,
                    "rows": found.rows,
                    "bytes": found.bytes,
                    "partitions": found.partitions,
                    "partitioned by": ", ".join(found.partition_by),
                }
            )
    print_rows(rows, as_json, NONE.format(path))


@app.command("sql")
def sql(
    path: Root,
    database: Annotated[str, typer.Option(help="Database of the catalog.")] = "lake",
    storage: Storage = None,
) -> None:
    """Print SQL that makes the tables known to Spark's catalog, as views."""
    with one_line_errors(False):
        from penstock.spark.lake.catalog import statements

        for _, text in statements(path, database=database, storage=storage_options(storage)):
            print(f"{text};")


@app.command("compact")
def compact(
    path: Root,
    file_mb: Annotated[int, typer.Option(min=1, help="Target file size in MB.")] = 128,
    storage: Storage = None,
) -> None:
    """Merge small files. Appends may continue meanwhile; readers see the same rows."""
    with one_line_errors(False):
        from penstock.spark import lake

        for found in _tables(path, storage):
            done = lake.compact(found.path, file_bytes=file_mb * 1_048_576, storage=storage_options(storage))
            print(f"{found.path}: merged {counted(done.removed, 'file')} into {done.added}")


@app.command("vacuum")
def vacuum(
    path: Root,
    retention: Annotated[str, typer.Option(metavar="7d", help="Keep files younger than this.")] = "7d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the files.")] = False,
    storage: Storage = None,
) -> None:
    """Delete files that no version of a table refers to, such as those of killed writers."""
    with one_line_errors(False):
        from penstock.spark import lake

        age = parse_duration(retention)
        for found in _tables(path, storage):
            gone = lake.vacuum(found.path, retention=age, dry_run=dry_run, storage=storage_options(storage))
            print(f"{found.path}: {counted(len(gone), 'file')} {'would be ' if dry_run else ''}removed")


def _tables(path: str, storage: list[str] | None) -> Iterator[TableSummary]:
    from penstock.spark import lake

    found = None
    for found in lake.tables(path, storage_options(storage)):
        yield found
    if found is None:
        print(NONE.format(path), file=sys.stderr)
