"""The models of what jobs find on their nodes: variables (`job_environment`), and directories on disks (`scratch`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slurmfab.cluster.inventory.values import (
    HostNames,
    Model,
    check_directory,
    number_as_text,
    written_as,
)
from slurmfab.cluster.slurm.versions import SlurmVersion

_SIZE = re.compile(r"(\d{1,7})([GT])")
_UNITS = {"G": 1, "T": 1024}

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_VALUE = re.compile(r"[ -~]{0,1024}")
_SLURMS = ("SLURM_", "SLURMD_", "SLURMFAB")
MOST_VARIABLES = 128  # the most variables of one list
Directory = Annotated[str, AfterValidator(check_directory("/local/private"))]
ALWAYS = ("/tmp", "/dev/shm")  # noqa: S108 - it is these that are made safe
SINCE = SlurmVersion(23, 2)


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


def _directories(value: Any) -> Any:
    """A list of directories; text is split at commas, as in job_container.conf."""
    return tuple(value.split(",")) if isinstance(value, str) else value


class PrivateTmp(Model):
    """Directories that are private to each job, empty at its start and deleted at its end; job_container.conf(5)."""

    base: Annotated[
        Directory, Field(validation_alias="BasePath", description="Directory on the nodes' own disks for them.")
    ] = "/var/lib/slurm/private"
    directories: Annotated[
        tuple[Directory, ...],
        BeforeValidator(_directories, json_schema_input_type=str | list[str]),
        Field(validation_alias="Dirs", min_length=1, description="The directories that are private to each job."),
    ] = ALWAYS
    # as automounters need it
    shared: Annotated[bool, Field(validation_alias="Shared", description="Whether jobs see later mounts.")] = False


PrivateTmpOrNot = Annotated[
    PrivateTmp | None,
    Field(description="Directories that are private to each job; true for /tmp and /dev/shm."),
]


def unknown_to(private: PrivateTmp | None, version: SlurmVersion) -> tuple[str, ...]:
    """A complaint for each setting that a Slurm does not know: Dirs up to 22.05 is fixed (notes of 23.02)."""
    if private is None or version >= SINCE:
        return ()
    wanted = {"Dirs": set(private.directories) != set(ALWAYS), "Shared": private.shared}
    reason = f"Slurm {version} does not know it (known from {SINCE})"
    return tuple(f"private_tmp.{key}: {reason}" for key, is_wanted in wanted.items() if is_wanted)
