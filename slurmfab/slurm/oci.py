"""The text of oci.conf: the programs that slurmstepd runs for containers (oci.conf(5))."""

from __future__ import annotations

from collections.abc import Iterable

from slurmfab.paths import OCI_PROGRAM
from slurmfab.slurm.render import fill
from slurmfab.slurm.versions import SlurmVersion

PYTHON = "/usr/bin/python3 -E -S -s -B"
"""Without what a user's environment or home could add."""


def oci_conf(version: SlurmVersion, variables: Iterable[str] = ()) -> str:
    """The text of oci.conf.

    Args:
        version: Slurm's.
        variables: variables beside TMPDIR that name a directory of a job, which its containers see as well.
    """
    names = ",".join(dict.fromkeys(("TMPDIR", *variables)))
    known = (version.major, version.minor)
    return fill("oci.conf", {"program": f"{PYTHON} {OCI_PROGRAM}/run.py", "variables": names, "version": known})
