"""What `sbatch --test-only` says about a script, and what that means in plain words."""

from __future__ import annotations

import re
from typing import Any, Dict, NamedTuple

from slurmfab.on_hosts.programs.user_tools.findings import clean

LONGEST = 600
NO_ANSWER = 124
_TAKEN = re.compile(r"Job (\d+) to start at (\S+) using (\d+) processors on nodes (\S+) in partition (\S+)")
MEANINGS = (
    ("Invalid partition name", "there is no such partition"),
    ("group not permitted", "the partition is for other groups than yours"),
    ("Requested partition configuration not available", "the partition takes no jobs now"),
    ("Requested node configuration is not available", "no node has all of that: CPUs, memory, GPUs and features"),
    ("More processors requested than permitted", "the partition has fewer CPUs or nodes than that"),
    ("Node count specification invalid", "the partition gives fewer nodes, or more, than that"),
    ("Memory required by task is not available", "no node has so much memory for each CPU"),
    ("Invalid account or account/partition", "you may not use that account in that partition"),
    ("Invalid qos", "there is no such QOS, or you may not use it"),
    ("time limit is invalid", "the time limit is above that of the partition"),
    ("Job violates accounting/QOS policy", "it is above a limit of your account or QOS"),
    ("Invalid feature", "no node has such a feature"),
    ("Invalid node name", "there is no such node"),
    ("Invalid generic resource", "there is no such resource (--gres)"),
    ("Invalid license", "there is no such licence, or not so many"),
    ("Invalid job array", "the indices of the array are wrong, or too high"),
    ("Job dependency problem", "the job that it is to wait for is not there"),
    ("reservation is invalid", "there is no such reservation, or it is not yours"),
    ("Unable to contact slurm controller", "Slurm does not answer; try again in a few minutes"),
    ("Socket timed out", "Slurm does not answer; try again in a few minutes"),
    ("DOS line breaks", "lines end as on Windows"),
    ("This does not look like a batch script", "the first line is no #! with an interpreter"),
    ("Batch script is empty", "it is empty"),
    ("NULL character", "it holds a NUL byte"),
    ("Invalid directive found", "a directive has a word that is no option"),
    ("unrecognized option", "sbatch has no such option"),
    ("invalid option", "sbatch has no such option"),
    ("mutually exclusive", "two of its options exclude each other"),
    ("Access/permission denied", "you may not do that"),
)
"""Slurm's words, and what they mean."""


class Verdict(NamedTuple):
    """What sbatch says."""

    accepted: bool  # whether it takes the script
    said: str  # its own words
    text: str  # the same in plain words

    @property
    def data(self) -> Dict[str, Any]:
        """For JSON."""
        return {"accepted": self.accepted, "said": self.said, "text": self.text}


def verdict(code: int, shown: str) -> Verdict:
    """What sbatch means."""
    lines = [re.sub(r"^sbatch: (?:error: |fatal: )?|^allocation failure: ", "", line) for line in shown.split("\n")]
    said = clean("; ".join(line.strip() for line in lines if line.strip()), LONGEST)
    taken = _TAKEN.search(shown)
    if code == 0 and taken:
        words = "takes it: submitted now, it would start at %s on %s in partition %s"
        return Verdict(True, said, words % (taken[2].replace("T", " "), taken[4], taken[5]))
    if code == 0:
        return Verdict(True, said, "takes it")
    if code == NO_ANSWER:
        return Verdict(False, said, "did not answer")
    meaning = next((meaning for words, meaning in MEANINGS if words in shown), "")
    return Verdict(False, said, "refuses it: %s" % (meaning + ' ("%s")' % said if meaning else said or "no reason"))
