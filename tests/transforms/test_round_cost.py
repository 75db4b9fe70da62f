"""The round-cost model on simulated rounds with known coefficients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specledger.schemas.cost_model import CostModel, NotPredicted, Predicted, predict
from specledger.transforms.round_cost import Coefficient, Fit, Observations, fit
from specledger.transforms.step_cliff import find_cliff
from tests.scale import scaled


def world(seed: int, lengths, *, loads=range(1, 65), prefill=False, c4=0.0, noise=0.03, outliers=0.0):
    """Observations of single rounds under random but known costs."""
    random = np.random.default_rng(seed)
    truth = {
        "c0": random.uniform(5, 30),
        "c1": random.uniform(0.05, 0.5),
        "c2": random.uniform(0.02, 0.3),
        "c3": random.uniform(0.005, 0.05),
        "c4": c4,
    }
    size = 4_000
    requests = random.choice(np.array(list(loads)), size).astype(float)
    passes = random.choice(np.array(lengths), size).astype(float)
    verified = requests * (passes + 1)
    tokens = np.where(random.random(size) < 0.2, random.integers(16, 512, size), 0).astype(float) * prefill
    exact = truth["c0"] + truth["c1"] * requests + truth["c2"] * verified + truth["c3"] * tokens + truth["c4"] * passes
    time = exact * np.exp(random.normal(-noise * noise / 2, noise, size))
    time = np.where(random.random(size) < outliers, time * 8, time)
    hours = random.integers(0, 24, size)
    return truth, Observations(time, requests, verified, tokens, passes, np.ones(size), hours)


def foretold(found: Fit, requests: float, length: int) -> Predicted | NotPredicted:
    model = CostModel(**{name: getattr(found, name) for name in CostModel.__dataclass_fields__ if hasattr(found, name)})
    return predict(model, requests, length)


def near(found: Coefficient | Predicted | NotPredicted | None, truth: float) -> bool:
    if isinstance(found, Predicted):
        found = Coefficient(found.value_ms, found.lower_ms, found.upper_ms)
    assert isinstance(found, Coefficient), found
    return found.lower <= truth <= found.upper or abs(found.value - truth) <= 0.05 * abs(truth)


@pytest.mark.parametrize("seed", range(25))
def test_costs_are_recovered_where_two_lengths_ran(seed: int) -> None:
    truth, data = world(seed, [0, 3], prefill=True, c4=2.0)
    found = fit(data)
    assert found is not None
    assert all(near(found.coefficients[name], truth[name]) for name in ("c0", "c1", "c2", "c3"))
    assert (found.coefficients["c4"], found.slope) == (None, None)
    assert found.not_identified == "c4: needs three draft lengths"


@pytest.mark.parametrize("seed", range(25))
def test_draft_passes_are_told_apart_by_three_lengths(seed: int) -> None:
    truth, data = world(seed, [0, 1, 3, 5], c4=2.0)
    found = fit(data)
    assert found is not None
    assert all(near(found.coefficients[name], truth[name]) for name in ("c0", "c1", "c2", "c4"))
    assert found.coefficients["c3"] is None


def test_one_length_gives_only_the_joint_slope() -> None:
    truth, data = world(7, [3], c4=2.0)
    found = fit(data)
    assert found is not None
    assert (found.coefficients["c1"], found.coefficients["c2"], found.coefficients["c4"]) == (None, None, None)
    assert near(found.coefficients["c0"], truth["c0"] + 3 * truth["c4"])
    assert near(found.slope, truth["c1"] + 4 * truth["c2"])
    assert "only draft length 3 ran" in (found.not_identified or "")
    assert isinstance(foretold(found, 8, 0), NotPredicted)
    assert near(foretold(found, 8, 3), truth["c0"] + 3 * truth["c4"] + 8 * truth["c1"] + 32 * truth["c2"])


def test_one_load_tells_no_single_cost_but_what_lies_between_its_lengths() -> None:
    truth, data = world(8, [0, 3], loads=[8])
    found = fit(data)
    assert found is not None
    assert [found.coefficients[name] for name in ("c0", "c1", "c2", "c4")] == [None] * 4
    assert near(foretold(found, 8, 1), truth["c0"] + 8 * truth["c1"] + 16 * truth["c2"])
    assert isinstance(foretold(found, 16, 1), NotPredicted)


def test_without_ordinary_decode_two_lengths_do_not_tell_what_a_round_costs_without_drafts() -> None:
    truth, data = world(12, [1, 3], c4=2.0)
    found = fit(data)
    assert found is not None
    assert found.coefficients["c0"] is None
    assert near(found.coefficients["c2"], truth["c2"])
    assert isinstance(foretold(found, 8, 0), NotPredicted)


def test_lengths_outside_those_that_ran_are_not_foretold_without_draft_passes() -> None:
    _, data = world(9, [0, 3])
    found = fit(data)
    assert found is not None
    assert isinstance(foretold(found, 8, 2), Predicted)
    assert foretold(found, 8, 5) == NotPredicted("only draft lengths 0, 3 ran, and three are needed to foretell others")


def test_a_length_is_foretold_only_at_loads_at_which_it_ran_unless_three_lengths_tell_its_cost() -> None:
    _, data = world(13, [0, 1, 3], c4=2.0)
    low = data.where((data.passes != 0) | (data.requests <= 16))
    three, two = fit(low), fit(low.where(low.passes != 1))
    assert three is not None
    assert two is not None
    assert isinstance(foretold(three, 32, 0), Predicted)
    assert foretold(two, 32, 0) == NotPredicted("32 requests are outside of the 1 to 16 that the model was fitted on")


def test_a_few_drafts_that_were_cut_short_are_no_length_that_ran() -> None:
    _, data = world(14, [3])
    strays = np.arange(len(data)) < 20
    stray = replace(data, passes=np.where(strays, 1.0, 3.0), verified=data.requests * np.where(strays, 2.0, 4.0))
    found = fit(stray)
    assert found is not None
    assert found.lengths == [3]


def test_a_few_stalled_rounds_do_not_move_the_costs() -> None:
    truth, data = world(10, [0, 1, 3], outliers=0.03)
    found = fit(data)
    assert found is not None
    assert found.coefficients["c0"] is not None
    assert found.coefficients["c0"].value == pytest.approx(truth["c0"], rel=0.05)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    hits = total = 0
    for seed in range(scaled(60)):
        truth, data = world(1_000 + seed, [0, 2])
        found = fit(data)
        assert found is not None
        for name in ("c0", "c1", "c2"):
            coefficient = found.coefficients[name]
            assert coefficient is not None
            hits += coefficient.lower <= truth[name] <= coefficient.upper
            total += 1
    assert 0.91 <= hits / total <= 0.98


def test_too_few_observations_give_no_fit() -> None:
    _, data = world(11, [3])
    few = Observations(*(getattr(data, name)[:5] for name in Observations.__dataclass_fields__))
    assert fit(few) is None


def iterations(beyond: float, noise: float = 0.02, seed: int = 1):
    random = np.random.default_rng(seed)
    tokens = np.arange(8, 129, 8).astype(float)
    time = (20 + 0.1 * tokens) * np.where(tokens > 64, beyond, 1.0) * np.exp(random.normal(0, noise, len(tokens)))
    return tokens, time, np.full(len(tokens), 50.0), 0.05 * time


def test_a_step_beyond_a_captured_size_is_found_at_its_place() -> None:
    cliff = find_cliff(*iterations(3.0))
    assert cliff is not None
    assert (cliff.size, cliff.first_beyond) == (64, 72)
    assert cliff.ratio == pytest.approx(3.0, rel=0.15)


@pytest.mark.parametrize("beyond", [1.0, 1.05, 0.7])
def test_growth_without_a_step_is_no_cliff(beyond: float) -> None:
    assert all(find_cliff(*iterations(beyond, seed=seed)) is None for seed in range(20))
