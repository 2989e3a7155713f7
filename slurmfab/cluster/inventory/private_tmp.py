"""The model of directories that are private to each job, such as /tmp (key `private_tmp`)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.cluster.inventory.values import Model, check_directory, defaults_if_true
from slurmfab.cluster.slurm.versions import SlurmVersion


def _directories(value: Any) -> Any:
    """A list of directories; text is split at commas, as in job_container.conf."""
    return tuple(value.split(",")) if isinstance(value, str) else value


Directory = Annotated[str, AfterValidator(check_directory("/local/private"))]
ALWAYS = ("/tmp", "/dev/shm")  # noqa: S108 - it is these that are made safe
SINCE = SlurmVersion(23, 2)


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
    BeforeValidator(defaults_if_true, json_schema_input_type=PrivateTmp | bool),
    Field(description="Directories that are private to each job; true for /tmp and /dev/shm."),
]
"""The key `private_tmp`."""


def unknown_to(private: PrivateTmp | None, version: SlurmVersion) -> tuple[str, ...]:
    """A complaint for each setting that a Slurm does not know: Dirs up to 22.05 is fixed (notes of 23.02)."""
    if private is None or version >= SINCE:
        return ()
    wanted = {"Dirs": set(private.directories) != set(ALWAYS), "Shared": private.shared}
    reason = f"Slurm {version} does not know it (known from {SINCE})"
    return tuple(f"private_tmp.{key}: {reason}" for key, is_wanted in wanted.items() if is_wanted)
