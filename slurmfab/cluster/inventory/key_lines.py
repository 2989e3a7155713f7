"""Where a key is in the cluster file, for mistakes that only show when hosts have said which Slurm they have."""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.reading import read

_NAMED = re.compile(r"(?P<section>[a-z_]+)\.(?P<key>\w+): ")
"""How a mistake begins that is about a key, such as `slurm_conf.SlurmdTimeot: …`."""


def with_lines(inventory: Inventory, mistakes: Iterable[str]) -> tuple[str, ...]:
    """The same mistakes, each with the file and the line of its key.

    Args:
        inventory: the cluster file as it was read; without its text, the mistakes stay as they are.
        mistakes: texts that begin with section and key; others stay as they are.
    """
    if inventory.files is None or inventory.files.cluster is None:
        return tuple(mistakes)
    document = read(inventory.files.cluster.decode(), str(inventory.path))

    def placed(mistake: str) -> str:
        """One mistake with its line."""
        named = _NAMED.match(mistake)
        if not named:
            return mistake
        section, key = named["section"], named["key"].lower()
        places = ((place, line) for place, line in document.lines.items() if place[:1] == (section,))
        lines = [line for place, line in places if str(place[-1]).lower() == key]
        return f"{inventory.path}:{min(lines)}: {mistake}" if lines else mistake

    return tuple(map(placed, mistakes))
