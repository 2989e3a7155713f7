"""What another installation of Slurm has left on a host: programs and libraries of no package, and units.

`make install` puts its programs where root's and users' PATH comes first (/usr/local), and a unit in
/etc/systemd/system counts in place of the packages' unit of that name (systemd.unit(5)). Paths are told as they are
found, never guessed.
"""

from __future__ import annotations

import os
import re
from typing import Iterable, List

from slurmfab.on_hosts.agent.core.reading import names, read_text

PROGRAMS = """munge munged remunge sackd sacct sacctmgr salloc sattach sbatch sbcast scancel scontrol scrontab scrun
sdiag sinfo slurmctld slurmd slurmdbd slurmrestd slurmstepd sprio squeue sreport srun sshare sstat strigger sview
unmunge"""
DAEMONS = ("munged", "slurmctld", "slurmd", "slurmdbd", "slurmstepd")
PLACES = ("/usr/local/sbin", "/usr/local/bin")
LIBRARIES = ("/usr/local/lib", "/usr/local/lib64")
LIBRARY = re.compile(r"slurm|lib(slurm|slurmdb|slurmfull|munge|pmi2?)\.(so|a|la)\b.*")
UNITS = ("/etc/systemd/system", "/usr/local/lib/systemd/system")
UNIT = re.compile(r"(munged?|sackd|slurm|slurmctld|slurmd|slurmdbd|slurmrestd)\.service")
STARTED = re.compile(r"^[ \t]*ExecStart[ \t]*=[ \t]*[@:+!|-]*(/\S+)", re.MULTILINE)
PACKAGED = ("/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/")


def read(root: str, programs: Iterable[str], *, has_packages: bool) -> List[str]:
    """The paths of what is left, programs first.

    `programs`: where packages have Slurm's; these count where `has_packages` is false, as after `make install` to /usr.
    """
    ours = PROGRAMS.split()
    found = ["%s/%s" % (place, name) for place in PLACES for name in names(root + place) if name in ours]
    found += [
        path for path in programs if path.startswith(PACKAGED) and not has_packages and os.path.exists(root + path)
    ]
    found += ["%s/%s" % (place, name) for place in LIBRARIES for name in names(root + place) if LIBRARY.fullmatch(name)]
    for place in UNITS:
        for name in names(root + place):
            path = "%s/%s" % (place, name)
            started = STARTED.search(read_text(root + path)) if UNIT.fullmatch(name) else None
            if started and not (started[1].startswith(PACKAGED) and os.path.exists(root + started[1])):
                found.append(path)
    # A site's own `squeue` in /usr/local/bin is no installation.
    is_one = any(os.path.basename(path) in DAEMONS or not path.startswith(PLACES) for path in found)
    return found if is_one else []
