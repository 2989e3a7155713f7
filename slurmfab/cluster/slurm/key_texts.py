"""What Slurm's own keys mean, in a line each with an example, for editors and for the reference of the cluster file.

`tables/key_texts.ini` has the keys of node and partition lines and of gres.conf, and the limits of sacctmgr; keys of
the other files are named with their manual page alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from slurmfab.cluster.slurm.tables import read_table


class KeyText(NamedTuple):
    """What a key means, and a value that it may have."""

    meaning: str
    example: str


def _text(value: str) -> KeyText:
    """The text of a key, from `example | meaning`."""
    example, _, meaning = value.partition("|")
    return KeyText(meaning.strip(), example.strip())


_TEXTS: Mapping[str, Mapping[str, KeyText]] = {
    title: {key: _text(value) for key, value in keys.items()} for title, keys in read_table("key_texts.ini").items()
}
NODE, PARTITION, LIMITS = _TEXTS["node lines"], _TEXTS["partition lines"], _TEXTS["limits"]
