"""An honest ledger of speculative decoding, from what vLLM servers already emit.

From Python: ``Warehouse("warehouse")`` opens what the commands wrote; its methods answer as the commands do.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .api import (
        Estimate,
        Recommendation,
        Report,
        RoundTime,
        SpecledgerError,
        Warehouse,
        estimate,
        read_report,
        write_report,
    )

__all__ = [
    "Estimate",
    "Recommendation",
    "Report",
    "RoundTime",
    "SpecledgerError",
    "Warehouse",
    "__version__",
    "estimate",
    "read_report",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """What the library holds, loaded when it is first asked for: ``import specledger`` itself loads nothing heavy."""
    if name in __all__:
        return getattr(importlib.import_module(".api", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
