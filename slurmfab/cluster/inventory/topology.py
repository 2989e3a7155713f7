"""The switches of a cluster's network (key `topology`), from which slurmfab writes topology.conf."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from slurmfab.cluster.inventory.values import HostNames, Model, written_as

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


@written_as(_NAME)
def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f'"{name}" is not a valid name of a switch: use letters, digits, _ . and -')
    return name


class Switch(Model):
    """A switch, with the nodes or the switches that are connected to it (topology.conf(5))."""

    name: Annotated[
        str, AfterValidator(_check_name), Field(validation_alias="SwitchName", description="Name of the switch.")
    ]
    # empty for a switch of switches
    nodes: Annotated[HostNames, Field(validation_alias="Nodes", description="Hostlist of its compute nodes.")] = ()
    # empty for a switch of nodes
    switches: Annotated[HostNames, Field(validation_alias="Switches", description="The switches connected to it.")] = ()
    # LinkSpeed, which Slurm stores without using it
    speed: Annotated[
        str, Field(pattern=r"^[0-9]{0,9}\z", validation_alias="LinkSpeed", description="Its speed, for people.")
    ] = ""
