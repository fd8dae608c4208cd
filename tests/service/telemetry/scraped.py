"""Read metrics from the text format."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

Scraped = dict[str, float]


def scraped(page: bytes) -> Scraped:
    """Return every sample by name and labels: `name{a="b"}`."""
    found: Scraped = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def family_types(page: bytes) -> dict[str, str]:
    """Return the announced type of each metric, by name."""
    lines = [line.split(" ") for line in page.decode().splitlines() if line.startswith("# TYPE ")]
    return {name: kind for _, _, name, kind in lines}
