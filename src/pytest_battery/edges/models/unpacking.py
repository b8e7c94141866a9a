"""Undoing the ``content-encoding`` of an answer in pieces, so that whoever bounds an answer sees each before the next."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import aiohttp

__all__ = ["ACCEPTED", "Unpacking"]

ACCEPTED = "gzip, deflate"
"""What is asked for; anything else that a server packs an answer with is left as it is."""

_PIECE = 65536  # bytes: what a few hundred of them unpack to at once may be a thousand times as long
_GZIP = 16 + zlib.MAX_WBITS


class Unpacking:
    """Of one answer, with the value of its header *encoding*: several codings, the last outermost, or none."""

    def __init__(self, encoding: str) -> None:
        names = (name.strip().lower() for name in encoding.split(","))
        codings = {"gzip": True, "x-gzip": True, "deflate": False}
        self._layers = [_Layer(name, codings[name]) for name in names if name in codings][::-1]

    def fed(self, part: bytes) -> Iterator[bytes]:
        """What *part* unpacks to, in pieces.  Raises `aiohttp.ClientPayloadError` for what is not packed so."""
        pieces: Iterator[bytes] = iter((part,))
        for layer in self._layers:
            pieces = layer.fed(pieces)
        return pieces

    def end(self) -> None:
        """Raises `aiohttp.ClientPayloadError` where the end is missing."""
        for layer in self._layers:
            layer.end()


class _Layer:
    """One coding.  Nothing at all is taken for an empty answer: there are proxies that send errors so."""

    def __init__(self, name: str, gzip: bool) -> None:
        self._name, self._gzip = name, gzip
        self._inflating: zlib._Decompress | None = None

    def fed(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        for part in parts:
            rest, full = part, False
            while rest or full:
                inflating = self._for(rest)
                if inflating is None:
                    break
                try:
                    piece = inflating.decompress(rest, _PIECE)
                except zlib.error as error:
                    raise aiohttp.ClientPayloadError(f"the answer is not packed with {self._name}: {error}") from None
                rest = inflating.unconsumed_tail or inflating.unused_data
                full = len(piece) == _PIECE and not inflating.eof  # there may be more of it inside
                if piece:
                    yield piece

    def _for(self, rest: bytes) -> zlib._Decompress | None:
        """What unpacks *rest*; None where it is only what some servers fill an answer up with."""
        if self._inflating is None:
            # "deflate" is zlib's format, but there are servers that send it bare; the first byte tells.
            bare = not self._gzip and rest[0] & 0x0F != 8
            self._inflating = zlib.decompressobj(_GZIP if self._gzip else -zlib.MAX_WBITS if bare else zlib.MAX_WBITS)
        elif self._inflating.eof:
            if not self._gzip or rest[:1] != b"\x1f":
                return None
            self._inflating = zlib.decompressobj(_GZIP)  # gzip may have several members
        return self._inflating

    def end(self) -> None:
        if self._inflating is not None and not self._inflating.eof:
            raise aiohttp.ClientPayloadError(f"the answer ends before what is packed with {self._name} does")
