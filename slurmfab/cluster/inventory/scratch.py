"""The model of the directories that jobs get on their nodes' own disks (key `scratch`)."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slurmfab.cluster.inventory.job_environment import check_variable
from slurmfab.cluster.inventory.values import HostNames, Model, check_directory, written_as

_SIZE = re.compile(r"(\d{1,7})([GT])")
_UNITS = {"G": 1, "T": 1024}


@written_as(_SIZE)
def _gigabytes(value: Any) -> Any:
    """A size in gigabytes, which is what jobs count in: powers of 1024, as everywhere in Slurm."""
    if not isinstance(value, str):
        raise ValueError("it must be a size such as 400G or 2T")
    found = _SIZE.fullmatch(value)
    if not found:
        raise ValueError(f'"{value}" is not a size in whole gigabytes or terabytes, such as 400G or 2T')
    return int(found[1]) * _UNITS[found[2]]


Size = Annotated[int, BeforeValidator(_gigabytes, json_schema_input_type=str)]


class ScratchOfGroup(Model):
    """The size on some compute nodes."""

    hosts: Annotated[HostNames, Field(min_length=1, description="Hostlist of compute nodes, such as cn[01-04].")]
    # gigabytes
    size: Annotated[Size, Field(description="What their jobs share, such as 400G; 0G for no directories there.")]

    @cached_property
    def members(self) -> frozenset[str]:
        """The nodes, to look a name up among very many."""
        return frozenset(self.hosts)


class Scratch(Model):
    """A directory for each job on each of its nodes, removed after it, and counted as the Gres `scratch`."""

    path: Annotated[
        str,
        AfterValidator(check_directory("/scratch")),
        Field(description="Directory on the nodes' own disks that has those of jobs."),
    ] = "/scratch"
    # gigabytes; 0 for none but those of groups
    size: Annotated[
        Annotated[Size, Field(ge=1)] | None, Field(description="What the jobs of a node share, such as 400G.")
    ] = None
    # of two for a node, the later one
    groups: Annotated[tuple[ScratchOfGroup, ...], Field(description="Sizes of groups of compute nodes.")] = ()
    variable: Annotated[
        str, AfterValidator(check_variable), Field(description="Variable that tells a job its directory.")
    ] = "SCRATCH"
    tmpdir: Annotated[bool, Field(description="Whether TMPDIR is that directory, too.")] = False

    @model_validator(mode="after")
    def _has_a_size(self) -> Scratch:
        if self.size is None and not any(group.size for group in self.groups):
            raise ValueError("it needs a size, such as 400G, or groups with sizes")
        return self

    def of_node(self, node: str) -> int:
        """The gigabytes that the jobs of a compute node share; 0 for a node without scratch directories."""
        return next((group.size for group in reversed(self.groups) if node in group.members), self.size or 0)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables that jobs get."""
        return (self.variable, *(("TMPDIR",) if self.tmpdir and self.variable != "TMPDIR" else ()))
