"""slurmfab turns bare machines into a working Slurm cluster over SSH, and keeps it working.

`hosts`, `cluster` and `namespace` are for a site's own tasks (docs/own-tasks.md), and keep their meaning until the next
major version (https://semver.org). Everything else may change with any version.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurmfab.connections import cluster as cluster
    from slurmfab.connections import hosts as hosts
    from slurmfab.fabfile import namespace as namespace

__all__ = ["cluster", "hosts", "namespace"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """What a site's own tasks use, loaded when it is: Fabric and all tasks are for no program that only needs hosts."""
    from importlib import import_module

    if name == "namespace":
        return import_module("slurmfab.fabfile").namespace
    if name in __all__:
        return import_module(f"slurmfab.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
