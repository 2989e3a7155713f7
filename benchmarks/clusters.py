"""Labs and clusters of a run of the suite: started when a scenario first needs them, and always taken down."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import access
from benchmarks.access import Access
from benchmarks.measuring import Say
from benchmarks.programs import PROGRAM, ProgramFailed, output_of, timed
from benchmarks.results import Sample
from slurmfab import lab
from slurmfab.lab import Lab, LabSpec

DPKG_SETTING = "/etc/dpkg/dpkg.cfg.d/lab"
"""With it, lab hosts do without fsync from the start; taken away, so that everybody begins as on a plain machine."""

NOTHING_CHANGED = "nothing changed"
IDLE = "sinfo --noheader --Node --format='%N %T' | sort -u | cut -d ' ' -f 2 | sort | uniq -c | tr -s ' '"


@dataclass(frozen=True)
class Cluster:
    """Lab hosts with a cluster file.

    Args:
        lab: the hosts.
        file: the cluster file.
        access: the way to the hosts.
    """

    lab: Lab
    file: Path
    access: Access

    def command(self, *words: str) -> tuple[str, ...]:
        """The words of a run of slurmfab on this cluster."""
        return (*PROGRAM, *words, "--cluster", str(self.file))

    def slurmfab(self, *words: str) -> Sample:
        """Run slurmfab on this cluster, and tell what it took.

        Raises:
            ProgramFailed: its exit code is not 0.
        """
        return timed(self.command(*words))

    def require_no_change(self) -> None:
        """See that a deployment has nothing to do, so that the next one measures just that.

        Raises:
            ProgramFailed: it had.
        """
        said = output_of(self.command("deploy"))
        if NOTHING_CHANGED not in said:
            raise ProgramFailed(f"A deployment that should have nothing to do said: {said.strip()[-300:]}")

    def change(self, key: str, value: int) -> None:
        """Write a value of slurm.conf into the cluster file."""
        text = re.sub(r"^slurm_conf: .*\n", "", self.file.read_text(), flags=re.MULTILINE)
        self.file.write_text(f"{text}slurm_conf: {{{key}: {value}}}\n")


def require_value(hosts: Access, key: str, value: int) -> None:
    """See that a value of slurm.conf is in force: on every host's disk, and in slurmctld's own words.

    Raises:
        ProgramFailed: it is not.
    """
    hosts.everywhere(f"grep -Eq '^{key} *= *{value}$' /etc/slurm/slurm.conf")
    output_of(hosts.ssh(hosts.names[0], f"scontrol show config | grep -Eq '^{key} *= {value} '"))


def require_cluster(hosts: Access) -> None:
    """See that a cluster works: every compute node idle, and a step that runs on all of them.

    Args:
        hosts: the controller, and then all compute nodes.

    Raises:
        ProgramFailed: it does not.
    """
    controller, *nodes = hosts.names
    states = output_of(hosts.ssh(controller, IDLE)).split("\n")
    if [state.strip() for state in states if state.strip()] != [f"{len(nodes)} idle"]:
        raise ProgramFailed(f"Of {len(nodes)} compute nodes, not all are idle: {'; '.join(states)}")
    step = f"cd /tmp && runuser -u slurm -- srun --immediate=30 -N{len(nodes)} hostname"
    names = sorted(output_of(hosts.ssh(controller, step), patience=90).split())
    if names != sorted(nodes):
        raise ProgramFailed(f"srun on {len(nodes)} nodes answered by {', '.join(names) or 'none'}.")


def by_slurmfab(cluster: Cluster) -> Sample:
    """Deploy with slurmfab.

    Raises:
        ProgramFailed: it failed.
    """
    return cluster.slurmfab("deploy")


@dataclass
class Labs:
    """All labs of a run of the suite.

    Args:
        prefix: how their names begin, so that two runs can go on beside each other.
        suite: Debian suite of their hosts.
        directory: where cluster files and other small files go.
        say: told what goes on.
    """

    prefix: str
    suite: str
    directory: Path
    say: Say
    _stack: ExitStack = field(default_factory=ExitStack)
    _clusters: dict[str, Cluster] = field(default_factory=dict)

    def fresh(self, letter: str, nodes: int, *, apt_lists: bool = False) -> Cluster:
        """New hosts with nothing on them; those of the same letter go.

        Args:
            letter: what tells this lab from the others of the run.
            nodes: how many compute nodes.
            apt_lists: whether they have package lists; otherwise they need an `apt-get update` of their own.
        """
        name = f"{self.prefix}{letter}"
        lab.down(name)
        self._stack.callback(lab.down, name)
        made = lab.up(LabSpec(name=name, suite=self.suite, nodes=nodes, apt_lists=apt_lists), self.directory)
        for host in made.hosts:
            lab.run(made, host.name, ["rm", "-f", DPKG_SETTING])
        return Cluster(made, made.cluster_file, access.of_lab(made, self.directory / name))

    def deployed(self, nodes: int, letter: str = "c", by: Callable[[Cluster], object] = by_slurmfab) -> Cluster:
        """A cluster with this many compute nodes; one for the whole run of the suite.

        Args:
            nodes: how many compute nodes.
            letter: what tells who has deployed it.
            by: deploys it, the first time.

        Raises:
            ProgramFailed: it could not be deployed, or does not work; then there is none.
        """
        key = f"{letter}{nodes}"
        if key not in self._clusters:
            self.say(f"deploying to lab {self.prefix}{key} of 1 + {nodes} hosts")
            made = self.fresh(key, nodes, apt_lists=True)
            try:
                by(made)
                require_cluster(made.access)
            except ProgramFailed:
                self.remove(key)
                raise
            self._clusters[key] = made
        return self._clusters[key]

    def remove(self, letter: str) -> None:
        """Take a lab down early, since the next scenario has no use for it."""
        lab.down(f"{self.prefix}{letter}")

    def close(self) -> None:
        """Take all labs down."""
        self._clusters.clear()
        self._stack.close()


@contextmanager
def labs(prefix: str, suite: str, directory: Path, say: Say) -> Iterator[Labs]:
    """The labs of a run of the suite, taken down in the end, whatever ends it."""
    made = Labs(prefix, suite, directory, say)
    try:
        yield made
    finally:
        made.close()


def with_endpoints(cluster: Cluster, places: Access, file: Path) -> Cluster:
    """The same cluster, whose hosts SSH reaches at other places; its plan is the same, address for address."""
    ends = ", ".join(f'{place.name}: "root@{place.address}:{place.port}"' for place in places.places)
    text = cluster.file.read_text()
    file.write_text(re.sub(r"^ssh: \{(.*)\}$", rf"ssh: {{\1, endpoints: {{{ends}}}}}", text, flags=re.MULTILINE))
    lock = json.loads(cluster.file.with_suffix(".lock.json").read_text())
    file.with_suffix(".lock.json").write_text(json.dumps(lock))
    return Cluster(cluster.lab, file, places)
