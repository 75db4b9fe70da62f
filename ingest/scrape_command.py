"""``specledger scrape``."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType

import click

from ..schemas.errors import RemoteError
from .durations import parse_duration


def _duration(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    seconds = parse_duration(value)
    if not seconds:
        raise click.BadParameter(f"{value!r} is no duration: give one such as 5s, 15m or 1h.")
    return seconds


@click.command("scrape")
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option(
    "--every", callback=_duration, metavar="DURATION", default="5s", show_default=True, help="Time between two scrapes."
)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), required=True, metavar="DIR", help="Where the files go."
)
@click.option(
    "--rotate",
    callback=_duration,
    metavar="DURATION",
    default="1h",
    show_default=True,
    help="Time that one file holds.",
)
@click.option(
    "--timeout",
    callback=_duration,
    metavar="DURATION",
    default="5s",
    show_default=True,
    help="Longest wait for an answer.",
)
@click.option(
    "--for", "duration", callback=_duration, metavar="DURATION", help="Stop after this time.  [default: when told to]"
)
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many scrapes of each server.")
def scrape(
    urls: tuple[str, ...],
    every: float,
    out: Path,
    rotate: float,
    timeout: float,
    duration: float | None,
    count: int | None,
) -> None:
    """Collect /metrics of servers into files that ingest reads.

    URL is http://HOST:PORT, or HOST:PORT for short. Each server gets a folder under --out with one compressed file a
    rotation. A server that vanishes is asked again at every interval. SIGTERM and SIGINT end the run; every file is
    whole then.
    """
    from .scrape import Schedule, collect, servers

    stop = threading.Event()

    def end(_: int, __: FrameType | None) -> None:
        stop.set()

    targets = servers(urls)
    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        counts = collect(targets, out, Schedule(every, timeout, rotate, duration, count), stop)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for url, one in counts.items():
        click.echo(f"{url}: {one.saved} scrapes saved, {one.failed} failed")
    if any(one.failed for one in counts.values()) and not any(one.saved for one in counts.values()):
        raise RemoteError("Nothing was collected: see that the servers run and their /metrics can be reached.")
