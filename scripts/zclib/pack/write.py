# SPDX-License-Identifier: MIT
"""The Parquet files, by pyarrow: for each part of the logs one a table that has rows of it."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, NamedTuple, Sequence

from .. import install
from ..logs import Log, LogError
from .rows import Row, Rows
from .tables import FLAG, NUMBER, TABLES, TEXT, TEXTS, WORD

MOST_ROWS = 50_000  # Of a row group; so many are held at a time.


class Part(NamedTuple):
    """The rows of one part's logs."""

    rows: dict[str, int]
    messages: list[str]


def arrow() -> Any:
    """pyarrow.  Raises MissingPart."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise install.MissingPart("zc pack needs the Python package pyarrow, which "
                                  f"{sys.executable} lacks: pip install pyarrow ({error})") \
            from error
    return pyarrow


def _text(value: Any) -> str | None:
    # JSON can say what is no Unicode, such as half of a pair.
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else None


def _number(value: Any) -> int | None:
    return value if type(value) is int and -1 << 63 <= value < 1 << 63 else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _texts(value: Any) -> list[str | None] | None:
    return [_text(item) for item in value] if isinstance(value, list) else None


# Columns that are taken from a record; what a damaged log has in their stead is null.
TAKES: dict[str, Callable[[Any], Any]] = {TEXT: _text, WORD: _text, NUMBER: _number, FLAG: _flag,
                                          TEXTS: _texts}


class Table:
    """One table's file of one part, made with its first row."""

    def __init__(self, folder: str, name: str, part: int) -> None:
        pa = self._pa = arrow()
        types = {TEXT: pa.string(), WORD: pa.dictionary(pa.int32(), pa.string()),
                 NUMBER: pa.int64(), FLAG: pa.bool_(), TEXTS: pa.list_(pa.string())}
        self._takes = [(column, TAKES[kind]) for column, kind in TABLES[name].items()]
        self._schema = pa.schema([(column, types[kind]) for column, kind in TABLES[name].items()])
        self._held: list[list[Any]] = []
        self.rows = 0
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        self._writer = pa.parquet.ParquetWriter(
            os.path.join(folder, name, f"part-{part:05}.parquet"), self._schema,
            compression="zstd")

    def put(self, row: Row) -> None:
        self._held.append([take(row.get(column)) for column, take in self._takes])
        self.rows += 1
        if len(self._held) >= MOST_ROWS:
            self._flush()

    def _flush(self) -> None:
        arrays = [self._pa.array(values, field.type)
                  for values, field in zip(zip(*self._held), self._schema)]
        self._writer.write_table(self._pa.Table.from_arrays(arrays, schema=self._schema))
        self._held = []

    def close(self) -> None:
        if self._held:
            self._flush()
        self._writer.close()

    def leave(self) -> None:
        """Leaves the file as it is: pyarrow would try to end it once more, and tell of that."""
        self._writer.is_open = False


def part(folder: str, numbered: tuple[int, Sequence[str]]) -> Part:
    """Packs some of the logs."""
    number, paths = numbered
    tables: dict[str, Table] = {}
    messages: list[str] = []

    def put(name: str, row: Row) -> None:
        if name not in tables:
            tables[name] = Table(folder, name, number)
        tables[name].put(row)

    try:
        for path in paths:
            try:
                Rows(Log(path, lambda problem: messages.append(str(problem))), put).read()
            except LogError as error:
                messages.append(str(error))
        for table in tables.values():
            table.close()
    except OSError:
        for table in tables.values():
            table.leave()
        raise
    return Part({name: table.rows for name, table in tables.items()}, messages)
