"""Byte-pair merging, step by step: in what order the symbols of a word become its tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush

Pair = tuple[str, str]


def merge_steps(symbols: Sequence[str], ranks: Mapping[Pair, int]) -> Iterator[tuple[Pair, int]]:
    """Every merge and its rank, in order: the lowest rank first, of equal ones the leftmost. A word of n symbols takes
    n log n steps: anybody may type a very long one."""
    symbols = list(symbols)
    following = list(range(1, len(symbols) + 1))
    previous = list(range(-1, len(symbols) - 1))
    waiting: list[tuple[int, int, str, str]] = []

    def consider(place: int) -> None:
        """The symbol at this place and the one after it may be merged."""
        if place >= 0 and following[place] < len(symbols):
            pair = symbols[place], symbols[following[place]]
            if (rank := ranks.get(pair)) is not None:
                heappush(waiting, (rank, place, *pair))

    for place in range(len(symbols)):
        consider(place)
    while waiting:
        rank, place, left, right = heappop(waiting)
        other = following[place]
        if symbols[place] != left or other >= len(symbols) or symbols[other] != right:
            continue  # one of the two was merged with another meanwhile
        symbols[place], symbols[other] = left + right, ""
        following[place] = following[other]
        if following[other] < len(symbols):
            previous[following[other]] = place
        yield (left, right), rank
        consider(previous[place])
        consider(place)
