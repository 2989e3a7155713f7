"""The options of sbatch, as Slurm 22.05 to 26.05 know them (its source, src/common/slurm_opt.c), and of srun."""

from __future__ import annotations

import difflib
from typing import AbstractSet, Dict, FrozenSet, NamedTuple, Tuple


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
