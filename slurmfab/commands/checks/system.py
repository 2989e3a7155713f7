"""What Slurm needs of a host's operating system: files that users can read, room on disks, whole packages."""

from __future__ import annotations

from dataclasses import dataclass

from slurmfab.base.paths import MUNGE_SOCKET, SLURM_DIRECTORY, SLURM_LOGS, SLURM_SPOOL, SLURMD_LOGS
from slurmfab.commands.checks.denials import NO_SELINUX, Denials, denials
from slurmfab.commands.checks.denials import QUESTION as DENIALS
from slurmfab.commands.checks.hosts import CheckedHost, last_words
from slurmfab.on_hosts.agent.dnf import killed_question
from slurmfab.on_hosts.agent.facts.facts import CONFIGLESS_DROP_IN
from slurmfab.on_hosts.agent.files.free_space import LEAST_BYTES
from slurmfab.on_hosts.agent.files.null_device import NULL
from slurmfab.on_hosts.agent.slurm.fetched_files import FETCHED_LINK

GAP = "----"
NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups"
"""Runs a command as an ordinary user; 65534 is nobody's UID on every Linux system, whether it has the user or not."""

SOCKET = (
    "$({ sed -n 's/^[[:space:]]*AuthInfo[[:space:]]*=.*socket=\\([^,[:space:]]*\\).*/\\1/Ip' "
    f"{SLURM_DIRECTORY}/slurm.conf {FETCHED_LINK}/slurm.conf 2>/dev/null; echo {MUNGE_SOCKET}; }} | head -n 1)"
)
"""munged's socket in a shell command: that of slurm.conf (AuthInfo), or the usual one."""

READS, ENCODES = "reads slurm.conf", "encodes"
AS_USER = (
    f'head -c 1 -- "$0" >/dev/null && echo {READS}; '
    f'if [ -n "$1" ]; then munge --no-input --socket="$1" --output=/dev/null; fi && echo {ENCODES}'
)
"""What every user's command of Slurm does first: read slurm.conf, and let munge make a credential."""

DATABASE = "/var/lib/mysql"  # where MariaDB keeps Slurm's records
PLACES = ("/run", "/etc/slurm", SLURM_LOGS, SLURMD_LOGS, SLURM_SPOOL, DATABASE)
"""Directories in which daemons write on every host; slurm.conf names slurmctld's state, and slurmd's elsewhere."""

FINISHED = "installed|not-installed|config-files|triggers-[a-z]*"
UNFINISHED = f"/^Package: /{{name=$2}} /^Status: /&&$NF!~/^({FINISHED})$/{{print name, $NF}}"
"""awk: packages in /var/lib/dpkg/status that are half installed, unpacked or half configured (dpkg(1))."""

QUESTION = (
    f"conf={SLURM_DIRECTORY}/slurm.conf; "
    f"if [ -e {CONFIGLESS_DROP_IN} ] || [ ! -e $conf ]; then conf={FETCHED_LINK}/slurm.conf; fi; "
    f"munged={SOCKET}; [ -S $munged ] || munged=; "
    f"timeout 10 {NOBODY} sh -c '{AS_USER}' $conf $munged 2>&1; echo {GAP}; "
    "state=$(sed -nE 's/^(StateSaveLocation|SlurmdSpoolDir)=//p' $conf 2>/dev/null); "
    f"timeout 10 df --block-size=1 --output=avail,itotal,iavail,target,file -- {' '.join(PLACES)} $state 2>/dev/null; "
    f"echo {GAP}; awk '{UNFINISHED}' /var/lib/dpkg/status 2>/dev/null; {killed_question.QUESTION}; "
    f"echo {GAP}; ls /var/lib/dpkg/updates 2>/dev/null; echo {GAP}; {DENIALS}; :"
)
"""A shell command whose output has five parts, separated by `GAP`: what an ordinary user can do; the room on the file
systems of Slurm's directories; unfinished packages; dpkg's journal; what SELinux denied."""


def munge_socket(host: CheckedHost) -> str:
    """The path of munged's socket on a host."""
    return str(host.run(f"echo {SOCKET}").stdout).strip() or MUNGE_SOCKET


@dataclass(frozen=True)
class Room:
    """The file system of a directory."""

    mount: str  # where it is mounted
    free_bytes: int
    free_files: int | None  # inodes for new files; `None` if it has as many as there is room

    @property
    def is_full(self) -> bool:
        """Whether nothing can be written there."""
        return self.free_bytes < LEAST_BYTES or self.free_files == 0


@dataclass(frozen=True)
class System:
    """A host's operating system, as far as Slurm needs it."""

    reads: bool = True  # whether an ordinary user can read slurm.conf
    encodes: bool = True  # whether an ordinary user gets a credential of munge, or munged's socket does not exist
    complaints: tuple[str, ...] = ()
    rooms: tuple[tuple[str, Room], ...] = ()  # file systems by directory
    unfinished: tuple[str, ...] = ()  # packages that dpkg or dnf has not finished, as `NAME STATE`
    is_interrupted: bool = False  # whether dpkg has left its journal
    selinux: Denials = NO_SELINUX

    def complaint(self, of: str) -> str:
        """The error of a program, such as `munge`, when an ordinary user ran it; without a full stop.

        Of several, that of /dev/null is the cause: no shell of a user starts anything without it.
        """
        found = next((line for line in self.complaints if NULL in line), "")
        found = found or next((line for line in self.complaints if line.startswith(f"{of}:")), "no word of why")
        return found.rstrip(".")


def system(host: CheckedHost) -> System:
    """What Slurm needs of a host's operating system, cached; AssertionError if the command fails there."""
    done = host.as_found.run(QUESTION)
    assert done.rc == 0, f"its system cannot be looked at: {last_words(done)}. Repair: log in and look"
    user, rooms, packages, journal, denied = (part.strip().splitlines() for part in str(done.stdout).split(GAP, 4))
    return System(
        READS in user,
        ENCODES in user,
        tuple(line for line in user if line not in {READS, ENCODES}),
        tuple(room(line) for line in rooms[1:]),
        tuple(packages),
        bool(journal),
        denials(denied),
    )


def room(line: str) -> tuple[str, Room]:
    """A directory and its file system, from a line of df(1): free bytes, all inodes, free inodes, mount, directory."""
    free, inodes, free_inodes, mount, *_, directory = line.split()
    return directory, Room(mount, int(free), int(free_inodes) if inodes not in {"0", "-"} else None)
