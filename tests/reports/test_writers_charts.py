"""Each chart is a function from rows to a chart: what it draws, and what it says without a picture."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import replace
from typing import Any

import pytest

from specledger.reports import pictures
from specledger.reports.charts import CHARTS
from specledger.reports.charts.chart import MAX_ROWS
from specledger.reports.charts.load_mix import load_mix
from specledger.reports.charts.palette import PALETTE, resolved
from specledger.reports.model import SplitRow, TimePoint
from specledger.reports.tables import chart_table
from tests.sample_reports import band, example, gate, hostile, no_data, report

EXAMPLE = example()
DRAWN = [name for name in CHARTS if name != "grid" or EXAMPLE.grid]


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_of_the_example_draws_marks(name: str) -> None:
    rows = CHARTS[name].rows(EXAMPLE)
    svg = pictures.svg_text(pictures.specification(CHARTS[name], rows))
    assert svg.count('role="graphics-symbol" aria-roledescription=') >= min(len(rows), 3)
    assert "NaN" not in svg
    assert "undefined" not in svg


@pytest.mark.parametrize("name", CHARTS)
def test_every_axis_of_figures_has_a_title_with_its_unit(name: str) -> None:
    spec = json.dumps(pictures.specification(CHARTS[name], CHARTS[name].rows(EXAMPLE)), ensure_ascii=False)
    units = (
        "(%)",
        "(ms)",
        "(log)",
        "(×",
        "(tokens)",
        "Tokens a",
        "Preemptions",
        "Draft",
        "Load (",
        "Context (",
        "Time (UTC)",
        "Night (UTC)",
    )
    assert any(f'"title": "{word}' in spec or word in spec for word in units)
    assert '"title": "value"' not in spec


@pytest.mark.parametrize("name", CHARTS)
def test_a_report_without_data_has_no_rows_to_draw(name: str) -> None:
    assert list(CHARTS[name].rows(no_data())) == []
    assert CHARTS[name].missing.endswith(".")


@pytest.mark.parametrize("name", CHARTS)
def test_the_table_beside_a_chart_has_a_row_for_each_of_its_rows(name: str) -> None:
    rows = CHARTS[name].rows(EXAMPLE)
    assert len(chart_table(CHARTS[name], rows).rows) == len(rows)


def test_hostile_labels_are_text_in_a_picture() -> None:
    for chart in CHARTS.values():
        rows = chart.rows(hostile())
        if rows:
            svg = pictures.svg_text(pictures.specification(chart, rows))
            assert "<script" not in svg
            assert "<img" not in svg


def test_the_waterfall_ends_where_its_terms_add_up_to() -> None:
    row = SplitRow(None, 0.1141, 0.0078, 0.0901, 0.0, -0.0004, 0.0166, "requests", 1.0, "acceptance")
    bars = CHARTS["split"].rows(report(split=(row,)))
    assert [bar["term"] for bar in bars][-1] == "TPOT, all terms"
    assert bars[-2]["end"] == pytest.approx(bars[-1]["end"]) == pytest.approx(math.exp(0.1141))
    assert bars[1]["start"] == pytest.approx(bars[0]["end"])
    assert [bar["text"] for bar in bars] == ["+0.78 %", "+9.4 %", "0.0 %", "−0.04 %", "+1.7 %", "+12.1 %"]


def test_a_waterfall_of_switched_speculation_has_no_term_that_one_side_cannot_have() -> None:
    row = SplitRow(None, -0.049, 0.936, 0.0, -0.93, -0.01, -0.045, "requests", 1.0, "coverage")
    bands = (band("all", None, None, side="baseline", rounds=0), band("all", 1.01, None))
    bars = CHARTS["split"].rows(report(split=(row,), bands=bands))
    assert [(bar["term"], bar["text"]) for bar in bars] == [
        ("Time of a step", "2.55×"),
        ("Tokens of a step", "0.39×"),
        ("Traffic mix", "0.96×"),
        ("TPOT, all terms", "0.95×"),
    ]


def test_a_draft_length_that_is_best_at_some_load_is_marked() -> None:
    rows = CHARTS["predicted_length"].rows(EXAMPLE)
    assert [(row["side"], row["position"], row["best_at"]) for row in rows if row["best_at"]] == [("candidate", 3, "1")]
    assert all(row["best_at"] is None for row in CHARTS["predicted_length"].rows(replace(EXAMPLE, schedules=())))


def test_a_night_looks_like_what_it_was_to_the_report() -> None:
    rows = CHARTS["nights_acceptance_length"].rows(EXAMPLE)
    assert [row["role"] for row in rows][-2:] == ["in the baseline", "last night"]
    assert [row["date"] for row in rows if row["change_point"]] == ["2026-11-20"]


def test_the_longest_pause_stands_beside_the_quantiles_of_the_stream_gap() -> None:
    judged = gate("longest_pause_ms", load_band="2-4", baseline=400.0, candidate=900.0)
    rows = CHARTS["itl"].rows(report(judged))
    assert [(row["side"], row["share"], row["value"]) for row in rows] == [
        ("baseline", "longest", 400.0),
        ("candidate", "longest", 900.0),
    ]


def test_few_preemptions_have_no_tick_between_whole_numbers() -> None:
    point = TimePoint("candidate", "2026-11-20T00:00:00Z", 60, "snapshots", preemptions=0)
    spec = json.dumps(
        pictures.specification(CHARTS["preemptions"], CHARTS["preemptions"].rows(report(timeline=(point,))))
    )
    assert '"values": [0, 1]' in spec


def test_gates_come_with_the_failing_ones_first_and_wild_figures_at_the_edge() -> None:
    rows = CHARTS["changes"].rows(report(gate(verdict="pass"), gate("e2e_ms_p95", change=7.0, interval=(6.0, None))))
    assert [row["verdict"] for row in rows] == ["fail", "pass"]
    assert (rows[0]["shown"], rows[0]["change"]) == (100.0, pytest.approx(700.0))
    assert rows[0]["shown_upper"] == 100.0


def test_bands_keep_their_order() -> None:
    rows = CHARTS["speedup"].rows(
        report(bands=(band("5-8", 1.1, None), band("1", 1.5, None), band("2-4", 1.3, None), band("all", 1.2, None)))
    )
    assert [row["load_band"] for row in rows] == ["1", "2-4", "5-8"]


def test_one_wide_interval_does_not_flatten_the_speedups() -> None:
    wide = band("257+", 1.4, (0.2, 9.0))
    bands = (band("1", 1.5, (1.4, 1.6)), band("2-4", 1.3, (1.2, 1.4)), band("5-8", 0.7, (0.6, 0.8)), wide)
    chart = CHARTS["speedup"]
    rows = {row["load_band"]: row for row in chart.rows(report(bands=bands))}
    assert (rows["257+"]["shown_lower"], rows["257+"]["shown_upper"]) == pytest.approx((0.3, 1.9))
    assert (rows["257+"]["below"], rows["257+"]["above"]) == pytest.approx((0.3, 1.9))
    assert [(row["below"], row["above"]) for row in rows.values()][:3] == [(None, None)] * 3
    assert (rows["257+"]["speedup_upper"], rows["257+"]["interval"]) == (9.0, "0.20 to 9.00")
    assert chart_table(chart, list(rows.values())).rows[-1][4].text == "9.00"
    drawn = json.dumps(pictures.specification(chart, list(rows.values())))
    assert ("triangle-up" in drawn, "triangle-down" in drawn) == (True, True)
    few = chart.rows(report(bands=(wide,)))
    assert (few[0]["shown_upper"], few[0]["above"]) == (9.0, None)


def test_an_interval_that_ends_just_below_one_does_not_look_as_if_it_touched_it() -> None:
    chart = CHARTS["speedup"]
    rows = chart.rows(report(bands=(band("1", 0.82, (0.67, 0.99996)),)))
    assert [cell.text for cell in chart_table(chart, rows).rows[0][2:5]] == ["0.82", "0.67", "0.99996"]
    assert rows[0]["interval"] == "0.67 to 0.99996"


def test_a_side_without_speculation_has_no_speedup() -> None:
    rows = CHARTS["speedup"].rows(report(bands=(band("1", 1.0, None, side="baseline", rounds=0), band("1", 1.5, None))))
    assert [row["side"] for row in rows] == ["candidate"]


def test_no_line_is_drawn_across_a_gap_in_time() -> None:
    def at(start: str) -> TimePoint:
        return TimePoint("candidate", f"2026-11-20T{start}:00Z", 60, "snapshots", kv_usage_mean=0.5)

    rows = CHARTS["kv_use"].rows(report(timeline=(at("01:00"), at("02:00"), at("04:00"))))
    assert [row["segment"] for row in rows] == ["candidate 1", "candidate 1", "candidate 2"]


def test_without_restarts_nothing_is_drawn_for_them() -> None:
    chart = CHARTS["acceptance_time"]
    layers = [
        len(chart.draw(chart.rows(shown)).to_dict()["layer"]) for shown in (EXAMPLE, replace(EXAMPLE, restarts=()))
    ]
    assert layers[0] - layers[1] == 1


def test_too_many_rows_are_no_chart() -> None:
    rows: list[dict[str, Any]] = [{"side": "candidate", "load_band": "1", "token_share": 0.1}] * (MAX_ROWS + 1)
    with pytest.raises(ValueError, match="aggregate them"):
        load_mix(rows)


def test_the_text_alternative_reads_every_point_out() -> None:
    chart = CHARTS["survival"]
    assert pictures.alternative(chart, chart.rows(EXAMPLE)) == (
        "Acceptance by draft position. baseline: 1 0.780, 2 0.580 and 3 0.400; candidate: 1 0.710, 2 0.480 and 3 0.320."
    )


def test_a_still_picture_is_one_image_that_writes_each_shape_once() -> None:
    points = tuple(
        TimePoint("candidate", f"2026-11-20T{hour:02d}:00:00Z", 60, "snapshots", kv_usage_mean=hour / 50)
        for hour in range(24)
    )
    chart = CHARTS["kv_use"]
    spec = pictures.specification(chart, chart.rows(report(timeline=points)))
    picture = pictures.still(spec, "kv_use")
    assert picture.startswith('<svg role="img" aria-label="KV cache in use. candidate: 2026-11-20T00:00:00Z 0')
    assert picture.count('href="#kv_use-0"') == 24
    assert picture.count('id="kv_use-0"') == 1
    assert "aria-label" not in picture.split(">", 1)[1]


def test_a_picture_has_no_colour_left_open() -> None:
    chart = CHARTS["speedup"]
    for dark in (False, True):
        spec = resolved(pictures.specification(chart, chart.rows(EXAMPLE)), dark=dark)
        assert "var(--" not in json.dumps(spec)
        assert spec["config"]["background"] == PALETTE["surface"][dark]


def test_a_png_is_as_large_as_its_scale_says() -> None:
    chart = CHARTS["split"]
    spec = pictures.titled(chart, chart.rows(EXAMPLE))
    sizes = [struct.unpack(">II", pictures.png(spec, scale)[16:24]) for scale in (1, 2)]
    assert sizes[1][0] == pytest.approx(2 * sizes[0][0], abs=2)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("name", ["ink", "muted", "focus", "pass", "fail", "warn", "unsure", "time"])
@pytest.mark.parametrize("dark", [False, True])
def test_text_has_the_contrast_that_wcag_asks_for(name: str, dark: bool) -> None:
    assert all(contrast(PALETTE[name][dark], PALETTE[behind][dark]) >= 4.5 for behind in ("surface", "page", "raised"))


@pytest.mark.parametrize("name", ["baseline", "time", "acceptance", "round", "memory", "load"])
@pytest.mark.parametrize("dark", [False, True])
def test_marks_have_the_contrast_that_wcag_asks_for(name: str, dark: bool) -> None:
    assert contrast(PALETTE[name][dark], PALETTE["surface"][dark]) >= 3


def test_charts_leave_out_what_is_not_known() -> None:
    lacking = replace(EXAMPLE, bands=tuple(replace(row, t0_ms=None) for row in EXAMPLE.bands))
    chart = CHARTS["round_time"]
    svg = pictures.svg_text(pictures.specification(chart, chart.rows(lacking)))
    assert "NaN" not in svg
