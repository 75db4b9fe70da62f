"""The round-cost models of a deployment, as ``predict`` takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..schemas.cost_model import CostModel, NotPredicted, Predicted, predict

if TYPE_CHECKING:
    import datetime as dt

    import duckdb

__all__ = ["CostModel", "NotPredicted", "Predicted", "models", "predict"]


def models(connection: duckdb.DuckDBPyConnection, deployment: str, dates: Sequence[dt.date]) -> list[CostModel]:
    """The models of a deployment, all its engines together, over the dates: most lengths first, then the latest.

    Among equals iterations come before scrape intervals, whose load is a mean.
    """
    rows = connection.execute(_MODELS, {"deployment": deployment, "dates": list(dates)}).fetchall()
    return [CostModel(*row) for row in rows]


_MODELS = """
    SELECT
        lengths, requests_from, requests_to, verified_min, verified_max, relative_error,
        solution, covariance, blind, quantile, date, deployment, origin, deployments
    FROM round_cost
    WHERE
        deployment = $deployment
        AND date IN (SELECT unnest($dates))
        AND engine IS NULL
        AND solution IS NOT NULL
    ORDER BY len(lengths) DESC, date DESC, origin
"""
