"""What the schema of a cluster file was made from: it says so itself, and so whether it is out of date."""

from __future__ import annotations

from slurmfab import __version__
from slurmfab.cluster.slurm.versions import SlurmVersion


def made_from(version: SlurmVersion | None) -> str:
    """The versions of slurmfab and of the schema's Slurm, as a sentence; `None` is all supported versions."""
    return f"Made by slurmfab {__version__} for {f'Slurm {version}' if version else 'all versions of Slurm'}."
