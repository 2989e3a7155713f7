"""A job submit script with plain messages, where Slurm would only print that the account is invalid.

job_submit/lua is in the package of Slurm's basic plugins in every supported release. The script refuses no job that
Slurm would accept, and accepts the job if the script itself fails. A script of the site's own follows it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

SCRIPT = "job_submit.lua"
"""The file's name; job_submit/lua reads it from the directory of slurm.conf (job_submit_plugins.shtml)."""

HOLDING = {"1", "associations", "limits", "qos", "safe", "wckeys", "all"}
"""Values of AccountingStorageEnforce with which jobs need an account (slurm.conf(5))."""


def explains_refusals(own: Mapping[str, str | None], *, enforces: bool) -> bool:
    """Whether slurmctld runs slurmfab's script.

    Not if the user sets JobSubmitPlugins, as their own job_submit.lua may be at the same place, nor if their slurm_conf
    allows jobs without an account. `enforces`: whether slurmfab's own slurm.conf makes jobs need accounts.
    """
    return needs_accounts(own, enforces=enforces) and "jobsubmitplugins" not in map(str.lower, own)


def needs_accounts(own: Mapping[str, str | None], *, enforces: bool) -> bool:
    """Whether jobs need an account: slurmfab's slurm.conf makes them, or the site's own does."""
    settings = {key.lower(): value for key, value in own.items()}
    if not enforces:
        return False
    if "accountingstorageenforce" not in settings:
        return True
    enforced = (settings["accountingstorageenforce"] or "").lower().split(",")
    return bool(HOLDING & {word.strip() for word in enforced})


def lua_text(text: str) -> str:
    """A text as a string of Lua, in long brackets that it does not close itself (Lua's manual, 3.1)."""
    marks = next(mark for mark in map("=".__mul__, itertools.count()) if f"]{mark}]" not in text)
    return f"[{marks}[\n{text}\n]{marks}]"
