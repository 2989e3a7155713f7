"""The model of containers in jobs (key `containers`): the ways in which users run them, each with its options."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slurmfab.cluster.inventory.accounting import Login
from slurmfab.cluster.inventory.values import Model, Schedule, check_directory, check_once, written_as

Way = Literal["podman", "oci", "apptainer", "enroot", "docker"]
"""A way of running containers. A new one needs a word here, a field of the same name for its options in `Containers`,
and a module of its own in WAYS of `core/plan/phases/containers.py`."""


def _check_ways(ways: tuple[Way, ...]) -> tuple[Way, ...]:
    if not ways:
        raise ValueError("it is empty; name at least one way, such as podman, or remove the key")
    return check_once(ways)


def _containers_of(value: Any) -> Any:
    """Read `containers: [podman]` as `containers: {use: [podman]}`."""
    return {"use": value} if isinstance(value, list) else value


_DAYS = re.compile(r"([1-9]\d{0,3})d")
_PERCENT = re.compile(r"([1-9]\d)%")


@written_as(_DAYS)
def _days(value: Any) -> Any:
    """A number of days."""
    found = _DAYS.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise ValueError(f'"{value}" is not a number of days, such as 30d')
    return int(found[1])


@written_as(_PERCENT)
def _percent(value: Any) -> Any:
    """A percentage of a disk."""
    found = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise ValueError(f'"{value}" is not a percentage from 10% to 99%, such as 80%')
    return int(found[1])


def _prune_of(value: Any) -> Any:
    """Read `prune: false` as none."""
    return None if value is False else value


class Prune(Model):
    """The removal of images, which are copies of what a registry has."""

    # days
    unused_for: Annotated[
        int,
        BeforeValidator(_days, json_schema_input_type=str),
        Field(
            description="Time after which an image goes that nobody has used, such as 30d.",
            json_schema_extra={"default": "30d"},
        ),
    ] = 30
    # percent; `None` for no such limit
    above: Annotated[
        int | None,
        BeforeValidator(_percent, json_schema_input_type=str),
        Field(description="How full the disk may be before the longest unused images go, such as 80%."),
    ] = None
    when: Annotated[Schedule, Field(description='How often: hourly, daily, weekly, "03:30" or "Sun 03:30".')] = "daily"


class Podman(Model):
    """Podman without root."""

    storage: Annotated[
        str,
        AfterValidator(check_directory("/var/lib/podman-users")),
        Field(description="Directory on hosts' own disks for the images of users."),
    ] = "/var/lib/podman-users"
    prune: Annotated[
        Prune | None,
        BeforeValidator(_prune_of, json_schema_input_type=Prune | bool),
        Field(description="Which images are removed, and when; false for none."),
    ] = Prune()


class Apptainer(Model):
    """Apptainer without setuid."""

    storage: Annotated[
        str,
        AfterValidator(check_directory("/var/lib/apptainer-users")),
        Field(description="Directory on hosts' own disks for the caches of users."),
    ] = "/var/lib/apptainer-users"


Hook = Literal["slurm-pmi", "slurm-pytorch"]


class Enroot(Model):
    """enroot, and pyxis, by which srun starts its containers."""

    storage: Annotated[
        str,
        AfterValidator(check_directory("/var/lib/enroot-users")),
        Field(description="Directory on hosts' own disks for the containers of users."),
    ] = "/var/lib/enroot-users"
    hooks: Annotated[tuple[Hook, ...], Field(description="Hooks of enroot's: slurm-pmi (MPI) and slurm-pytorch.")] = (
        "slurm-pmi",
        "slurm-pytorch",
    )
    mount_home: Annotated[bool, Field(description="Whether containers have the user's home by default.")] = False


class Docker(Model):
    """Docker, whose users are as good as root."""

    users: Annotated[
        tuple[Login, ...], Field(min_length=1, description="Who may use it, and so become root on the hosts.")
    ] = ()


class Containers(Model):
    """The ways in which users run containers, on all hosts on which people or jobs work."""

    use: Annotated[tuple[Way, ...], AfterValidator(_check_ways), Field(description="The ways, such as [podman].")]
    podman: Annotated[Podman, Field(description="Options of Podman.")] = Podman()
    apptainer: Annotated[Apptainer, Field(description="Options of Apptainer.")] = Apptainer()
    enroot: Annotated[Enroot, Field(description="Options of enroot.")] = Enroot()
    docker: Annotated[Docker, Field(description="Options of Docker.")] = Docker()

    @model_validator(mode="after")
    def _has_options_of_used_ways_alone(self) -> Containers:
        """Options without effect would be taken for granted."""
        idle = sorted(self.model_fields_set - {"use"} - set(self.use))
        if idle:
            raise ValueError(
                f"it has options of {idle[0]}, which is not in its list `use`; add it there or remove them"
            )
        return self


ContainersOrNot = Annotated[
    Containers | None,
    BeforeValidator(_containers_of, json_schema_input_type=list[Way] | Containers),
    Field(description="The ways in which users run containers, such as [podman], or a mapping."),
]
