"""DuckDB type names as Arrow types, for the few types that the declarations use."""

from __future__ import annotations

import re

import pyarrow as pa

_SCALARS: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UBIGINT": pa.uint64(),
    # Parquet has no 128-bit integer; a decimal of 38 digits holds every sum exactly.
    "HUGEINT": pa.decimal128(38, 0),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
}


def arrow_type(duckdb_type: str) -> pa.DataType:
    """The Arrow type that a declared DuckDB type is stored as; ValueError for a type no declaration may use."""
    text = duckdb_type.strip()
    if text in _SCALARS:
        return _SCALARS[text]
    if text.endswith("[]"):
        return pa.list_(arrow_type(text[:-2]))
    if match := re.fullmatch(r"MAP\((.+)\)", text):
        key, value = split_arguments(match[1])
        return pa.map_(arrow_type(key), arrow_type(value))
    if match := re.fullmatch(r"STRUCT\((.+)\)", text):
        fields = [re.fullmatch(r'"?(\w+)"? (.+)', part) for part in split_arguments(match[1])]
        return pa.struct([pa.field(field[1], arrow_type(field[2])) for field in fields if field])
    raise ValueError(f"no Arrow type is known for the DuckDB type {duckdb_type!r}")


def split_arguments(text: str) -> list[str]:
    """Split at the commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += character in "(["
        depth -= character in ")]"
        if character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    return [*parts, text[start:].strip()]
