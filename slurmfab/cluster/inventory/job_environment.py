"""Variables that jobs find in their environment (key `job_environment`), on all compute nodes and on groups of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.cluster.inventory.values import HostNames, Model, number_as_text, written_as

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_VALUE = re.compile(r"[ -~]{0,1024}")
_SLURMS = ("SLURM_", "SLURMD_", "SLURMFAB")
MOST_VARIABLES = 128  # the most variables of one list


@written_as(_NAME)
def check_variable(name: str) -> str:
    """Return the name of a variable that slurmfab may set. Raises ValueError if it is not one."""
    if not _NAME.fullmatch(name):
        raise ValueError(f'"{name[:128]}" is not the name of a variable: use letters, digits and _')
    if name.startswith(_SLURMS):
        raise ValueError(f'"{name}": Slurm sets the variables that begin like this itself')
    return name


def _check_value(value: str) -> str:
    if not _VALUE.fullmatch(value):
        raise ValueError("a variable's value has at most 1024 characters of ASCII, on one line")
    return value


def _check_number(variables: dict[str, str]) -> dict[str, str]:
    if len(variables) > MOST_VARIABLES:
        raise ValueError(f"there are {len(variables)} variables; at most {MOST_VARIABLES} are allowed")
    return variables


Variables = Annotated[
    dict[
        Annotated[str, AfterValidator(check_variable)],
        Annotated[str, BeforeValidator(number_as_text, json_schema_input_type=str | int), AfterValidator(_check_value)],
    ],
    AfterValidator(_check_number),
]


class VariablesOfGroup(Model):
    """Variables of jobs on some compute nodes."""

    hosts: Annotated[HostNames, Field(description="Hostlist of compute nodes, such as cn[01-04].")]
    variables: Annotated[Variables, Field(description="Value by name of the variable.")]

    @cached_property
    def members(self) -> frozenset[str]:
        """The nodes, to look a name up among very many."""
        return frozenset(self.hosts)


class JobEnvironment(Model):
    """Variables that jobs find in their environment, unless they have set them themselves."""

    all: Annotated[Variables, Field(description="Value by name, on all compute nodes.")] = {}
    # a later group's value replaces an earlier one's
    groups: Annotated[tuple[VariablesOfGroup, ...], Field(description="Variables on groups of compute nodes.")] = ()

    def of_node(self, node: str) -> Mapping[str, str]:
        """The variables on a compute node, sorted by name."""
        found = dict(self.all)
        for group in self.groups:
            found.update(group.variables if node in group.members else {})
        return dict(sorted(found.items()))
