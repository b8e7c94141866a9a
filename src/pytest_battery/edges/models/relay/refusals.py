"""Errors of the relay's own, in the shape of the API that was asked."""

from __future__ import annotations

from typing import Any

__all__ = ["Refusal", "error_body"]

_TYPES = {
    400: ("invalid_request_error", "INVALID_ARGUMENT"),
    401: ("authentication_error", "UNAUTHENTICATED"),
    403: ("permission_error", "PERMISSION_DENIED"),
    404: ("not_found_error", "NOT_FOUND"),
    405: ("invalid_request_error", "INVALID_ARGUMENT"),
    413: ("request_too_large", "INVALID_ARGUMENT"),
    415: ("invalid_request_error", "INVALID_ARGUMENT"),
    429: ("rate_limit_error", "RESOURCE_EXHAUSTED"),
}


class Refusal(Exception):
    """A request that the relay answers itself.  ``code`` says why in one word, for programs."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.code, self.message = status, code, message
        super().__init__(message)


def error_body(api: str | None, refusal: Refusal) -> dict[str, Any]:
    """The body of the answer; where no API is known, OpenAI's."""
    kind, google = _TYPES.get(refusal.status, ("api_error", "INTERNAL"))
    message = f"pytest-battery: {refusal.message}"
    if api == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message}}
    if api == "google":
        return {"error": {"code": refusal.status, "message": message, "status": google}}
    return {"error": {"message": message, "type": kind, "param": None, "code": refusal.code}}
