"""Gate files change the defaults, and every mistake in one is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from specledger.reports.gates import DEFAULT_GATES, Gate, load_gates
from specledger.schemas.errors import ConfigError
from specledger.schemas.measures import MEASURES

BANDS = ("1", "2-4")


def load(tmp_path: Path, text: str) -> list[tuple[Gate, str | None]]:
    path = tmp_path / "gates.toml"
    path.write_text(text)
    return load_gates(path, BANDS).places(BANDS)


def at(places: list[tuple[Gate, str | None]], measure: str, gate: str = "capacity") -> dict[str | None, Gate]:
    return {band: found for found, band in places if (found.gate, found.measure) == (gate, measure)}


def test_without_a_file_the_defaults_hold_overall_and_at_every_band() -> None:
    places = load_gates(None, BANDS).places(BANDS)
    assert set(at(places, "acceptance_length")) == {None, "1", "2-4"}
    assert at(places, "acceptance_length")[None].tolerance == -0.05
    assert set(at(places, "acceptance_length", "correctness")) == {None}
    assert not any(gate.required for gate, _ in places)


def test_every_default_tolerance_points_to_the_bad_side() -> None:
    for gate in DEFAULT_GATES:
        measure = MEASURES.get(gate.measure)
        if gate.gate in {"latency", "capacity"} and gate.kind != "limit":
            assert measure is not None
            assert (gate.tolerance or 0) * (-1 if measure.higher_is_better else 1) > 0


def test_a_file_changes_adds_and_removes_gates(tmp_path: Path) -> None:
    places = load(
        tmp_path,
        """
        false_discovery_rate = 0.1
        [[gate]]
        gate = "capacity"
        measure = "acceptance_length"
        tolerance = -0.03
        severity = "warn"
        [[gate]]
        gate = "capacity"
        measure = "acceptance_length"
        load_band = "2-4"
        tolerance = -0.02
        required = true
        [[gate]]
        gate = "latency"
        measure = "ttft_ms_p99"
        load_band = "overall"
        limit = 800
        [[gate]]
        gate = "capacity"
        measure = "output_tps"
        enabled = false
        """,
    )
    lengths = at(places, "acceptance_length")
    assert [
        (lengths[band].tolerance, lengths[band].severity, lengths[band].required) for band in (None, "1", "2-4")
    ] == [
        (-0.03, "warn", False),
        (-0.03, "warn", False),
        (-0.02, "warn", True),
    ]
    limit = at(places, "ttft_ms_p99", "latency")
    assert set(limit) == {None}
    assert (limit[None].kind, limit[None].tolerance) == ("limit", 800.0)
    assert at(places, "output_tps") == {}


HEAD = '[[gate]]\ngate = "capacity"\nmeasure = "acceptance_length"\n'


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (HEAD + "tolerence = -0.03\n", 4, "tolerence is not known"),
        ("\nrate = 1\n", 2, "rate is not known"),
        ("false_discovery_rate = 2\n", 1, "between 0 and 1"),
        (HEAD + "tolerance = 0.03\n", 4, "below 0"),
        (HEAD + "tolerance = true\n", 4, "must be a number"),
        (HEAD + "tolerance = nan\n", 4, "must be a number"),
        (HEAD + 'severity = "error"\n', 4, "one of fail, warn"),
        (HEAD + 'required = "yes"\n', 4, "true or false"),
        (HEAD + 'load_band = "3-5"\n', 4, "load_band '3-5' is not known"),
        (HEAD + "limit = 2\ntolerance = -0.1\n", 4, "either limit or tolerance"),
        (HEAD + 'limit = 2\nkind = "limit"\n', 5, "leave out kind"),
        ('[[gate]]\ngate = "speed"\nmeasure = "tpot_ms"\n', 2, "gate must be one of"),
        ('[[gate]]\ngate = "latency"\nmeasure = "acceptance_length"\n', 3, "is not known under latency"),
        ('[[gate]]\ngate = "latency"\nmeasure = "burstiness"\n', 3, "give tolerance or limit"),
        (HEAD + "\n" + HEAD + "wrong = 1\n", 8, "wrong is not known"),
        ('[[gate]]\ngate = "correctness"\nmeasure = "identities"\ntolerance = 1\n', 4, "are fixed"),
        ("gate = 1\n", 1, "[[gate]] tables"),
        *((HEAD + f"tolerance = {number}\n", 4, "must be a number") for number in ("nan", "inf", "1" + "0" * 400)),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text)
    assert f"gates.toml, line {line}: " in str(refused.value)
    assert says in str(refused.value)


def test_an_unreadable_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(tmp_path, "[[gate")
    with pytest.raises(ConfigError, match="Cannot read"):
        load_gates(tmp_path / "none.toml", BANDS)
