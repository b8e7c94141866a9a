"""The first value of the case's shape in the reply is the expected one.

A case names its ``shape`` (a regular expression, as in ``[A-Z]-[0-9]{4}``) and what to ``expect``.  Metrics: ``correct``,
and ``others``: how many different values of that shape, other than the expected one, the reply offers.  A reply that
offers none at all leaves ``others`` unjudged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pytest_battery import Case, Score, View


def score(case: Case, view: View) -> Score:
    found = re.findall(case["shape"], view.text, re.ASCII)
    if not found:
        return Score({"correct": False}, {"correct": "no value of the shape"}, {"others": "no value of the shape"})
    reasons = {} if found[0] == case["expect"] else {"correct": f"found {found[0]}, expected {case['expect']}"}
    return Score({"correct": not reasons, "others": len({*found} - {case["expect"]})}, reasons)


def check(case: Case, options: Mapping[str, Any]) -> None:
    if not re.fullmatch(case["shape"], case["expect"], re.ASCII):
        raise ValueError(f"expect {case['expect']!r} does not have the shape {case['shape']}")
