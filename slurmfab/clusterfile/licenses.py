"""Licences: software of which only so many jobs may use at a time, counted by Slurm for the whole cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.clusterfile.slurm_settings import Place

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_MOST = 2**31 - 1


def _check_name(name: str) -> str:
    """A name of a licence; `@` is for those that slurmdbd shares between clusters (slurm.conf(5), Licenses)."""
    if not _NAME.fullmatch(name):
        raise ValueError(f'"{name}" is no name for a licence: letters, digits, _, - and .')
    return name


LicenseName = Annotated[str, AfterValidator(_check_name)]
Count = Annotated[int, Field(ge=1, le=_MOST)]
Licenses = dict[LicenseName, Count]
"""How many there are, by name."""


def written(licenses: Mapping[str, int]) -> str:
    """The same as slurm.conf's Licenses has it.

    >>> written({"matlab": 10, "comsol": 2})
    'matlab:10,comsol:2'
    """
    return ",".join(f"{name}:{count}" for name, count in licenses.items())


def licenses_are_said_once(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """What slurm_conf says replaces slurmfab's line, so that one of two lists would be lost."""
    for key in cluster.slurm_conf:
        if cluster.licenses and key.lower() == "licenses":
            yield ("slurm_conf", key), "the key licenses at the top says this already; put all licences there"


RULES: tuple[Callable[[Cluster], Iterator[tuple[Place, str]]], ...] = (licenses_are_said_once,)
