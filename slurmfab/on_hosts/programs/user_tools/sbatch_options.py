"""The options of sbatch, as Slurm 22.05 to 26.05 know them (its source, src/common/slurm_opt.c), and of srun."""

from __future__ import annotations

import difflib
import re
from typing import AbstractSet, Any, Dict, FrozenSet, NamedTuple, Tuple

from slurmfab.on_hosts.programs.user_tools.findings import clean


def named(text: str) -> FrozenSet[str]:
    """The names in a text."""
    return frozenset(text.split())


def paired(text: str) -> Dict[str, str]:
    """The pairs in a text, each written as KEY=VALUE."""
    return {key: value for key, _, value in (pair.partition("=") for pair in text.split())}


WITH_VALUE = named("""
    account acctg-freq array autocomplete batch bb bbf begin chdir cluster cluster-constraint clusters comment
    constraint container container-id container-type context core-spec cores-per-socket cpu-freq cpus-per-gpu
    cpus-per-task deadline delay-boot dependency distribution error exclude export export-file extra
    extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags
    hint input job-name kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu
    mem-per-gpu mem-update mincpus network nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu
    ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode output partition power prefer priority profile
    qos reservation resources segment signal sockets-per-node switches tasks-per-node thread-spec
    threads-per-core time time-min tmp tres-bind tres-per-task uid wait-all-nodes wckey wrap
""")
"""Options that need a value."""

WITHOUT_VALUE = named("""
    consolidate-segments contiguous external get-user-env help hold ignore-pbs no-requeue overcommit
    oversubscribe parsable quiet reboot spread-job spread-segments stepmgr test-only usage use-min-nodes
    verbose version wait
""")
"""Options that have none."""

MAY_HAVE_VALUE = named("""
    exclusive nice no-kill oom-kill-step propagate requeue resv-ports
""")
"""Options that may have one, after an equals sign."""

LETTERS = paired("""
    A=account a=array b=begin D=chdir M=clusters C=constraint S=core-spec c=cpus-per-task d=dependency
    m=distribution e=error x=exclude B=extra-node-info G=gpus h=help H=hold i=input J=job-name L=licenses
    k=no-kill F=nodefile w=nodelist N=nodes n=ntasks o=output O=overcommit s=oversubscribe p=partition q=qos
    Q=quiet t=time v=verbose V=version W=wait
""")
"""Options by their letters."""

SINCE = paired("""
    autocomplete=23.02 consolidate-segments=25.11 container-id=23.02 container-type=26.05 external=25.05
    extra=23.02 mem-update=26.05 oom-kill-step=24.11 resources=25.11 resv-ports=24.05 segment=24.05
    spread-segments=25.11 stepmgr=24.05 tres-bind=23.11 tres-per-task=23.02
""")
"""Options that Slurm 22.05 does not know, and the release that brought them."""

OF_SRUN = named("""
    accel-bind argv async bcast bcast-exclude bell compress cpu-bind cpu_bind debugger-test disable-status
    environment epilog exact external-launcher het-group ignore-signals immediate interactive jobid
    kill-command kill-on-bad-exit label mpi msg-timeout multi-prog no-allocate no-bell no-shell overlap
    pack-group preserve-env prolog pty quit-on-interrupt relative send-libs slurmd-debug task-epilog
    task-prolog threads treewidth unbuffered wait wait-for-children whole x11
""")
"""Options of srun that sbatch does not have."""

SRUN_WITH_VALUE = named("""
    accel-bind argv bcast-exclude cpu-bind cpu_bind environment epilog het-group ignore-signals jobid mpi
    msg-timeout pack-group prolog relative slurmd-debug task-epilog task-prolog threads treewidth wait
""")
"""Of these, those that need a value."""

ALL = WITH_VALUE | WITHOUT_VALUE | MAY_HAVE_VALUE
CUTOFF = 0.65  # how alike two names have to be for one to be a misspelling of the other (difflib)


class Known(NamedTuple):
    """What a name means."""

    name: str  # the whole name of the option; empty if there is no such option
    candidates: Tuple[str, ...] = ()  # the options that an abbreviation fits, if there are several


def resolve(name: str, more: AbstractSet[str] = frozenset()) -> Known:
    """The option of a long name without dashes, which may be abbreviated (getopt_long(3)); `more` are plugins'."""
    known = ALL | more
    if name in known:
        return Known(name)
    fitting = tuple(sorted(one for one in known if one.startswith(name))) if name else ()
    return Known(fitting[0]) if len(fitting) == 1 else Known("", fitting)


def nearest(name: str, known: AbstractSet[str], cutoff: float = CUTOFF) -> str:
    """The name that is most like this one; empty if none is like it.

    >>> nearest("gup", {"batch", "gpu"})
    'gpu'

    Args:
        name: as it was written.
        known: the names that there are.
        cutoff: how alike they have to be.
    """
    by_case = {one.lower(): one for one in sorted(known)}
    found = difflib.get_close_matches(name.lower(), sorted(by_case), 1, cutoff)
    return by_case[found[0]] if found else ""


LONGEST = 600
NO_ANSWER = 124
_TAKEN = re.compile(r"Job (\d+) to start at (\S+)(?: [^\n]*)? using (\d+) processors on nodes (\S+) in partition (\S+)")
MEANINGS = (
    ("Invalid partition name", "there is no such partition"),
    ("group not permitted", "the partition is for other groups than yours"),
    ("Requested partition configuration not available", "the partition takes no jobs now"),
    (
        "Requested node configuration is not available",
        "no node has all of that (CPUs, memory, GPUs, features), or those that do are down (sstatus)",
    ),
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
