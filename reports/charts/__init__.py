"""Every chart by name: what it is drawn from, what it says in words, and what to read when there is nothing to draw."""

from __future__ import annotations

from .chart import Chart, Rows, Shown
from .registry import CHARTS

__all__ = ["CHARTS", "Chart", "Rows", "Shown"]
