"""What every page has in common: templates that escape, one style, and a policy that lets only its own scripts run.

Escaping is the first line of defence, the page's own content security policy the second: only the scripts of the file
may run, by their hash, and nothing may be loaded.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from . import format as form
from .charts.palette import css_variables
from .plain import straight, unbroken

TEMPLATES = Path(__file__).parent / "templates"
_COMMAND = re.compile("`(specledger [a-z]+)`")
"""A command of ours in a sentence."""


def render(template: str, *, bundle: str | None = None, **context: Any) -> str:
    """A page of a template; ``bundle`` is the chart JavaScript, where there is something to draw."""
    script = asset("report.js")
    return (
        _environment()
        .get_template(template)
        .render(
            **context,
            bundle=None if bundle is None else Markup(bundle),  # noqa: S704
            script=Markup(script),  # noqa: S704
            style=Markup(_style()),  # noqa: S704
            policy=_policy([text for text in (bundle, script) if text]),
        )
    )


def asset(name: str) -> str:
    """The text of a file beside the templates."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=lambda value: _set(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Any] = {
        "change": form.change,
        "dates": form.dates,
        "figure": form.figure,
        "gate_title": form.gate_title,
        "interval": form.interval,
        "listed": form.listed,
        "lacks_spaces": lambda text: " " not in text,
        "percent": form.percent,
        "place": form.place,
        "plural": form.plural,
        "sortable": lambda value: f"{value:.7g}" if isinstance(value, float) else value,
        "tolerance": form.tolerance,
        "verdict_label": form.verdict_label,
    }
    environment.filters.update(filters)
    return environment


def _set(text: str) -> str:
    """Text as it stands in the page: escaped, in its direction, figures unbroken from their units, commands in code."""
    return Markup(_COMMAND.sub(r"<code>\1</code>", str(escape(unbroken(straight(text))))))  # noqa: S704


def _style() -> str:
    light, dark = css_variables(dark=False), css_variables(dark=True)
    return (
        f":root{{{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}color-scheme:dark}}}}\n"
        f":root[data-theme=dark]{{{dark}color-scheme:dark}}\n"
        f"@media print{{:root,:root[data-theme=dark],:root:not([data-theme=light]){{{light}color-scheme:light}}}}\n"
        f"{asset('report.css')}"
    )


def _policy(scripts: Sequence[str]) -> str:
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
