"""Accepted regressions hold for what they name, until their date."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from specledger.reports.acknowledge import acknowledge, load
from specledger.reports.model import GateResult, Stratum, Verdict
from specledger.schemas.errors import ConfigError

NIGHT = dt.date(2026, 9, 15)
BANDS = ("1", "2-4")
ENTRY = '[[acknowledge]]\nmeasure = "tpot_ms"\nreason = "New hardware."\nuntil = 2026-09-30\n'


def verdict(tmp_path: Path, text: str, result: GateResult, night: dt.date | None = NIGHT) -> Verdict:
    path = tmp_path / "accepted.toml"
    path.write_text(text)
    return acknowledge([result], load(path, BANDS), ["d"], night)[0].verdict


def failed(band: str | None = None, said: Verdict = "fail") -> GateResult:
    return GateResult(
        "latency", "tpot_ms", None if band is None else Stratum(band), said, "fail", False, reason="Slow."
    )


@pytest.mark.parametrize(
    ("more", "band", "expected"),
    [
        ("", None, "acknowledged"),
        ("", "2-4", "acknowledged"),
        ('load_band = "2-4"\n', "2-4", "acknowledged"),
        ('load_band = "2-4"\n', None, "fail"),
        ('load_band = "overall"\n', None, "acknowledged"),
        ('load_band = "overall"\n', "2-4", "fail"),
        ('gate = "capacity"\n', None, "fail"),
        ('deployment = "d"\n', None, "acknowledged"),
        ('deployment = "e"\n', None, "fail"),
    ],
)
def test_an_entry_covers_what_it_names(tmp_path: Path, more: str, band: str | None, expected: Verdict) -> None:
    assert verdict(tmp_path, ENTRY + more, failed(band)) == expected


def test_an_expired_entry_fails_again_and_is_still_shown(tmp_path: Path) -> None:
    path = tmp_path / "accepted.toml"
    path.write_text(ENTRY)
    (result,) = acknowledge([failed()], load(path, BANDS), ["d"], dt.date(2026, 10, 1))
    assert (result.verdict, result.acknowledged, result.reason_code) == ("fail", "New hardware.", "expired")
    assert verdict(tmp_path, ENTRY, failed(), dt.date(2026, 9, 30)) == "acknowledged"


def test_only_failures_and_warnings_are_acknowledged(tmp_path: Path) -> None:
    assert verdict(tmp_path, ENTRY, failed(said="inconclusive")) == "inconclusive"
    assert verdict(tmp_path, ENTRY, failed(said="warn")) == "acknowledged"
    assert acknowledge([failed()], load(None, BANDS), ["d"], NIGHT)[0].verdict == "fail"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (ENTRY + 'scope = "x"\n', "line 5: scope is not known"),
        ('[[acknowledge]]\nmeasure = "tpot_ms"\nuntil = 2026-09-30\n', "line 1: [[acknowledge]] needs reason"),
        (ENTRY.replace("2026-09-30", '"soon"'), "line 4: until must be a date"),
        (ENTRY.replace('"New hardware."', '""'), "line 3: reason must be text"),
        (ENTRY + 'gate = "speed"\n', "line 5: gate must be one of"),
        (ENTRY + 'load_band = "3-4"\n', "line 5: load_band '3-4' is not known; known are overall, 1, 2-4."),
        (ENTRY.replace('"tpot_ms"', '"tpot_msec"'), "line 2: measure 'tpot_msec' is judged by no gate"),
        ("acknowledged = 1\n", "line 1: acknowledged is not known"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "accepted.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load(path, BANDS)
    assert says in str(refused.value)
