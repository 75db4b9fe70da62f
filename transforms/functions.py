"""What SQL cannot compute: functions in Python that marts call by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..schemas import cost_model
from ..schemas.cost_model import CostModel, Predicted, predict

if TYPE_CHECKING:
    import duckdb

COSTS = ("c0", "c1", "c2", "c3", "c4", "slope")
MODEL = (
    "lengths INTEGER[], requests_from DOUBLE[], requests_to DOUBLE[], verified_min DOUBLE, verified_max DOUBLE, "
    "relative_error DOUBLE, solution DOUBLE[], covariance DOUBLE[], blind DOUBLE[], quantile DOUBLE"
)
INTERVAL = "STRUCT(value DOUBLE, lower DOUBLE, upper DOUBLE)"
FIT = (
    f"STRUCT({', '.join(f'{name} {INTERVAL}' for name in COSTS)}, own_alone BOOLEAN, not_identified VARCHAR, "
    f"observations BIGINT, clusters BIGINT, {MODEL})"
)
CLIFF = (
    "STRUCT(size BIGINT, first_beyond BIGINT, ratio DOUBLE, jump_ms DOUBLE, jump_ms_lower DOUBLE, jump_ms_upper DOUBLE)"
)


def create_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Create every function in the current database of the connection."""
    from duckdb.func import SPECIAL

    functions: tuple[tuple[str, Callable[..., Any], list[Any], str], ...] = (
        ("fitted_cost", _fitted_cost, ["DOUBLE[]"] * 6 + ["BIGINT[]", "BOOLEAN[]"], FIT),
        ("found_cliff", _found_cliff, ["DOUBLE[]"] * 4, CLIFF),
        ("predicted_cost", _predicted_cost, [f"STRUCT({MODEL})", "DOUBLE", "INTEGER", "DOUBLE"], INTERVAL),
    )
    for name, function, parameters, returned in functions:
        connection.create_function(name, function, parameters, returned, null_handling=SPECIAL)


def function_sources() -> list[str]:
    """The text of the code behind the functions: what they compute changes with it."""
    here = Path(__file__)
    return [
        path.read_text(encoding="utf-8")
        for path in (here, here.with_name("round_cost.py"), here.with_name("step_cliff.py"), Path(cost_model.__file__))
    ]


def _fitted_cost(
    time_ms: Sequence[float],
    requests: Sequence[float],
    verified: Sequence[float],
    prefill: Sequence[float],
    lengths: Sequence[float],
    weights: Sequence[float],
    clusters: Sequence[int],
    own: Sequence[bool],
) -> dict[str, Any] | None:
    """The fit of the own observations or, where they do not tell c0 to c2, together with those of others."""
    import numpy as np

    from .round_cost import Observations, fit

    everything = Observations(
        time_ms=np.array(time_ms),
        requests=np.array(requests),
        verified=np.array(verified),
        prefill=np.array(prefill),
        passes=np.array(lengths),
        weight=np.array(weights),
        cluster=np.array(clusters),
    )
    found = fit(everything.where(np.array(own)))
    own_alone = all(own) or (found is not None and all(found.coefficients[name] for name in ("c0", "c1", "c2")))
    if not own_alone:
        found = fit(everything)
    if found is None:
        return None
    facts = asdict(found) | {"own_alone": own_alone}
    return facts | facts.pop("coefficients")  # type: ignore[no-any-return]


def _found_cliff(
    verified: Sequence[float], time_ms: Sequence[float], weights: Sequence[float], deviations: Sequence[float]
) -> dict[str, Any] | None:
    import numpy as np

    from .step_cliff import find_cliff

    found = find_cliff(*(np.array(values, float) for values in (verified, time_ms, weights, deviations)))
    return None if found is None else asdict(found)


def _predicted_cost(
    model: dict[str, Any] | None, requests: float | None, length: int | None, prefill: float | None
) -> dict[str, float] | None:
    if model is None or model["solution"] is None or requests is None or length is None or prefill is None:
        return None
    found = predict(CostModel(**model), requests, length, prefill)
    if not isinstance(found, Predicted):
        return None
    return {"value": found.value_ms, "lower": found.lower_ms, "upper": found.upper_ms}
