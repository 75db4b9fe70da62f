"""The charts of a report, in the order in which they are shown."""

from __future__ import annotations

from ...schemas.measures import MEASURES
from ..format import measure_label
from .boundary import break_even, break_even_rows, speedup, speedup_rows
from .chart import Chart, Shown
from .gates import change_rows, changes
from .grid import gains, grid_rows
from .latency import quantile_rows, quantiles
from .load_mix import context_mix, context_rows, load_mix, mix_rows
from .nights import night_rows, nights
from .over_time import acceptance_over_time, acceptance_rows, kv_use, point_rows, preemptions
from .palette import ACCEPTANCE, ROUND, TIME
from .positions import position_rows, predicted_length, survival
from .round_time import round_time, round_time_rows
from .split import split_rows, waterfall

_SIDE = Shown("side", "Side")
_BAND = Shown("load_band", "Load")
_ORIGIN = Shown("origin", "Origin")
_ROUND_TIME = Shown("round_time_ms", "Round time", "ms", "round_time_ms")
_T0 = Shown("t0_ms", "T0", "ms", "t0_ms")
_STEPS = Shown("steps", "Steps", "count")
_FROM = Shown("start", "From (UTC)")
_MINUTES = Shown("minutes", "Minutes", "count")


def _nights(measure: str, colour: str) -> Chart:
    unit = MEASURES[measure].unit
    return Chart(
        f"nights_{measure}",
        f"{measure_label(measure)} by night",
        "At one mix of loads and tasks for all nights; a dashed upright line is where a new level begins.",
        night_rows(measure),
        nights(measure, unit, colour),
        (
            Shown("deployment", "Deployment"),
            Shown("date", "Night"),
            Shown("value", measure_label(measure), unit, measure),
            Shown("lower", "From", unit),
            Shown("upper", "To", unit),
            Shown("role", "This night is"),
            Shown("change_point", "New level"),
        ),
        "Nights are looked back on once the candidate's deployment has six of them.",
        series="deployment",
        point="date",
        value="value",
    )


def _quantiles(name: str, measure: str, title: str) -> Chart:
    return Chart(
        name,
        title,
        "p50, p95 and p99 at each load; the line through a point spans the bucket that holds it.",
        quantile_rows(measure),
        quantiles,
        (
            _SIDE,
            _BAND,
            Shown("share", "Quantile"),
            Shown("value", title, "ms", f"{measure}_p99"),
            Shown("lower", "From", "ms"),
            Shown("upper", "To", "ms"),
            _ORIGIN,
        ),
        "Neither side has this quantile: it needs requests with times, or the server's histograms from scrapes.",
        value="value",
        point="share",
    )


CHARTS: dict[str, Chart] = {
    chart.name: chart
    for chart in (
        Chart(
            "changes",
            "Every gate that compares two figures",
            "A point is the change, the line through it the 95 % interval, the upright bar what was allowed.",
            change_rows,
            changes,
            (
                Shown("label", "Gate"),
                Shown("verdict_label", "Verdict"),
                Shown("change", "Change", "%"),
                Shown("lower", "From", "%"),
                Shown("upper", "To", "%"),
                Shown("tolerance", "Allowed", "%"),
            ),
            "No gate had two figures to compare.",
            series="verdict_label",
            point="label",
            value="change",
        ),
        Chart(
            "split",
            "Why tokens got slower or faster",
            "Right is slower, left is faster. Each bar begins where the one above ends; the last is all together.",
            split_rows,
            waterfall,
            (
                Shown("term", "Term"),
                Shown("value", "Factor of TPOT", "count"),
                Shown("log", "Δ ln TPOT × 100", "count"),
                _ORIGIN,
            ),
            "The change of TPOT cannot be taken apart: both sides need decode time, steps and tokens at a common load.",
            series=None,
            point="term",
            value="value",
        ),
        Chart(
            "speedup",
            "Speedup by load",
            "Above the line at 1 speculation pays, below it costs; the vertical line is the 95 % interval, an arrow at "
            "its end says that it goes on.",
            speedup_rows,
            speedup,
            (
                _SIDE,
                _BAND,
                Shown("speedup", "Speedup", "×", "speedup"),
                Shown("speedup_lower", "From", "×"),
                Shown("speedup_upper", "To", "×"),
                _T0,
                Shown("t0_origin", "T0 from"),
                Shown("tpot_ms", "TPOT", "ms", "tpot_ms"),
                _ROUND_TIME,
                Shown("token_share", "Tokens", "ratio", "token_share"),
                _STEPS,
                _ORIGIN,
            ),
            "No load band has both speculation and an ordinary decode time T0: ingest a deployment of the same model "
            "without speculation, at the same loads.",
            value="speedup",
        ),
        Chart(
            "break_even",
            "The length a step needs, and the length it got",
            "Speculation pays where the effective length lies above the break-even length.",
            break_even_rows,
            break_even,
            (
                _SIDE,
                _BAND,
                Shown("effective_length", "Effective length", "tokens", "effective_length"),
                Shown("break_even_length", "Break-even length", "tokens", "break_even_length"),
                Shown("acceptance_length", "Acceptance length", "tokens", "acceptance_length"),
                Shown("coverage", "Coverage", "ratio", "coverage"),
                _STEPS,
                _ORIGIN,
            ),
            "A break-even length needs an ordinary decode time T0 at the same load.",
            value="effective_length",
        ),
        Chart(
            "survival",
            "Acceptance by draft position",
            "Share of rounds in which a position, and so every one before it, was accepted.",
            position_rows,
            survival,
            (
                _SIDE,
                Shown("position", "Position"),
                Shown("survival", "Survival", "ratio", "survival"),
                Shown("conditional", "Conditional", "ratio", "conditional"),
                Shown("accepted", "Accepted", "count"),
                Shown("rounds", "Rounds", "count"),
                Shown("censored", "Censored"),
                _ORIGIN,
            ),
            "No acceptance by position: neither side speculated, or its counters and records carry no positions.",
            point="position",
            value="survival",
        ),
        Chart(
            "predicted_length",
            "Tokens a round by draft length",
            "What drafting that many candidates yields; a ring marks lengths that are best at some load.",
            position_rows,
            predicted_length,
            (
                _SIDE,
                Shown("position", "Draft length"),
                Shown("predicted_length", "Predicted length", "tokens", "predicted_length"),
                Shown("marginal_gain", "One more adds", "tokens", "marginal_gain"),
                Shown("best_at", "Best at load"),
                Shown("rounds", "Rounds", "count"),
                _ORIGIN,
            ),
            "No acceptance by position: neither side speculated, or its counters and records carry no positions.",
            point="position",
            value="predicted_length",
        ),
        Chart(
            "round_time",
            "Time of a step by load",
            "The bar across is T0, an ordinary step at the same load; the distance is what a round costs more.",
            round_time_rows,
            round_time,
            (_SIDE, _BAND, _ROUND_TIME, _T0, Shown("t0_origin", "T0 from"), _STEPS, _ORIGIN),
            "No step times: they need scrapes with latency histograms, or requests with decode time and steps.",
            value="round_time_ms",
        ),
        _quantiles("ttft", "ttft_ms", "Time to first token"),
        _quantiles("request_tpot", "request_tpot_ms", "TPOT of a request"),
        _quantiles("itl", "itl_ms", "Stream gap (ITL) and longest pause"),
        _quantiles("e2e", "e2e_ms", "End-to-end time"),
        Chart(
            "load_mix",
            "Where the tokens were",
            "Share of each side's output tokens at each load; unlike bars mean that pooled figures are not comparable.",
            mix_rows,
            load_mix,
            (
                _SIDE,
                _BAND,
                Shown("token_share", "Tokens", "ratio", "token_share"),
                Shown("output_tokens", "Output tokens", "count"),
                Shown("requests", "Requests", "count"),
                Shown("output_tps", "Output rate", "tokens/s", "output_tps"),
                _ORIGIN,
            ),
            "Load is not known for either side.",
            value="token_share",
        ),
        Chart(
            "context_mix",
            "How long contexts were",
            "Share of each side's output tokens by context: the prompt and half of the output.",
            context_rows,
            context_mix,
            (
                _SIDE,
                Shown("context_band", "Context"),
                Shown("token_share", "Tokens", "ratio"),
                Shown("output_tokens", "Output tokens", "count"),
                Shown("requests", "Requests", "count"),
                _ORIGIN,
            ),
            "Only requests tell contexts apart, and neither side has any.",
            point="context_band",
            value="token_share",
        ),
        Chart(
            "acceptance_time",
            "Acceptance over time",
            "One point a stretch of time; upright dotted lines are starts of servers.",
            acceptance_rows,
            acceptance_over_time,
            (
                _SIDE,
                _FROM,
                _MINUTES,
                Shown("acceptance_length", "Acceptance length", "tokens", "acceptance_length"),
                Shown("rounds", "Rounds", "count"),
                Shown("running_mean", "Running", "requests"),
                Shown("deployment", "Restarted"),
                _ORIGIN,
            ),
            "No rounds over time: neither side speculated.",
            point="start",
            value="acceptance_length",
        ),
        Chart(
            "kv_use",
            "KV cache in use",
            "The points are means over a stretch of time, the line above each reaches to the highest use seen.",
            point_rows("kv_usage_mean"),
            kv_use,
            (
                _SIDE,
                _FROM,
                _MINUTES,
                Shown("kv_usage_mean", "Mean", "ratio"),
                Shown("kv_usage_max", "Highest", "ratio", "kv_usage_max"),
                Shown("waiting_max", "Most waiting", "requests"),
                Shown("running_mean", "Running", "requests"),
                _ORIGIN,
            ),
            "KV use is in scrapes and in the stats records of server logs; neither side has them.",
            point="start",
            value="kv_usage_mean",
        ),
        Chart(
            "preemptions",
            "Preemptions over time",
            "Requests that were thrown out of a full KV cache and had to start again.",
            point_rows("preemptions"),
            preemptions,
            (
                _SIDE,
                _FROM,
                _MINUTES,
                Shown("preemptions", "Preemptions", "count", "per_1k_requests"),
                Shown("requests", "Requests", "count"),
                _ORIGIN,
            ),
            "Preemptions are only in scrapes: a log that says nothing of them is no evidence of none.",
            point="start",
            value="preemptions",
        ),
        _nights("acceptance_length", ACCEPTANCE),
        _nights("effective_length", ACCEPTANCE),
        _nights("round_time_ms", ROUND),
        _nights("tpot_ms", TIME),
        Chart(
            "grid",
            "Quantization × speculation",
            "How many times faster than the original tokens came; the hollow point is the product of the two gains.",
            grid_rows,
            gains,
            (
                Shown("cell", "Cell"),
                Shown("gain", "Gain (×)", "count"),
                Shown("lower", "From", "count"),
                Shown("upper", "To", "count"),
                Shown("common_share", "Common traffic", "ratio"),
                Shown("quality", "Quality"),
                Shown("quality_baseline", "Held against"),
                _ORIGIN,
            ),
            "Give four deployments to see this.",
            series=None,
            point="cell",
            value="gain",
        ),
    )
}
