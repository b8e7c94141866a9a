"""Corpora: the files a case is asked about, at their pin; a fresh workspace for each run, and what a run changed in it."""

from __future__ import annotations

from pytest_battery.edges.corpora.patches import Limits, Patch, diff
from pytest_battery.edges.corpora.pins import Corpus, Resolved, moved
from pytest_battery.edges.corpora.untouched import Likeness, likeness, touched
from pytest_battery.edges.corpora.workspaces import Corpora, Workspace

__all__ = [
    "Corpora",
    "Corpus",
    "Likeness",
    "Limits",
    "Patch",
    "Resolved",
    "Workspace",
    "diff",
    "likeness",
    "moved",
    "touched",
]
