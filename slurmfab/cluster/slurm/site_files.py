"""Files in Slurm's directory that slurmfab does not write: which daemons read them, and which slurmctld serves."""

from __future__ import annotations

from collections.abc import Mapping

from slurmfab.cluster.slurm.versions import SlurmVersion

TOPOLOGY = "topology.conf"
OCI = "oci.conf"

SLURMCTLD, SLURMD = "slurmctld", "slurmd"
BOTH = (SLURMCTLD, SLURMD)

READERS: Mapping[str, tuple[str, ...]] = {
    "acct_gather.conf": BOTH,
    "burst_buffer.conf": (SLURMCTLD,),
    "ext_sensors.conf": BOTH,
    "helpers.conf": BOTH,
    "job_container.conf": (SLURMD,),
    "knl_cray.conf": BOTH,
    "knl_generic.conf": BOTH,
    "mpi.conf": BOTH,
    "namespace.yaml": (SLURMD,),
    "resources.yaml": (SLURMCTLD,),
    TOPOLOGY: BOTH,
    "topology.yaml": BOTH,
}
"""By name, the daemons that read a file at their start alone, and so have to read it again when it changes.

All other files are read at each use: plugstack.conf and cli_filter.lua by commands and job steps, oci.conf by job
steps, scripts when they run; slurmctld reads job_submit.lua again when it has changed.
"""

ON_NODES = (
    *("Prolog", "Epilog", "TaskProlog", "TaskEpilog", "HealthCheckProgram", "UnkillableStepProgram", "RebootProgram"),
)
ON_CONTROLLERS = (
    *("PrologSlurmctld", "EpilogSlurmctld", "ResumeProgram", "SuspendProgram", "ResumeFailProgram", "MailProg"),
    *("SlurmctldPrimaryOnProg", "SlurmctldPrimaryOffProg", "ResvProlog", "ResvEpilog"),
)
"""Keys of slurm.conf with programs, by the hosts that run them (slurm.conf(5))."""

_SERVED: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("acct_gather.conf", "job_container.conf", "mpi.conf", OCI, "plugstack.conf", TOPOLOGY), (22, 5)),
    **dict.fromkeys(("cli_filter.lua", "helpers.conf", "scrun.lua"), (24, 5)),
}
"""By name, the version from which slurmctld serves a file to configless nodes."""


def readers(name: str) -> tuple[str, ...]:
    """The daemons that have to read a file again when it changes."""
    return READERS.get(name, ())


def is_for_controllers(name: str) -> bool:
    """Whether slurmctld alone reads a file."""
    return name in ("job_submit.lua", "burst_buffer.lua") or readers(name) == (SLURMCTLD,)


def is_served(name: str, version: SlurmVersion) -> bool:
    """Whether slurmctld serves a file to configless nodes, which then need none of their own."""
    return name in _SERVED and (version.major, version.minor) >= _SERVED[name]
