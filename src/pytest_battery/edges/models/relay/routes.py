"""What a request of an agent's asks for, by its path; whatever prefix the agent was given stands before it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["Route", "route_of"]

_CALLS = {
    "/chat/completions": "openai-chat",
    "/responses": "openai-responses",
    "/messages": "anthropic",
}
_GOOGLE = re.compile(
    r"/models/(?P<model>[^/]+(?:/[^/:]+)*):(?P<verb>generateContent|streamGenerateContent|countTokens)\Z"
)
_MODELS = re.compile(r"(?:/v\d[a-z0-9]*)?/models(?:/[^:]+)?\Z")


@dataclass(frozen=True, slots=True)
class Route:
    """``model`` and ``stream`` are what the path says of them, which is Google's way; *sse* whether it asks for events."""

    what: Literal["call", "count", "models", "probe", "method", "unknown"]
    api: str | None = None
    model: str | None = None
    stream: bool = False
    sse: bool = False


def route_of(method: str, path: str, query: str = "") -> Route:
    """``count`` is counting tokens, ``probe`` a look whether somebody is there, ``method`` a call that is no POST."""
    path = path.rstrip("/")
    if found := _GOOGLE.search(path):
        what: Literal["count", "call"] = "count" if found["verb"] == "countTokens" else "call"
        stream = found["verb"] == "streamGenerateContent"
        return _posted(method, Route(what, "google", found["model"], stream, "alt=sse" in query.split("&")))
    if path.endswith("/messages/count_tokens"):
        return _posted(method, Route("count", "anthropic"))
    for end, api in _CALLS.items():
        if path.endswith(end):
            return _posted(method, Route("call", api))
    if method in ("GET", "HEAD"):
        if _MODELS.search(path):
            return Route("models")
        if path in ("", "/v1", "/v1beta") or path.endswith("/api/hello") or method == "HEAD":
            return Route("probe")
    return Route("unknown")


def _posted(method: str, route: Route) -> Route:
    return route if method == "POST" else Route("method", route.api)
