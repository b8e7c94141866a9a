"""What an agent sends, taken in with bounds."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Mapping

from starlette.requests import Request

from pytest_battery.edges.models.relay.refusals import Refusal

__all__ = ["PASSED", "body_of", "passed_headers", "shows"]

PASSED = ("anthropic-beta", "anthropic-version", "openai-beta")
"""Headers that shape the answer.  No other goes on, the agent's credential last of all."""

_PACKED = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


def passed_headers(request: Request) -> Mapping[str, str]:
    return {name: request.headers[name] for name in PASSED if name in request.headers}


def shows(request: Request, token: str) -> bool:
    """Whether the request carries *token* where APIs have their keys."""
    bearer = request.headers.get("authorization", "")
    shown = [
        bearer[len("bearer ") :] if bearer.lower().startswith("bearer ") else "",
        request.headers.get("x-api-key", ""),
        request.headers.get("x-goog-api-key", ""),
        request.query_params.get("key", ""),
    ]
    wanted = token.encode()
    return any(secrets.compare_digest(one.encode("utf-8", "surrogatepass"), wanted) for one in shown)


async def body_of(request: Request, most: int) -> bytes:
    """The body, unpacked.  Raises `Refusal` for more than *most* bytes, and for a packing that is not known."""
    packing = request.headers.get("content-encoding", "identity").strip().lower()
    if packing not in ("identity", *_PACKED):
        raise Refusal(415, "packing", f"bodies packed as {packing!r} are not read here; use gzip, or none")
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > most:
            raise _too_long(most)
    if packing == "identity":
        return bytes(content)
    unpacker = zlib.decompressobj(_PACKED[packing])
    try:
        plain = unpacker.decompress(bytes(content), most + 1)
    except zlib.error as error:
        raise Refusal(400, "packing", f"the body is no {packing}: {error}") from None
    if len(plain) > most:
        raise _too_long(most)
    if not unpacker.eof:
        raise Refusal(400, "packing", f"the {packing} of the body is cut off")
    return plain


def _too_long(most: int) -> Refusal:
    return Refusal(413, "too_long", f"a request may have {most} bytes")
