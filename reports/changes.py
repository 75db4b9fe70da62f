"""What differs between the two sides: start-up records, sampling and traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .format import percent
from .model import Change, DeploymentFacts

ChangeKind = Literal["target", "draft", "server", "hardware", "sampling", "traffic"]

TARGET_STATED = "Outputs may change: the quality baseline moves with the target, and paired outputs do not compare."
DRAFT_STATED = "A changed draft must not change outputs, only speed and acceptance."
FIELDS: tuple[tuple[str, ChangeKind, str], ...] = (
    ("model", "target", TARGET_STATED),
    ("quantization", "target", TARGET_STATED),
    ("dtype", "target", TARGET_STATED),
    ("kv_cache_dtype", "target", TARGET_STATED),
    ("draft_method", "draft", DRAFT_STATED),
    ("draft_model", "draft", DRAFT_STATED),
    ("draft_quantization", "draft", DRAFT_STATED),
    ("draft_limit", "draft", "Acceptance rates of other draft lengths do not compare; lengths and times do."),
    ("draft_schedule", "draft", "The draft length follows the load in another way."),
    ("acceptance_rule", "draft", "A rule that accepts more than the target would needs its own look at quality."),
    ("vllm_version", "server", "Speed, metrics and log wording can differ between releases."),
    ("max_num_seqs", "server", "Another limit of running requests changes the loads that occur."),
    ("enforce_eager", "server", "Without graph capture every step takes longer."),
    ("prefix_caching", "server", "Prefill times and TTFT do not compare."),
    ("tensor_parallel", "hardware", "Step times come from other hardware."),
    ("pipeline_parallel", "hardware", "Step times come from other hardware."),
    ("data_parallel", "hardware", "Load by engine is spread in another way."),
)
"""Fields of the start-up record that are compared, what kind of change each is, and what it means."""
NONE_WHEN_SILENT = frozenset({"quantization", "draft_method", "draft_model", "draft_quantization", "draft_schedule"})
"""Fields whose absence from a start-up record says none."""
LOSSLESS_RULES = frozenset({"rejection_sampler", "rejection", "strict", "standard", "lossless"})
"""Acceptance rules under which outputs keep the target's distribution; any other one is taken as lossy."""
SAME_LENGTH = 0.05
"""Relative difference of mean draft lengths up to which acceptance compares."""
MEAN_SHIFT = 0.20
"""Relative change of mean prompt or output length that is worth naming; strata carry the comparison."""
SHARE_SHIFT = 0.10
"""Change of a share (cached prompt tokens, greedy requests) that is worth naming."""


def deployment_facts(row: Mapping[str, Any]) -> DeploymentFacts:
    """The facts of one deployment, from its row of the selection table."""
    names = [name for name in DeploymentFacts.__dataclass_fields__ if name in row]
    facts = {name: row[name] for name in names}
    return DeploymentFacts(**{**facts, "labels": dict(row.get("labels") or {})})


def start_up_changes(baseline: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]]) -> list[Change]:
    """The fields of the start-up records that differ, where both sides have a record."""
    found = []
    for field, kind, consequence in FIELDS:
        before, after = (_values(side, field) for side in (baseline, candidate))
        if before and after and before != after:
            found.append(Change(field, kind, ", ".join(before), ", ".join(after), consequence))
    return found


def _values(side: Sequence[Mapping[str, Any]], field: str) -> list[str]:
    values = set()
    for row in side:
        value = row.get(field)
        if value is None and field in NONE_WHEN_SILENT and row.get("model") is not None:
            value = "none"
        if value is not None:
            values.add(str(value))
    return sorted(values)


def target_changed(changes: Sequence[Change]) -> bool:
    """Whether outputs are expected to change: another target, or the target at another precision."""
    return any(change.kind == "target" for change in changes)


def draft_changed(changes: Sequence[Change]) -> bool:
    """Whether acceptance is expected to change: another draft, method or K (or another target)."""
    return any(change.kind in {"target", "draft"} for change in changes)


def lossy(side: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a start-up record names an acceptance rule that is not known to be lossless."""
    return any(str(row["acceptance_rule"]).lower() not in LOSSLESS_RULES for row in side if row.get("acceptance_rule"))


def mean_change(what: str, before: float | None, after: float | None) -> Change | None:
    """A shift of a mean length between the sides, where it is large enough to name."""
    if not before or after is None or abs(after / before - 1) < MEAN_SHIFT:
        return None
    return Change(
        what, "traffic", f"{before:.1f}", f"{after:.1f}", "Strata carry the comparison; the mix is told apart."
    )


def share_change(
    what: str, kind: Literal["sampling", "traffic"], before: float | None, after: float | None, consequence: str
) -> Change | None:
    """A shift of a share between the sides, where it is large enough to name."""
    if before is None or after is None or abs(after - before) < SHARE_SHIFT:
        return None
    return Change(what, kind, percent(before), percent(after), consequence)
