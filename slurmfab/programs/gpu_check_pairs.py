"""Which node is to blame when a pair of nodes falls short: neighbours in a ring first, then another partner."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

Pair = Tuple[str, str]

A_PAIR = 2


class Found(NamedTuple):
    """What pairs have shown.

    Args:
        good: those that are as wanted.
        bad: those that fall short.
    """

    good: Tuple[Pair, ...]
    bad: Tuple[Pair, ...]

    @property
    def trusted(self) -> Set[str]:
        """The nodes that are as wanted with some partner, so that the fault of a bad pair is not theirs alone."""
        return {node for pair in self.good for node in pair}

    @property
    def suspects(self) -> List[str]:
        """The nodes of bad pairs that are as wanted with nobody."""
        return sorted({node for pair in self.bad for node in pair} - self.trusted)

    def partners(self, node: str) -> Set[str]:
        """Those with whom a node was measured."""
        return {other for pair in (*self.good, *self.bad) if node in pair for other in pair} - {node}


def ring(nodes: Sequence[str]) -> List[Pair]:
    """Each node with the next, and the last with the first; a single pair of two.

    >>> ring(("n1", "n2", "n3"))
    [('n1', 'n2'), ('n2', 'n3'), ('n3', 'n1')]
    """
    if len(nodes) < A_PAIR:
        return []
    following = (*nodes[1:], nodes[0])
    pairs = list(zip(nodes, following))  # noqa: B905 - zip(strict=) is Python 3.10's
    return pairs if len(nodes) > A_PAIR else pairs[:1]


def further(found: Found, may_pair: Callable[[str, str], bool]) -> Dict[str, Pair]:
    """For each suspect another partner that is to be trusted, where there is one.

    Args:
        found: so far.
        may_pair: whether a job can run on both.
    """
    pairs: Dict[str, Pair] = {}
    for node in found.suspects:
        others: Iterable[str] = sorted(found.trusted - found.partners(node))
        partner: Optional[str] = next((other for other in others if may_pair(node, other)), None)
        if partner:
            pairs[node] = (node, partner)
    return pairs


def culprits(found: Found) -> List[str]:
    """The nodes that fall short with two partners who are to be trusted; for others it cannot be told.

    Args:
        found: after the further measurements.
    """
    guilty = []
    for node in found.suspects:
        witnesses = {other for pair in found.bad if node in pair for other in pair} & found.trusted
        if len(witnesses) >= A_PAIR:
            guilty.append(node)
    return guilty
