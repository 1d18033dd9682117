"""A connection to PostgreSQL that returns Arrow batches.

It uses the low-level API of ADBC: the DBAPI layer imports pandas, and polars where installed. Spark starts a Python
process for every step of a query, and each would spend half a second on these imports.
"""

from __future__ import annotations

from functools import lru_cache
from types import TracebackType
from typing import Any

import adbc_driver_manager as adbc
import adbc_driver_postgresql
import pyarrow as pa

BATCH_BYTES = 4_194_304


class Connection:
    """Runs one statement at a time: a new one discards the remaining rows of the last."""

    def __init__(self, url: str, *, autocommit: bool = False) -> None:
        self._connection = adbc.AdbcConnection(_database(url))
        self._autocommit = autocommit
        self._statement: adbc.AdbcStatement | None = None
        self._answer: pa.RecordBatchReader | None = None
        if not autocommit:
            self._connection.set_autocommit(False)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        statement = self._next()
        statement.set_sql_query(query)
        if values:
            names = [str(number) for number in range(len(values))]
            statement.bind(pa.record_batch([[value] for value in values], names=names))
        table = self._ask(statement).read_all()
        self._end()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def batches(self, query: str) -> pa.RecordBatchReader:
        """The rows of a query by binary COPY, as they arrive."""
        statement = self._next()
        statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": BATCH_BYTES})
        statement.set_sql_query(query)
        return self._ask(statement)

    def append(self, schema: str, table: str, reader: pa.RecordBatchReader) -> None:
        """Write rows to a table by binary COPY."""
        statement = self._next()
        options = adbc.StatementOptions
        statement.set_options(
            **{
                options.INGEST_TARGET_TABLE.value: table,
                options.INGEST_TARGET_DB_SCHEMA.value: schema,
                options.INGEST_MODE.value: adbc.INGEST_OPTION_MODE_APPEND,
            }
        )
        statement.bind_stream(reader)
        statement.execute_update()
        self._end()

    def commit(self) -> None:
        self._end()
        if not self._autocommit:
            self._connection.commit()

    def close(self) -> None:
        """Rolls back what was not committed."""
        self._end()
        self._connection.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _next(self) -> adbc.AdbcStatement:
        self._end()
        self._statement = adbc.AdbcStatement(self._connection)
        return self._statement

    def _ask(self, statement: adbc.AdbcStatement) -> pa.RecordBatchReader:
        answer, _ = statement.execute_query()
        self._answer = pa.RecordBatchReader.from_stream(answer)
        return self._answer

    def _end(self) -> None:
        # Both are forgotten before they are closed: closing again after an error would fail again and hide it.
        answer, self._answer = self._answer, None
        statement, self._statement = self._statement, None
        if answer is not None:
            answer.close()
        if statement is not None:
            statement.close()


@lru_cache(maxsize=16)
def _database(url: str) -> adbc.AdbcDatabase:
    """Cached per process: it holds no connection, and reading the types of a database takes longer than connecting."""
    made: adbc.AdbcDatabase = adbc_driver_postgresql.connect(url)
    return made
