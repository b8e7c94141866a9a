"""A request of an agent's, made the subject's."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_battery.edges.models.relay.refusals import Refusal
from pytest_battery.edges.models.relay.routes import Route
from pytest_battery.edges.models.relay.wording import Wording
from pytest_battery.values.subjects import Subject

__all__ = ["DEEPEST", "Asking", "asking_of", "parsed", "too_deep"]

DEEPEST = 100
"""So many levels a document may have: what walks through one later must not run out of stack."""


@dataclass(frozen=True, slots=True)
class Asking:
    """``body`` is what goes out, but for what only the provider's URL decides; ``observed`` the knobs in it."""

    api: str
    body: Mapping[str, Any]
    stream: bool
    asked_model: str | None
    helper: bool
    observed: Mapping[str, Any]


def parsed(content: bytes) -> dict[str, Any]:
    """The JSON object that *content* is.  Raises `Refusal`."""
    try:
        document = json.loads(content, parse_constant=_no_number, parse_float=_number)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "not_json", f"the body of the request is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise Refusal(400, "not_json", f"the body of the request is {type(document).__name__}, not an object")
    if too_deep(document):
        raise Refusal(400, "not_json", f"the body of the request is nested more than {DEEPEST} levels deep")
    return document


def too_deep(document: Any) -> bool:
    """Whether *document* is nested deeper than `DEEPEST` levels."""
    level = [document]
    for _ in range(DEEPEST):
        level = [
            item
            for one in level
            if isinstance(one, dict | list)
            for item in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def asking_of(
    document: Mapping[str, Any], route: Route, *, subject: Subject, wording: Wording, agent_model: str
) -> Asking:
    """*document* with the subject's model and knobs.

    A call for another model than *agent_model*, the one the agent was set to, is a helper's; the subject answers it too.
    """
    api = wording.api
    asked = route.model if api == "google" else document.get("model")
    asked = asked if isinstance(asked, str) else None
    stream = route.stream if api == "google" else document.get("stream") is True
    body = dict(document)
    if api == "google":
        if stream and not route.sse:
            raise Refusal(400, "no_sse", "streams are server-sent events here: add ?alt=sse")
    else:
        body["model"] = subject.model
    if api == "openai-chat" and stream:
        options = body.get("stream_options")
        # Without it nobody is told what the answer cost.
        body["stream_options"] = {**(options if isinstance(options, Mapping) else {}), "include_usage": True}
    body = wording.put(subject, body)
    helper = asked is not None and asked.removeprefix("models/") != agent_model
    return Asking(api, body, stream, asked, helper, wording.observed(subject, body))


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        _no_number(text)
    return number
