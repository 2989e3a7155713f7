"""Every key that Slurm 22.05 to 26.05 knows, and since when (`tables/keys.ini`): an unknown one is fatal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurmfab.cluster.slurm.tables import read_table


@dataclass(frozen=True)
class Key:
    """A key of one of Slurm's files and the versions that know it, as (year, month)."""

    name: str  # its spelling in the manual; Slurm ignores case
    since: tuple[int, int] = (0, 0)  # the first version that knows it; it is fatal in earlier ones
    until: tuple[int, int] = (99, 0)  # the first version that no longer knows it; it is fatal from then on
    ignored_from: tuple[int, int] = (99, 0)  # the first version that ignores it, with a message in its log
    kind: str = ""  # of its value (`kinds`); empty for any text


def _key(name: str, told: str) -> Key:
    """A key, from its name and words such as `seconds16 since 23.02 until 24.05`."""
    words = told.split()
    kind = words.pop(0) if len(words) % 2 else ""
    known = {word: (int(version[:2]), int(version[3:])) for word, version in zip(words[::2], words[1::2], strict=True)}
    return Key(name, known.get("since", (0, 0)), known.get("until", (99, 0)), known.get("ignored", (99, 0)), kind)


_KEYS: Mapping[str, Mapping[str, Key]] = {
    title: {name.lower(): _key(name, versions) for name, versions in keys.items()}
    for title, keys in read_table("keys.ini").items()
}
"""By file or kind of line, the keys by their lower-case names, as Slurm compares them."""

SLURM_CONF, CGROUP_CONF, SLURMDBD_CONF = (_KEYS[f"{name}.conf"] for name in ("slurm", "cgroup", "slurmdbd"))
NODE, PARTITION = _KEYS["node lines"], _KEYS["partition lines"]
