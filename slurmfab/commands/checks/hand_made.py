"""Slurm's files on hosts that somebody made by hand: which of them are right as they are."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.wanted import FILES, input_of
from slurmfab.core.impact.slurm_diff import Difference
from slurmfab.core.plan.hand_made_files import is_hand_made
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.included_files import whole
from slurmfab.on_hosts.agent.facts.facts import CONFIGLESS_DROP_IN
from slurmfab.on_hosts.agent.slurm.fetched_files import FETCHED_LINK

MAIN = "slurm.conf"
PRIVATE = "job_container.conf"
OWN = f"{SLURM_DIRECTORY}/{MAIN}"
FETCHES = f"[ -e {CONFIGLESS_DROP_IN} ] || {{ [ ! -e {OWN} ] && [ -e {FETCHED_LINK}/{MAIN} ]; }}"
"""Whether slurmd fetches Slurm's files, by slurmfab's drop-in or in the site's own way, which leaves no local ones."""

THERE = f"if {FETCHES}; then cd {FETCHED_LINK} && own={OWN}; else cd {SLURM_DIRECTORY}; fi && "
"""Goes to the directory of Slurm's files; in configless mode, slurmd stores the fetched files in another one."""

TEXTS = f"{THERE}for name in {' '.join(FILES)} {PRIVATE}; do echo $name $(base64 -w0 $name 2>/dev/null); done || :"
TEXT = f"{THERE}base64 -w0 %s 2>/dev/null || :"  # print Slurm's files, and one file, in base64


@dataclass(frozen=True)
class HandMade:
    """Files of a host that slurmfab did not write, where those of its cluster say the same to Slurm as slurmfab's."""

    cluster: Cluster
    lock: Lock
    host: CheckedHost
    controller: CheckedHost

    def stays(self, name: str) -> bool:
        """Whether a file of the host, with what includes it, is right as it is, or is rightly missing."""
        wanted = self.wanted
        of = name if name in (*FILES, PRIVATE) else MAIN
        return wanted is not None and self.texts[self.host.name].get(of, "") == wanted.get(of, "")

    def is_kept(self, name: str) -> bool:
        """Whether a file of the host was made by hand, and is right as it is."""
        return is_hand_made(self.texts[self.host.name].get(name, "")) and self.stays(name)

    @property
    def kept_differences(self) -> tuple[Difference, ...]:
        """What the controller's files say otherwise than the cluster file, which leaves them alone (`keep_files`)."""
        return self.input.kept_differences

    @cached_property
    def texts(self) -> dict[str, dict[str, str]]:
        """The texts of both hosts, by host and file name."""
        return {host.name: texts(host) for host in (self.host, self.controller)}

    @cached_property
    def wanted(self) -> dict[str, str] | None:
        """What the host shall have, by file name; `None` if slurmfab wrote the controller's slurm.conf."""
        main = self.texts[self.controller.name].get(MAIN, "")
        if not self.lock.slurm or not (is_hand_made(main) or (self.cluster.keep_files and main)):
            return None
        return dict(self.input.files_of(self.host.name))

    @cached_property
    def input(self) -> PlanInput:
        """The plan's input for these texts; which user a number in slurm.conf means is asked on the controller."""
        number = parse(self.texts[self.controller.name].get(MAIN, "")).settings.get("slurmuser", "")
        user = self.controller.user(self.cluster.slurm_user) if number.isdecimal() else None
        is_same = user is not None and user.exists and str(user.uid) == number
        uids = {int(number): self.cluster.slurm_user} if is_same else {}
        return input_of(self.cluster, self.lock, self.texts, uids)


def lives_without_files(host: CheckedHost, others: Mapping[str, CheckedHost], cluster: Cluster, lock: Lock) -> bool:
    """Whether a host of slurmdbd alone rightly has no slurm.conf, as in a cluster that was made so by hand."""
    controller = others.get(cluster.controller)
    if not cluster.is_for_database_alone(host.name) or controller is None or texts(host).get(MAIN):
        return False
    return HandMade(cluster, lock, host, controller).wanted is not None


def need_files(host: CheckedHost, others: Mapping[str, CheckedHost], cluster: Cluster, lock: Lock) -> None:
    """Leave out a check of a host that rightly has no slurm.conf; see `lives_without_files`."""
    if lives_without_files(host, others, cluster, lock):
        raise DoesNotApply("slurmdbd needs no slurm.conf, and the cluster was made by hand without one there")


def texts(host: CheckedHost) -> dict[str, str]:
    """The texts of Slurm's files on a host by file name, with all that they include; empty for a missing one."""
    pairs = (line.partition(" ")[::2] for line in host.as_found.ask(TEXTS).splitlines())

    def read(path: str) -> bytes:
        return b64decode(host.as_found.ask(TEXT, path))

    return {name: whole(name, b64decode(text), read, lambda *_: True).decode(errors="replace") for name, text in pairs}
