"""Grading: a reply and a case become metrics, by rules that call no model."""

from __future__ import annotations

from pytest_battery.scoring.contract import check_contract
from pytest_battery.scoring.registry import Registry
from pytest_battery.scoring.scorers import Factory, Score, ScoreFunction, Scorer, View

__all__ = ["Factory", "Registry", "Score", "ScoreFunction", "Scorer", "View", "check_contract"]
