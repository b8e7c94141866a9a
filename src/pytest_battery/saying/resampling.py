"""Draws: the gap recomputed on random halves of the evidence.

A draw keeps each shared case with probability 1/2, both cells' runs of it together.  It does not resample with
replacement: on few cases such draws never leave the observed values, and call every clean separation a finding.
The share of half-sample means on the far side of zero is the exact sign-flip p, and their percentiles are exact
confidence limits (Hartigan 1969, "Using subsample values as typical values", JASA 64).

Random bits belong to a seed and a case id, to nothing else: row order, other gaps, other cases and the number of
workers change no draw.  Only ``BitGenerator.random_raw`` is used, whose stream numpy promises to keep.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_battery.saying.standards import ALPHA, DRAWS

__all__ = [
    "Halves",
    "Reading",
    "case_bits",
    "halves",
    "kept_means",
    "kept_medians",
    "order_statistic",
    "random_words",
    "read_draws",
]

_SCHEME = b"battery-draws-1"  # changes when the same records would give other draws
_CHUNK = 256  # cases, or gaps, handled at once: bounds the memory of a product to some tens of MB
_EXACT_IN_FLOAT32 = 2**24
_ONE_THREAD, _ONE_THREAD_VECTOR = 2**18, 2**13  # multiplications; from more on OpenBLAS starts threads


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """Which draw keeps which case.

    ``kept`` is (cases, draws) of 0 and 1; ``counts`` (draws,) how many cases a draw keeps; ``empty`` the indices
    of the draws that keep none.
    """

    kept: NDArray[np.uint8]
    counts: NDArray[np.int64]
    empty: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Reading:
    """What the draws of one gap say: the ends of its interval and its p."""

    lo: float
    hi: float
    p: float

    def over(self, scale: float) -> Reading:
        """The same for draws divided by *scale*."""
        return Reading(self.lo / scale, self.hi / scale, self.p)


def case_bits(seed: int, case_id: str, draws: int = DRAWS) -> NDArray[np.uint8]:
    """The fair bits of a case, (draws,): bit b is 1 where draw b keeps the case."""
    return np.unpackbits(_packed_bits(seed, case_id, draws), bitorder="little")[:draws]


@functools.lru_cache(maxsize=4)
def halves(seed: int, case_ids: tuple[str, ...], draws: int = DRAWS) -> Halves:
    """The halves of these cases, in the order given; read-only, and shared between the gaps of a table."""
    kept = np.empty((len(case_ids), draws), dtype=np.uint8)
    for row, case_id in enumerate(case_ids):
        kept[row] = case_bits(seed, case_id, draws)
    counts = kept.sum(axis=0, dtype=np.int64)
    kept.flags.writeable = False
    return Halves(kept, counts, np.flatnonzero(counts == 0))


def kept_means(gaps: NDArray[np.float64], half: Halves, noise: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of the kept cases' gaps for every draw: (gaps, cases) -> (gaps, draws); infinite where none is kept.

    Whole numbers whose absolute values sum to less than 2**53 are added without error, so a sum that is zero comes
    out as zero.  For other numbers *noise*, (gaps,), is the size up to which a sum is rounding error, counted as zero.
    """
    exact = not noise.any()
    small = exact and bool(np.all(np.abs(gaps).sum(axis=1) < _EXACT_IN_FLOAT32))
    sums = _kept_sums(gaps.astype(np.float32) if small else gaps, half.kept, in_blocks=exact)
    if noise.any():
        sums[np.abs(sums) <= noise[:, None]] = 0.0
    means: NDArray[np.float64] = sums / np.maximum(half.counts, 1).astype(np.float64)
    means[:, half.empty] = np.inf
    return means


def _kept_sums(gaps: NDArray[Any], kept: NDArray[np.uint8], *, in_blocks: bool) -> NDArray[Any]:
    """The matrix product, in the type of *gaps*; *in_blocks* in which BLAS starts no threads.

    Threads wait for each other, on a busy machine for longer than the product takes.  How a product is cut may change
    the last bit of a sum that is not exact.
    """
    cases, draws = kept.shape
    most = _ONE_THREAD if len(gaps) > 1 else _ONE_THREAD_VECTOR
    width = max(1, most // (len(gaps) * min(cases, _CHUNK))) if in_blocks else draws
    sums: NDArray[Any] = np.zeros((len(gaps), draws), dtype=gaps.dtype)
    for start in range(0, cases, _CHUNK):
        rows = slice(start, start + _CHUNK)
        some, kept_of_them = gaps[:, rows], kept[rows].astype(gaps.dtype)
        for first in range(0, draws, width):
            block = slice(first, first + width)
            sums[:, block] += some @ kept_of_them[:, block]
    return sums


def kept_medians(values: NDArray[np.float64], kept: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The median of the kept values for every draw: (n,) and (n, draws) -> (draws,); infinite where none is kept.

    Of an even number of values it is the mean of the two in the middle.
    """
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    count_type = np.int8 if len(values) < 128 else np.int32
    counts: NDArray[Any] = kept.sum(axis=0, dtype=count_type)
    lower_rank, upper_rank = (counts - 1) // 2, counts // 2
    # Walking up the sorted values, the kept value of rank r stands where the running count first exceeds r:
    # its index is the number of places where it does not.
    running, lower, upper = np.zeros_like(counts), np.zeros_like(counts), np.zeros_like(counts)
    below = np.empty(counts.shape, dtype=np.bool_)
    places = below.view(np.int8)
    steps = kept.view(np.int8)
    for row in order.tolist():
        np.add(running, steps[row], out=running)
        np.less_equal(running, lower_rank, out=below)
        np.add(lower, places, out=lower)
        np.less_equal(running, upper_rank, out=below)
        np.add(upper, places, out=upper)
    last = len(values) - 1
    medians: NDArray[np.float64] = 0.5 * (ascending[np.minimum(lower, last)] + ascending[np.minimum(upper, last)])
    medians[counts == 0] = np.inf
    return medians


def order_statistic(draws: int, alpha: float = ALPHA) -> int:
    """Which smallest and largest draw are the ends of the interval: the 250th of 10,000 at alpha = .05; 0 for none."""
    return math.floor(alpha / 2 * (draws + 1) + 1e-9)


def read_draws(draws: NDArray[np.float64], alpha: float = ALPHA) -> list[Reading]:
    """Interval and p of every row of *draws*, (gaps, draws), whose order is lost; the same draws of all rows may be
    undefined: infinite.

    The ends are order statistics, without interpolation; an undefined draw is minus infinity for the lower end and
    plus infinity for the upper one.  p is twice the share of draws on the far side of zero, zero and undefined ones
    included, one added to the count (Phipson and Smyth 2010): never 0, and p <= alpha exactly where the interval
    excludes zero.
    """
    number = draws.shape[1]
    k = order_statistic(number, alpha)
    undefined = int(np.count_nonzero(np.isinf(draws[0])))
    far = np.minimum(np.count_nonzero(draws <= 0, axis=1) + undefined, np.count_nonzero(draws >= 0, axis=1))
    p = np.minimum(1.0, 2.0 * (1 + far) / (number + 1))
    lo, hi = np.full(len(draws), -np.inf), np.full(len(draws), np.inf)
    if k:
        # One place at a time: numpy has a vectorised selection for a single place only.
        draws.partition(number - k, axis=1)
        hi = draws[:, number - k].copy()
        place = k - 1 - undefined  # undefined draws stand at the upper end, and would at the lower one come first
        if place >= 0:
            lower = draws[:, : number - k]
            lower.partition(place, axis=1)
            lo = lower[:, place]
    return [Reading(*ends) for ends in zip(lo.tolist(), hi.tolist(), p.tolist(), strict=True)]


def random_words(seed: int, key: str, count: int) -> NDArray[np.uint64]:
    """*count* words of 64 fair bits that belong to *seed* and *key*; the same on every machine and numpy version."""
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16, person=_SCHEME).digest()
    spawn_key: Sequence[int] = np.frombuffer(digest, dtype="<u4").tolist()
    bits = np.random.PCG64(np.random.SeedSequence(entropy=seed, spawn_key=spawn_key))
    return np.asarray(bits.random_raw(count), dtype="<u8")


@functools.lru_cache(maxsize=8192)
def _packed_bits(seed: int, case_id: str, draws: int) -> NDArray[np.uint8]:
    packed = random_words(seed, f"case\0{case_id}", -(-draws // 64)).view(np.uint8)
    packed.flags.writeable = False
    return packed
