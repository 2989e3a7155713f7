"""The model of directories that each job has for itself, such as /tmp."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.clusterfile import values
from slurmfab.clusterfile.model import Model
from slurmfab.slurm.versions import SlurmVersion

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.clusterfile.slurm_settings import Place

_OWNED = ("jobcontainertype", "namespacetype")


def private_tmp_of(value: Any) -> Any:
    """`private_tmp: true` takes all defaults, and `false` says the same as no such key."""
    return ({} if value else None) if isinstance(value, bool) else value


def _directories(value: Any) -> Any:
    """The directories of a list, or of a text with commas as in job_container.conf."""
    return tuple(value.split(",")) if isinstance(value, str) else value


Directory = Annotated[str, AfterValidator(values.directory("/local/private"))]
ALWAYS = ("/tmp", "/dev/shm")  # noqa: S108 - it is these that are made safe
SINCE = SlurmVersion(23, 2)


class PrivateTmp(Model):
    """Directories that each job has for itself, empty when it begins and gone when it ends; job_container.conf(5).

    Args:
        base: where they lie on the compute nodes' own disks.
        directories: which they are.
        shared: whether what is mounted on the node while a job runs is seen by the job, as automounters need it.
    """

    base: Annotated[
        Directory, Field(validation_alias="BasePath", description="Where the directories lie on the nodes' own disks.")
    ] = "/var/lib/slurm/private"
    directories: Annotated[
        tuple[Directory, ...],
        BeforeValidator(_directories, json_schema_input_type=str | list[str]),
        Field(validation_alias="Dirs", min_length=1, description="Which directories each job has for itself."),
    ] = ALWAYS
    shared: Annotated[
        bool, Field(validation_alias="Shared", description="Whether jobs see what is mounted while they run.")
    ] = False


PrivateTmpOrNot = Annotated[
    PrivateTmp | None,
    BeforeValidator(private_tmp_of, json_schema_input_type=PrivateTmp | bool),
    Field(description="Directories that each job has for itself; true for /tmp and /dev/shm."),
]
"""The key `private_tmp`."""


def base_lies_elsewhere(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Jobs could not see a base directory within what is hidden from them."""
    private = cluster.private_tmp
    for directory in private.directories if private else ():
        if private and f"{private.base}/".startswith(f"{directory}/"):
            yield ("private_tmp", "BasePath"), f'"{private.base}" lies in {directory}, which each job has for itself'


def nothing_else_says_so(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Slurm ends where directories are private and jobs are not contained (slurm.conf(5), PrologFlags)."""
    if cluster.private_tmp is None:
        return
    for key, value in cluster.slurm_conf.items():
        if key.lower() in _OWNED:
            yield ("slurm_conf", key), f"slurmfab writes {key} itself: the key private_tmp at the top says this"
        flags = {flag.strip().lower() for flag in (value or "").split(",")}
        if key.lower() == "prologflags" and not {"contain", "x11"} & flags:
            yield ("slurm_conf", key), "private_tmp needs Contain among the flags, or slurmd does not start"


def unknown_to(private: PrivateTmp | None, version: SlurmVersion) -> tuple[str, ...]:
    """What an installed Slurm cannot be told of it: up to 22.05 it is always /tmp and /dev/shm (its 23.02 notes)."""
    if private is None or version >= SINCE:
        return ()
    wanted = {"Dirs": set(private.directories) != set(ALWAYS), "Shared": private.shared}
    words = f"Slurm {version} does not know it (known from {SINCE})"
    return tuple(f"private_tmp.{key}: {words}" for key, is_wanted in wanted.items() if is_wanted)


RULES: tuple[Callable[[Cluster], Iterator[tuple[Place, str]]], ...] = (base_lies_elsewhere, nothing_else_says_so)
