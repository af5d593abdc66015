"""Reads Prometheus' text format, strictly."""

import re

SAMPLE = re.compile(r'^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>[^{}]*(?:\{[^{}]*\}[^{}]*)*)\})? '
                    r'(?P<value>[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|Inf|NaN))$', re.I)


def samples(text):
    """Reads Prometheus' text format: every sample belongs to a family that was announced, and none is there twice."""
    types, found = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types and kind in ("counter", "gauge", "histogram", "summary", "untyped"), line
            types[name] = kind
        elif line and not line.startswith("# HELP "):
            sample = SAMPLE.match(line)
            assert sample, line
            family = re.sub(r"_(bucket|sum|count)$", "", sample["name"])
            assert sample["name"] in types or types.get(family) == "histogram", line
            assert (sample["name"], sample["labels"]) not in found, line
            found[sample["name"], sample["labels"]] = float(sample["value"])
    return types, found
