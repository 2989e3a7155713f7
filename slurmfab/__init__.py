"""slurmfab turns bare machines into a working Slurm cluster over SSH, and keeps it working."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurmfab.fabfile import namespace as namespace

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """What a fabfile imports, loaded only there: `namespace` has the tasks of slurmfab."""
    if name == "namespace":
        from slurmfab.fabfile import namespace

        return namespace
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
