"""What a row of the table of breakages is: how a cluster is broken, and what slurmfab is to say and to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from suites import SUITES

HOSTS = ("ctl", "n1", "n2")
"""Hosts of the cluster on which rows are played: a controller that runs no jobs, and two compute nodes."""

DAEMONS = (
    ("slurmd", "slurmd", "n1"),
    ("munged", "munge", "n1"),
    ("slurmctld", "slurmctld", "ctl"),
    ("slurmdbd", "slurmdbd", "ctl"),
)
"""Program, unit and a host of each."""


@dataclass(frozen=True)
class Mended:
    """`deploy` repairs it: exit code 0, then nothing is left to do, and an ordinary user's job runs on every node.

    A check that finds it has to name `deploy` as its repair.

    Args:
        words: what the output of `deploy` has to contain besides.
        exit_code: 0, or 3 if `deploy` leaves a host out and the cluster works nevertheless.
    """

    words: tuple[str, ...] = ()
    exit_code: int = 0


@dataclass(frozen=True)
class Told:
    """`deploy` does not repair it, says why, and recommends something that does; so do checks and plans after it.

    Args:
        words: what the output of `deploy` has to contain; the recommended repair is among them as far as it is a text.
        repair: the recommendation as commands, which the harness carries out: text for `sh -c` as root on the broken
            host, or a command of slurmfab that begins with `fab `. Afterwards `deploy` repairs what is left.
        exit_code: exit code of `deploy` before the repair; never 0.
    """

    words: tuple[str, ...]
    repair: str
    exit_code: int = 3


@dataclass(frozen=True)
class Checked:
    """`deploy` leaves it, because it is the site's; `check-cluster` names a repair, and is content after it.

    Args:
        repair: what the check recommends, as commands: text for `sh -c` as root on the broken host.
    """

    repair: str


@dataclass(frozen=True)
class Breakage:
    """A row: something on one host is broken; it is found, its cause is named, and it is repaired or told.

    Args:
        name: of the test; lower case with hyphens.
        what: what is broken, for people: a row of docs/checks.md.
        breaks: text for `sh -c` as root on the host.
        deploy: what `deploy` does about it.
        check: words that `check-cluster` prints, all of them; empty if it is not to find it, as after a power cut.
        plan: words that `plan` prints, all of them.
        host: ctl, n1 or n2.
        shows: text for `sh -c` on the controller that succeeds once the breakage shows, as when Slurm notices
            something after a while; it is polled before the checks. Empty: it shows at once.
        everywhere: whether `check-cluster` runs on all hosts, and not only on the broken one with its partner.
        deploys: further arguments of `deploy`.
        database: whether the cluster has an accounting database on the controller.
        suites: Debian suites on which the row is played.
    """

    name: str
    what: str
    breaks: str
    deploy: Mended | Told | Checked
    check: tuple[str, ...] = ()
    plan: tuple[str, ...] = ()
    host: str = "n1"
    shows: str = ""
    everywhere: bool = False
    deploys: tuple[str, ...] = ()
    database: bool = False
    suites: tuple[str, ...] = SUITES


@dataclass(frozen=True)
class Setting:
    """A row: somebody writes a bad value into the cluster file; the cluster goes on as before, and the value is named.

    The harness appends `text` to the cluster file, or replaces `replaces` by it, and afterwards restores the file.
    slurmctld must run at the end, and jobs too.

    Args:
        name: of the test; lower case with hyphens.
        what: what is wrong, for people.
        text: new text of the cluster file.
        plan: words that `plan` prints.
        deploy: words that `deploy` prints.
        replaces: text of the cluster file that is replaced; empty appends.
        plan_code: exit code of `plan`: 2 if the file itself is wrong, 1 if the hosts or the installed Slurm refuse it,
            4 if only a daemon's start shows it.
        deploy_code: exit code of `deploy`.
        database: whether the cluster has an accounting database on the controller.
        suites: Debian suites on which the row is played.
    """

    name: str
    what: str
    text: str
    plan: tuple[str, ...]
    deploy: tuple[str, ...]
    replaces: str = ""
    plan_code: int = 2
    deploy_code: int = 2
    database: bool = False
    suites: tuple[str, ...] = SUITES


@dataclass(frozen=True)
class Oddity:
    """A row: something unusual that hurts nobody; `check-cluster`, `plan` and `deploy` must not complain.

    Args:
        name: of the test; lower case with hyphens.
        what: what is unusual, for people.
        does: text for `sh -c` as root on the host.
        undoes: the same for its removal.
        host: ctl, n1 or n2.
        suites: Debian suites on which the row is played.
    """

    name: str
    what: str
    does: str
    undoes: str
    host: str = "n1"
    database: bool = False
    suites: tuple[str, ...] = SUITES


Row = Breakage | Setting | Oddity
