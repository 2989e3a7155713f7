"""Which node causes a slow pair: neighbours in a ring are measured first, then other partners."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

Pair = Tuple[str, str]

PAIR_SIZE = 2


class PairResults(NamedTuple):
    """The pairs measured so far."""

    good: Tuple[Pair, ...]  # pairs that passed
    bad: Tuple[Pair, ...]  # pairs that fall short

    @property
    def trusted(self) -> Set[str]:
        """Nodes that passed with some partner."""
        return {node for pair in self.good for node in pair}

    @property
    def suspects(self) -> List[str]:
        """Nodes of bad pairs that passed with no partner."""
        return sorted({node for pair in self.bad for node in pair} - self.trusted)

    def partners(self, node: str) -> Set[str]:
        """The nodes with which a node was measured."""
        return {other for pair in (*self.good, *self.bad) if node in pair for other in pair} - {node}


def ring(nodes: Sequence[str]) -> List[Pair]:
    """Each node with the next, and the last with the first; a single pair for two nodes.

    >>> ring(("n1", "n2", "n3"))
    [('n1', 'n2'), ('n2', 'n3'), ('n3', 'n1')]
    """
    if len(nodes) < PAIR_SIZE:
        return []
    following = (*nodes[1:], nodes[0])
    pairs = list(zip(nodes, following))  # noqa: B905 - zip(strict=) is Python 3.10's
    return pairs if len(nodes) > PAIR_SIZE else pairs[:1]


def further_pairs(found: PairResults, may_pair: Callable[[str, str], bool]) -> Dict[str, Pair]:
    """For each suspect a pair with another trusted node, if one may pair with it (a job can run on both)."""
    pairs: Dict[str, Pair] = {}
    for node in found.suspects:
        others: Iterable[str] = sorted(found.trusted - found.partners(node))
        partner: Optional[str] = next((other for other in others if may_pair(node, other)), None)
        if partner:
            pairs[node] = (node, partner)
    return pairs


def culprits(found: PairResults) -> List[str]:
    """The nodes that fall short with two trusted partners; for other suspects the cause is unknown."""
    guilty = []
    for node in found.suspects:
        witnesses = {other for pair in found.bad if node in pair for other in pair} & found.trusted
        if len(witnesses) >= PAIR_SIZE:
            guilty.append(node)
    return guilty
