"""Inputs of any size, made from real captures: what they hold is real, only repeated with other times and names."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path
from typing import Any

import zstandard

from specledger.schemas.raw import SNAPSHOTS
from specledger.schemas.table import quote
from specledger.schemas.warehouse import Warehouse
from tests import captures

_LOGGED = re.compile(rb"(?<=[A-Z] )(\d\d-\d\d \d\d:\d\d:\d\d)(?= )")
EVERY_S = 5
BEGIN = 1_789_372_800


def text(capture: str, name: str) -> str:
    """A file of a capture."""
    with (captures.folder(capture) / name).open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file).read().decode()


def scrape_texts(capture: str = "default_flags") -> list[str]:
    """The scrapes of one server under load."""
    return re.split(r"^# scraped_at .*\n", text(capture, "metrics.prom.zst"), flags=re.MULTILINE)[1:]


def scrapes(path: Path, size: float, every_s: int = EVERY_S) -> Path:
    """A file of scrapes of at least that many MB."""
    texts = scrape_texts()
    with path.open("w") as file:
        number = 0
        while file.tell() < size * 1e6:
            file.write(f"# scraped_at {BEGIN + every_s * number}\n{texts[number % len(texts)]}")
            number += 1
    return path


def server_log(path: Path, capture: str, size: float) -> Path:
    """One start of a server and then its working records, again and again later, at least that many MB in all."""
    content = text(capture, "server.log.zst").encode()
    ready = content.index(b"\n", content.index(b"Application startup complete")) + 1
    end = re.search(rb"^.*\[shutdown\].*$", content, re.MULTILINE)
    # Cut once around the times: every second piece is one.
    pieces = _LOGGED.split(content[ready : end.start() if end else None])
    times = {stamp: dt.datetime.strptime(f"2026-{stamp.decode()}", "%Y-%m-%d %H:%M:%S") for stamp in pieces[1::2]}
    span = max(times.values()) - min(times.values()) + dt.timedelta(seconds=10)
    with path.open("wb") as out:
        out.write(content[:ready])
        turn = 0
        while out.tell() < size * 1e6:
            moved = {stamp: (time + turn * span).strftime("%m-%d %H:%M:%S").encode() for stamp, time in times.items()}
            out.write(b"".join(map(moved.get, pieces, pieces)))
            turn += 1
    return path


def responses(
    path: Path, size: float, capture: str = "spec_k3_draft", *, arrays: bool = True, prefix: str = "r"
) -> Path:
    """Logged responses with detailed arrays or without, at least that many MB; each has its own id and time."""
    # Cut once around what differs from copy to copy: dumping each line anew would take longer than reading it.
    pieces = []
    for line in text(capture, "responses.jsonl.zst").splitlines():
        row = json.loads(line)
        kept = line if arrays else json.dumps(_without_arrays(row))
        start = f'"start_unix": {row["start_unix"]!r}'
        pieces.append((row["start_unix"], kept.replace(start, "<start>", 1).split(row["request_id"])))
    span = max(start for start, _ in pieces) - min(start for start, _ in pieces) + 60
    with path.open("w") as file:
        turn = 0
        while file.tell() < size * 1e6:
            for number, (start, parts) in enumerate(pieces):
                moved = f'"start_unix": {start + turn * span:.6f}'
                file.write(f"{prefix}{turn}-{number}".join(parts).replace("<start>", moved, 1) + "\n")
            turn += 1
    return path


def _without_arrays(row: dict[str, Any]) -> dict[str, Any]:
    """A record of a response as it is without the option for detailed arrays."""
    for name in ("chunk_times_s", "chunk_tokens"):
        row.pop(name, None)
    speculation = (row["response"].get("metrics") or {}).get("speculative_decoding") or {}
    for name in ("per_step_accepted", "per_step_drafted"):
        speculation.pop(name, None)
    return row


SERVERS_AT_ONCE = 5
"""About a row group of a day of scrapes 5 s apart; all of a large fleet would not fit in memory."""


def fleet(warehouse: Warehouse, turns: int, instances: int, capture: str = "spec_k3_draft", *, every_s: int = 1) -> int:
    """Raw snapshots of many servers whose counters rise all day as those of a capture did; how many there are.

    Their names have one length, so that the file is in the order that ingest gives it.
    """
    import duckdb

    from specledger.ingest.run import ingest

    one = Warehouse(warehouse.root / "_capture")
    ingest(one, [captures.folder(capture) / "metrics.prom.zst"], deployment="d")
    columns = ", ".join(_risen(column.name, column.type) for column in SNAPSHOTS.stored_columns)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE seen AS {one.select(SNAPSHOTS)}")
        connection.execute(
            "CREATE TABLE span AS SELECT max(scraped_at) - min(scraped_at) + INTERVAL 5 SECOND AS span, "
            "date_trunc('day', min(scraped_at)) + INTERVAL 1 SECOND - min(scraped_at) AS ahead FROM seen"
        )
        for name, function in (("latest", "arg_max"), ("earliest", "arg_min")):
            connection.execute(f"CREATE TABLE {name} AS SELECT {function}(seen, scraped_at) AS seen FROM seen")
        file, count = warehouse.staged(SNAPSHOTS), 0
        for first in range(0, instances, SERVERS_AT_ONCE):
            rows = connection.sql(
                f"SELECT {columns} FROM seen, latest, earliest, span, range({turns}) AS turns (turn), "
                f"range({first}, {min(first + SERVERS_AT_ONCE, instances)}) AS servers (server) "
                "WHERE seen.scraped_at + ahead + turn * span < date_trunc('day', seen.scraped_at) + INTERVAL 1 DAY "
                f"AND epoch_us(seen.scraped_at + turn * span) // 1_000_000 % {every_s} = 0 "
                "ORDER BY server, turn, seen.scraped_at"
            ).to_arrow_table()
            day = rows["scraped_at"][0].as_py().date()
            file.add(rows)
            count += rows.num_rows
        file.close()
    warehouse.publish(file.path, warehouse.partition(SNAPSHOTS, day, "d") / "exposition-0.parquet")
    return count


def _risen(name: str, kind: str) -> str:
    """A column of one scrape of one server in one turn; what counts goes on from where the turn before ended."""
    own, more = f"seen.{quote(name)}", f"turn * (latest.seen.{quote(name)} - earliest.seen.{quote(name)})"
    if name == "scraped_at":
        return "seen.scraped_at + ahead + turn * span AS scraped_at"
    if name == "process_started_at":
        return "min(seen.scraped_at) OVER () + ahead - INTERVAL 1 HOUR AS process_started_at"
    if name == "instance":
        return "format('server-{:03}', server) AS instance"
    if kind == "BIGINT" and name not in ("byte_offset", "kv_tokens"):
        return f"{own} + {more} AS {quote(name)}"
    if kind == "BIGINT[]":
        return f"{_list(own, f'latest.{own}', f'earliest.{own}')} AS {quote(name)}"
    if kind.startswith("STRUCT"):
        last, first = f"latest.{own}", f"earliest.{own}"
        return (
            f"struct_pack(le := {own}.le, n := {_list(f'{own}.n', f'{last}.n', f'{first}.n')}, "
            f"sum := {own}.sum + turn * ({last}.sum - {first}.sum), "
            f"count := {own}.count + turn * ({last}.count - {first}.count)) AS {quote(name)}"
        )
    return f"{own} AS {quote(name)}"


def _list(own: str, last: str, first: str) -> str:
    return f"list_transform(list_zip({own}, {last}, {first}), lambda x: x[1] + turn * (x[2] - x[3]))"
