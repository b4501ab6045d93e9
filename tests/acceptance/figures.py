"""Figures of a running stack, read from /metrics and from the files its processes count into."""

import json
from pathlib import Path

import httpx
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.parser import text_string_to_metric_families

from stack.local import Stack
from tests.published_schema import as_published


def text(stack: Stack) -> str:
    response = as_published(httpx.get(f"{stack.url}/metrics", timeout=10, trust_env=False))
    assert response.status_code == 200, response.text
    return response.text


def figure(metrics: str, name: str, **labels: str) -> float | None:
    """The value of one sample; None if there is no such sample."""
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return float(sample.value)
    return None


def counted(stack: Stack, name: str, **labels: str) -> float:
    """The value of a counter now. Fails if it does not exist: each must be there, at 0, from the start."""
    value = figure(text(stack), name, **labels)
    assert value is not None, f"there is no {name}{labels}"
    return value


def processes_that_counted(data_dir: Path, name: str) -> int:
    """How many processes moved a counter."""
    return sum(_moved(file, name) for file in (data_dir / "metrics").glob("counter_*.db"))


def _moved(file: Path, name: str) -> bool:
    samples = MmapedDict.read_all_values_from_file(str(file))
    return any(json.loads(key)[1] == name and value > 0 for key, value, *_ in samples)
