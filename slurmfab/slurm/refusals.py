"""Words for people whom Slurm would only tell that their account is invalid: a script that slurmctld runs at each job.

job_submit/lua is in the package of Slurm's basic plugins in every supported release. The script refuses nobody whom
Slurm would not refuse anyway, and a mistake in it lets the job through.
"""

from __future__ import annotations

from collections.abc import Mapping

SCRIPT = "job_submit.lua"
"""The file's name; job_submit/lua looks for it beside slurm.conf (job_submit_plugins.shtml)."""

_HOLDING = {"1", "associations", "limits", "qos", "safe", "wckeys", "all"}
"""Values of AccountingStorageEnforce with which nobody runs jobs without an account (slurm.conf(5))."""


def explains_refusals(own: Mapping[str, str | None], *, enforces: bool) -> bool:
    """Whether slurmctld shall run our script.

    Not where the user has plugins of their own for jobs, whose job_submit.lua may lie in the same place, nor where
    their slurm_conf lets everybody run jobs.

    Args:
        own: the user's keys of slurm.conf.
        enforces: whether slurmfab's own slurm.conf holds jobs to accounts.
    """
    said = {key.lower(): value for key, value in own.items()}
    if not enforces or "jobsubmitplugins" in said:
        return False
    if "accountingstorageenforce" not in said:
        return True
    words = (said["accountingstorageenforce"] or "").lower().split(",")
    return bool(_HOLDING & {word.strip() for word in words})
