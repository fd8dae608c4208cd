"""`docs/observability.md` describes every metric correctly."""

from __future__ import annotations

import re
from pathlib import Path

from agentctx.service.telemetry import tracing
from agentctx.service.telemetry.metrics import METRICS, Metric

PAGE = (Path(__file__).parents[3] / "docs" / "observability.md").read_text(encoding="utf-8")


def row_of(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.meaning} |\n"


def test_every_metric_has_its_row() -> None:
    assert [metric.name for metric in METRICS if row_of(metric) not in PAGE] == []


def test_no_other_metric_is_mentioned() -> None:
    mentioned = set(re.findall(r"\b(?:agentctx|process)_[a-z_]+(?<!_)", PAGE)) - {"agentctx_http"}
    named = {name.removesuffix("_bucket") for name in mentioned}
    assert named == {metric.name for metric in METRICS}


def test_no_other_attribute_is_mentioned() -> None:
    known = {value for value in vars(tracing).values() if isinstance(value, str)}
    mentioned = set(re.findall(r"`((?:gen_ai|http|agentctx)\.[a-z_.]+[a-z_])`", PAGE))
    assert mentioned <= known
