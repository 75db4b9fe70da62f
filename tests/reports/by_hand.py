"""The verdict of every gate, computed again from the text of report.json alone, with SciPy's own distributions."""

from __future__ import annotations

import math
from typing import Any

from scipy import stats

INTERVALS = {"ratio", "difference", "quantile", "bucket share", "product"}
LEVEL = 0.975


def recomputed(document: dict[str, Any]) -> list[tuple[dict[str, Any], str, list[float | None] | None]]:
    """Each gate with the verdict that its own figures lead to, and with the interval where it has one.

    AssertionError where figures of one gate contradict each other.
    """
    found = [(gate, *_one(document, gate)) for gate in document["gates"]]
    family = [
        (gate, p)
        for gate, _, interval in found
        if gate["severity"] == "fail"
        and gate["gate"] in ("latency", "capacity")
        and gate["method"] in INTERVALS
        and interval is not None
        and (p := p_value(gate)) is not None
    ]
    for gate, p in family:
        assert math.isclose(gate["p_value"], p, rel_tol=1e-6, abs_tol=1e-12), gate
    ordered = sorted(p for _, p in family)
    rate = document["false_discovery_rate"]
    cutoff = max((p for rank, p in enumerate(ordered, 1) if p <= rate * rank / len(ordered)), default=-1.0)
    beyond = {id(gate) for gate, p in family if p > cutoff}
    return [
        (gate, "inconclusive" if verdict == "fail" and id(gate) in beyond else verdict, interval)
        for gate, verdict, interval in found
    ]


def disagreements(document: dict[str, Any]) -> list[str]:
    """What a report says and its own figures do not, one line each."""
    found = []
    for gate, verdict, bounds in recomputed(document):
        name = f"{gate['gate']}/{gate['measure']} at {gate['stratum']}"
        said = {"acknowledged": "fail"}.get(gate["verdict"], gate["verdict"])
        if said != verdict:
            found.append(f"{name}: {gate['verdict']}, by hand {verdict}")
        for told, computed in zip(gate["interval"] or [], bounds or [], strict=False):
            if (told is None) != (computed is None) or not math.isclose(told or 0, computed or 0, rel_tol=1e-6):
                found.append(f"{name}: interval {gate['interval']}, by hand {bounds}")
        if gate["verdict"] == "inconclusive" and gate["kind"] != "limit" and _bounded(gate) and not gate["detectable"]:
            found.append(f"{name}: inconclusive, and no word on what could have been seen")
    verdicts = {gate["verdict"] for gate in document["gates"]}
    unanswered = {"inconclusive", "no_data", "not_comparable"}
    required = any(gate["required"] and gate["verdict"] in unanswered for gate in document["gates"])
    code = 1 if "fail" in verdicts else 3 if required else 0
    if document["exit_code"] != code or (document["verdict"] == "fail") is not ("fail" in verdicts):
        found.append(f"the whole: {document['verdict']} and {document['exit_code']}, by hand {code}")
    return found


def _bounded(gate: dict[str, Any]) -> bool:
    return bool(gate["interval"]) and gate["interval"][0] > -1 and gate["interval"][1] is not None


def _one(document: dict[str, Any], gate: dict[str, Any]) -> tuple[str, list[float | None] | None]:
    bad = "fail" if gate["severity"] == "fail" else "warn"
    if gate["gate"] == "correctness":
        return _correctness(document, gate, bad), gate["interval"]
    if gate["change"] is None and gate["kind"] != "limit" and gate["method"] not in {"maximum", "exact"}:
        assert gate["reason_code"] in {
            None, "no_data", "no_baseline", "no_candidate", "common_share", "edges", "baseline_zero", "same_evaluation"
        }, gate  # fmt: skip
        if gate["reason_code"] == "common_share":
            assert gate["common_share"] < 0.5
        return gate["verdict"], None
    if gate["reason_code"] == "speculation":
        assert (rounds(document, "baseline") > 0) != (rounds(document, "candidate") > 0)
        return "not_comparable", interval(gate)
    if gate["method"] in {"maximum", "exact"} or gate["candidate"] is None:
        return _point(gate, bad), None
    bounds = interval(gate)
    few = min(gate["n_baseline"] if gate["kind"] != "limit" else 8, gate["n_candidate"]) < 8
    if bounds is None or (few and gate["gate"] != "quality"):
        return "inconclusive", bounds
    low, high = bounds[0] or 0.0, math.inf if bounds[1] is None else bounds[1]
    upwards = not gate["higher_is_better"] if gate["kind"] == "limit" else gate["tolerance"] > 0
    if not upwards:
        low, high = -high, -low
    limit = gate["tolerance"] if upwards else -gate["tolerance"]
    if low > limit and _reaches_beyond(gate):
        return "inconclusive", bounds
    return bad if low > limit else "pass" if high < limit else "inconclusive", bounds


def _point(gate: dict[str, Any], bad: str) -> str:
    """The verdict over figures without an interval."""
    before, after, sign = gate["baseline"], gate["candidate"], -1 if gate["higher_is_better"] else 1
    if after is None or (gate["kind"] != "limit" and before is None):
        return "no_data"
    if gate["kind"] != "limit" and not before:
        return "inconclusive"
    value = after if gate["kind"] == "limit" else after / before - 1
    return bad if value * sign > gate["tolerance"] * sign else "pass"


def interval(gate: dict[str, Any]) -> list[float | None] | None:
    """The 95 % interval of a gate, from the evidence of its sides."""
    before, after = gate["evidence_baseline"], gate["evidence_candidate"]
    if gate["kind"] == "limit":
        return _own(after, gate)
    if gate["method"] == "quantile":
        return _quantile(before, after)
    if gate["method"] == "buckets":
        (low0, high0), (low1, high1) = before["bounds"], after["bounds"]
        return [low1 / high0 - 1 if high0 else -1.0, high1 / low0 - 1 if high1 is not None and low0 > 0 else None]
    spread = error(gate)
    if spread is None:
        return None
    half = _t(gate["degrees_of_freedom"]) * spread
    if gate["kind"] == "difference":
        return [gate["change"] - half, gate["change"] + half]
    if gate["change"] <= -1:
        return gate["interval"]  # nothing was counted: the bound of zero events
    half += gate["slack"]
    log = math.log1p(gate["change"])
    return [math.expm1(log - half), math.expm1(log + half)]


def error(gate: dict[str, Any]) -> float | None:
    """The standard error of the change, on its own scale."""
    if gate["factors"]:
        parts = [(factor["power"], factor["change"], factor["error"]) for factor in gate["factors"]]
        if any(change is None or spread is None for _, change, spread in parts):
            return None
        log = sum(power * math.log1p(change) for power, change, _ in parts)
        assert math.isclose(gate["change"], math.expm1(log), rel_tol=1e-9), gate
        return math.sqrt(sum((power * spread) ** 2 for power, _, spread in parts))
    before, after = gate["evidence_baseline"], gate["evidence_candidate"]
    for side in (before, after):
        if side["variance"] is None:
            return None
    if gate["gate"] != "quality":
        figure = before["scale"] * before["numerator"] / before["denominator"]
        assert math.isclose(figure, before["standardized"], rel_tol=1e-9), gate
    difference = after["standardized"] - before["standardized"]
    change = difference if gate["kind"] == "difference" else difference / before["standardized"]
    assert math.isclose(gate["change"], change, rel_tol=1e-9, abs_tol=1e-12), gate
    between = (gate["between_night_variance"] or 0.0) * (1 / max(1, before["nights"]) + 1 / max(1, after["nights"]))
    return math.sqrt(before["variance"] + after["variance"] + between)


def p_value(gate: dict[str, Any]) -> float | None:
    """One-sided p of «not worse than the tolerance»."""
    if gate["kind"] == "limit" or gate["p_value"] is None:
        return None
    spread = error(gate) if gate["method"] != "quantile" else None
    if gate["method"] == "quantile":
        low = math.log1p(gate["change"]) - math.log1p(gate["interval"][0])
        spread = low / _t(gate["degrees_of_freedom"])
    assert spread is not None
    scale = (lambda x: x) if gate["kind"] == "difference" else math.log1p
    beyond = (scale(gate["change"]) - scale(gate["tolerance"])) * math.copysign(1, gate["tolerance"])
    return float(stats.t.sf(beyond / spread, gate["degrees_of_freedom"])) if spread > 0 else float(beyond <= 0)


def _own(side: dict[str, Any] | None, gate: dict[str, Any]) -> list[float | None] | None:
    if side is None or (side["variance"] is None and side["bounds"] is None):
        return None
    if side["bounds"] is not None:
        return list(side["bounds"])
    half = _t(gate["degrees_of_freedom"]) * math.sqrt(side["variance"])
    return [side["standardized"] * math.exp(-half), side["standardized"] * math.exp(half)]


def _quantile(before: dict[str, Any], after: dict[str, Any]) -> list[float | None]:
    """The intervals of both sides' logarithms joined (MOVER)."""
    (low0, high0), (low1, high1) = ([math.log(bound) for bound in side["bounds"]] for side in (before, after))
    middle0, middle1 = math.log(before["standardized"]), math.log(after["standardized"])
    change = middle1 - middle0
    return [
        math.expm1(change - math.hypot(middle1 - low1, high0 - middle0)),
        math.expm1(change + math.hypot(high1 - middle1, middle0 - low0)),
    ]


def _reaches_beyond(gate: dict[str, Any]) -> bool:
    """Whether the interval of a quantile goes beyond what was seen on a side."""
    if gate["method"] != "quantile":
        return False
    share = int(gate["measure"][-2:]) / 100
    spread = max(math.sqrt(gate[f"evidence_{side}"]["variance"]) for side in ("baseline", "candidate"))
    return _t(gate["degrees_of_freedom"]) * spread >= min(share, 1 - share)


def _t(df: float | None) -> float:
    return float(stats.norm.ppf(LEVEL) if df is None else stats.t.ppf(LEVEL, df))


def rounds(document: dict[str, Any], side: str) -> int:
    return max((origin["rounds"] or 0 for origin in document[side]["origins"]), default=0)


def _correctness(document: dict[str, Any], gate: dict[str, Any], bad: str) -> str:
    return {
        "acceptance_length": _acceptance,
        "identities": _identities,
        "comparability": _comparability,
        "paired_outputs": _paired,
    }[gate["measure"]](document, gate, bad)


def _acceptance(document: dict[str, Any], gate: dict[str, Any], bad: str) -> str:
    alive, count = (gate["evidence_candidate"] or {}).get("numerator"), gate["n_candidate"]
    if not count:
        return "no_data"
    upper = 1.0 if alive >= count else float(stats.beta.ppf(0.95, alive + 1, count - alive))
    lower = 0.0 if alive <= 0 else float(stats.beta.ppf(0.05, alive, count - alive + 1))
    if count >= 300 and upper < 0.05:
        return bad
    if count < 300 and lower < 0.05:
        return "inconclusive"
    (pooled,) = [row for row in document["bands"] if (row["side"], row["load_band"]) == ("candidate", "all")]
    lengths = [row["mean_draft_length"] for row in document["bands"] if row["load_band"] == "all"]
    changed = any(change["kind"] in {"draft", "target"} for change in document["changes"]) or (
        len(lengths) == 2 and None not in lengths and abs(lengths[1] / lengths[0] - 1) > 0.05
    )
    (length,) = [
        other
        for other in document["gates"]
        if (other["gate"], other["measure"], other["stratum"]) == ("capacity", "acceptance_length", None)
    ]
    rise = length["change"] is not None and length["change"] > 0.15
    certain = length["interval"] is None or length["interval"][0] > 0
    if pooled["accepted"] / pooled["drafted"] < 0.97 and not (rise and certain and not changed):
        return "pass"
    before, after = document["baseline"]["habits"], document["candidate"]["habits"]
    ended = (after["repetition"] or 0.0) - (before["repetition"] or 0.0) >= 0.01
    distinct = after["distinct_4grams"]
    repeats = distinct is not None and distinct < 0.5 and distinct < (before["distinct_4grams"] or 1.0)
    return bad if ended or repeats else "inconclusive"


def _identities(document: dict[str, Any], gate: dict[str, Any], bad: str) -> str:
    broken = {row["side"] for row in document["reconciliation"] if row["verdict"] == "fail"}
    checked = any(row["side"] == "candidate" and row["verdict"] != "no_data" for row in document["reconciliation"])
    if "candidate" in broken:
        return bad
    return "warn" if "baseline" in broken else "pass" if checked else "no_data"


def _comparability(document: dict[str, Any], gate: dict[str, Any], bad: str) -> str:
    greedy = [document[side]["habits"]["greedy"] for side in ("baseline", "candidate")]
    if sorted(value for value in greedy if value is not None) == [0.0, 1.0]:
        return "not_comparable"
    if any(change["kind"] in {"sampling", "traffic"} for change in document["changes"]):
        return "warn"
    known = all(document[side]["facts"] for side in ("baseline", "candidate"))
    return "pass" if known or any(value is not None for value in greedy) else "no_data"


def _paired(document: dict[str, Any], gate: dict[str, Any], bad: str) -> str:
    if any(change["kind"] == "target" for change in document["changes"]):
        return "not_comparable"
    if gate["n_candidate"] == 0:
        return "no_data"
    if gate["n_baseline"] == 0:
        return "pass" if gate["candidate"] == 0 and gate["n_candidate"] >= 8 else "inconclusive"
    if min(gate["n_baseline"], gate["n_candidate"]) < 8:
        return "inconclusive"
    ends = [
        stats.binomtest(round(rate * n), n).proportion_ci(method="wilson")
        for rate, n in ((gate["baseline"], gate["n_baseline"]), (gate["candidate"], gate["n_candidate"]))
    ]
    p0, p1 = gate["baseline"], gate["candidate"]
    low = p1 - p0 - math.hypot(p1 - ends[1].low, ends[0].high - p0)
    high = p1 - p0 + math.hypot(ends[1].high - p1, p0 - ends[0].low)
    return bad if low > gate["tolerance"] else "pass" if high < gate["tolerance"] else "inconclusive"
