"""The one table of input formats: a format is added by its module and one line here."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True)
class Format:
    """One kind of input and the module of this package that reads it."""

    name: str
    module: str
    title: str
    """What it is, in one line, for ``specledger ingest --help``."""
    grows: bool = True
    """Whether a longer input may continue a shorter one that was read before."""
    timed_by_name: bool = False
    """Whether the time of an input can lie in its file name only, so that equal content can be two inputs."""

    carries: bool = False
    """Whether what a reader remembers at the end of one file of a rotated set helps it with the next."""

    def load(self) -> ModuleType:
        """The module of the format; ImportError if it or a library it needs is missing."""
        return importlib.import_module(f".{self.module}", __package__)


FORMATS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        Format("exposition", "exposition", "text of /metrics: single scrapes, folders of them, appended scrapes",
               timed_by_name=True),
        Format("prometheus", "prometheus_api", "a Prometheus server (prometheus://HOST:PORT) or its API's saved JSON",
               grows=False),
        Format("server_log", "server_log", "stdout and stderr of vllm serve, behind any prefix", carries=True),
        Format("responses", "responses", "OpenAI-style responses, one JSON object a line, bare or in an envelope"),
        Format("bench", "bench", "vllm bench serve --save-result (detailed, plain or appended)"),
        Format("aiperf", "aiperf", "AIPerf profile_export.jsonl and profile_export_aiperf.json"),
        Format("guidellm", "guidellm", "GuideLLM JSON report", grows=False),
        Format("otlp", "otlp", "OpenTelemetry spans as the Collector's file exporter writes them"),
        Format("quality", "quality", "lm-evaluation-harness results, or CSV deployment,task,metric,value,stderr,n",
               grows=False),
    )
}  # fmt: skip

UNKNOWN = "unknown"
"""The format of an input that was refused before anyone could tell what it is."""
