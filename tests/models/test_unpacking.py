"""Answers that come packed, in any pieces."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_battery.edges.models.unpacking import Unpacking


def bare(content: bytes) -> bytes:
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packing.compress(content) + packing.flush()


PACKED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "none": ("", bytes),
    "gzip": ("gzip", gzip.compress),
    "in capitals": ("GZIP", gzip.compress),
    "an old name": ("x-gzip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "deflate without its head": ("deflate", bare),
    "twice": ("deflate, gzip", lambda content: gzip.compress(zlib.compress(content))),
    "with what it does not change": ("identity, gzip", gzip.compress),
    "in two members": ("gzip", lambda content: gzip.compress(content[:7]) + gzip.compress(content[7:])),
    "filled up": ("gzip", lambda content: gzip.compress(content) + b"\0\0\0"),
    "filled up after its end": ("deflate", lambda content: zlib.compress(content) + b"\r\n"),
    "in a way nobody asked for": ("br", bytes),
}


def unpacked(encoding: str, parts: list[bytes]) -> bytes:
    unpacking = Unpacking(encoding)
    content = b"".join(piece for part in parts for piece in unpacking.fed(part))
    unpacking.end()
    return content


def cut(content: bytes, size: int) -> list[bytes]:
    return [content[start : start + size] for start in range(0, len(content), size)]


@pytest.mark.parametrize("way", PACKED)
@given(content=st.binary(max_size=300), repeated=st.sampled_from([1, 3, 2000]), size=st.integers(1, 400))
def test_what_was_packed_comes_out_whatever_it_is_cut_into(way: str, content: bytes, repeated: int, size: int) -> None:
    encoding, pack = PACKED[way]
    assert unpacked(encoding, cut(pack(content * repeated), size)) == content * repeated


@pytest.mark.parametrize("way", ["gzip", "deflate", "twice"])
def test_an_answer_much_longer_than_it_looks_comes_in_small_pieces(way: str) -> None:
    encoding, pack = PACKED[way]
    pieces = [len(piece) for piece in Unpacking(encoding).fed(pack(b" " * 5_000_000))]
    assert max(pieces) <= 65536
    assert sum(pieces) == 5_000_000


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "gzip, deflate"])
def test_nothing_at_all_is_an_empty_answer(encoding: str) -> None:
    assert unpacked(encoding, []) == b""


@pytest.mark.parametrize("way", ["gzip", "deflate", "deflate without its head", "twice"])
def test_an_answer_without_its_end_is_none(way: str) -> None:
    encoding, pack = PACKED[way]
    with pytest.raises(aiohttp.ClientPayloadError, match=r"ends before what is packed with (gzip|deflate) does"):
        unpacked(encoding, [pack(b"yes, that is true")[:-3]])


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_an_answer_that_is_not_packed_as_it_says_is_none(encoding: str) -> None:
    with pytest.raises(aiohttp.ClientPayloadError, match=f"is not packed with {encoding}"):
        unpacked(encoding, [b"\x7fnonsense"])
