"""The verdicts as files: Markdown for a pull request, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_battery.plugin.tables import Shown
from pytest_battery.saying.rendering.markdown import render_markdown

if TYPE_CHECKING:
    from pytest_battery.doing.elsewhere import Other
    from pytest_battery.saying.gating import Judgement

__all__ = ["as_document", "write_json", "write_markdown"]

_REFRESH = (
    "to refresh the reference: run pytest on the branch compared with, and commit its store; "
    "what is measured and fresh costs nothing again"
)


def write_markdown(path: Path, shown: Shown, judged: Sequence[Judgement], lines: Sequence[str]) -> None:
    """Raises OSError."""
    facts = [*lines, *([_REFRESH] if shown.result.other is not None else [])]
    path.write_text(render_markdown(shown.table, judgements=judged, lines=facts), encoding="utf-8", newline="\n")


def write_json(path: Path, shown: Shown, judged: Sequence[Judgement], lines: Sequence[str]) -> None:
    """Raises OSError."""
    text = json.dumps(as_document(shown, judged), indent=2, sort_keys=True, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


def as_document(shown: Shown, judged: Sequence[Judgement] = ()) -> dict[str, Any]:
    """Plain values in full precision."""
    return {
        "schema": 1,
        "table": shown.table.as_json(),
        "gate": [asdict(judgement) for judgement in judged],
        "reference": None if shown.result.other is None else _reference(shown.result.other),
        "usd": shown.result.usd,
        "unpriced": shown.result.unpriced,
    }


def _reference(other: Other) -> dict[str, Any]:
    seen = other.seen
    return {
        "name": other.name,
        "commit": other.commit,
        "committed_at": other.committed_at and other.committed_at.isoformat(),
        "records": seen.records,
        "oldest": seen.oldest and seen.oldest.isoformat(),
        "newest": seen.newest and seen.newest.isoformat(),
        "models": sorted(seen.models),
    }
