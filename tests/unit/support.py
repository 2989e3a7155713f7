"""Clusters, facts and locks to test with, and hosts that answer from memory."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from slurmfab.base.errors import AgentFailed, ConnectionLost, HostError, LoginRefused, PythonMissing, Unreachable
from slurmfab.cluster.facts import OURS, Account, Cgroup, Hardware, HostFacts
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run, RunHooks, RunOptions
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.hosts.session import Line
from slurmfab.hosts.transport import Ends, Transport
from slurmfab.on_hosts.agent.kinds import build

SMALL = Hardware(CPUs=4, Boards=1, SocketsPerBoard=1, CoresPerSocket=2, ThreadsPerCore=2, RealMemory=16000)
USABLE = Cgroup("v2", ("cpuset", "devices", "memory"), swap=True)
MUNGE_KEY = "bXVuZ2UgbXVuZ2UgbXVuZ2UgbXVuZ2UgbXVuZ2UgbXVuZ2U="

THREE_HOSTS = """\
cluster: lab
addresses: {c1: 10.0.0.1, "n[1-2]": "10.0.0.[2-3]"}
controllers: [c1]
nodes: [{hosts: "n[1-2]"}]
"""


@cache
def cluster(text: str = THREE_HOSTS) -> Cluster:
    """The cluster that the text of a cluster file describes."""
    return loading.parse(text, "cluster.yaml")


def host_facts(name: str, **differing: Any) -> HostFacts:
    """A healthy Debian 13 host that nobody has touched yet, but for what is said to differ."""
    fresh = HostFacts(
        name=name,
        hostname=name,
        os_id="debian",
        codename="trixie",
        uids={0: "root", 1000: "admin"},
        gids={0: "root", 1000: "admin"},
        hardware=SMALL,
        cgroup=USABLE,
        ssh_host_keys={"ssh-ed25519": f"host+key+of+{name}"},
    )
    return dataclasses.replace(fresh, **differing)


def prepared(name: str, slurm: str = "24.11.5", **differing: Any) -> HostFacts:
    """The same host after a deployment."""
    done: dict[str, Any] = {
        "codename": {"22.05": "bookworm", "24.11": "trixie"}[slurm[:5]],
        "accounts": {
            "slurm": Account(64030, 64030, "/var/lib/slurm/home", "/bin/bash"),
            "munge": Account(450, 450, "/nonexistent", "/usr/sbin/nologin"),
        },
        "groups": {"slurm": 64030, "munge": 450},
        "uids": {0: "root", 450: "munge", 1000: "admin", 64030: "slurm"},
        "gids": {0: "root", 450: "munge", 1000: "admin", 64030: "slurm"},
        "packages": {"slurm-client": f"{slurm}-1", "munge": "0.5.16-1"},
        "public_key": f"ssh-ed25519 key+of+{name} slurm@{name}",
    }
    return host_facts(name, **{**done, **differing})


def facts_of(cluster: Cluster, make: Callable[..., HostFacts] = host_facts, **differing: Any) -> dict[str, HostFacts]:
    """The same facts of all hosts of a cluster."""
    return {host: make(host, **differing) for host in cluster.hosts}


def with_key(wanted: Cluster | None = None, **differing: Any) -> dict[str, HostFacts]:
    """Facts of hosts that were deployed to; the controller tells the munge key, too."""
    facts = facts_of(wanted or cluster(), prepared, **differing)
    return facts | {"c1": dataclasses.replace(facts["c1"], munge_key=MUNGE_KEY)}


def plan_input(
    cluster: Cluster, facts: Mapping[str, HostFacts], known: Mapping[str, HostFacts] | None = None
) -> PlanInput:
    """What a plan is made from.

    Args:
        cluster: the cluster file.
        facts: of the hosts that answer this time.
        known: of the hosts that have answered before; those that answer now where left out.
    """
    return PlanInput(cluster, pin(cluster, pin(cluster, Lock(), known or facts), facts), facts)


def prepared_input(known: Cluster | str = THREE_HOSTS, **differing: Any) -> PlanInput:
    """What a plan is made from on hosts that were deployed to: `prepared`, but for what is said to differ."""
    whole = cluster(known) if isinstance(known, str) else known
    return plan_input(whole, facts_of(whole, prepared, **differing))


def as_answer(facts: HostFacts) -> dict[str, Any]:
    """Facts as an agent's JSON has them."""
    answer = dataclasses.asdict(facts)
    for known in OURS:
        del answer[known]
    return answer


@dataclass
class FakeHosts:
    """Hosts that answer requests from memory; a transport.

    Args:
        facts: what each host says of itself; a host without facts cannot be reached.
        wrong: by host, the ids of resources that are not as wanted until they are converged.
        failing: by host, the ids of resources that cannot be converged.
        without_python: hosts that lack python3 until it is installed.
        forgetful: hosts that leave the last question of a comparison unanswered.
        losing: by host, the number of the request at which its connection breaks, counted from 1.
        vanishing: by host, the id of the resource at which it vanishes while it is converged.
        locked_out: hosts that let nobody in again.
        others: by id of a resource, what its host says of other hosts that are not as wanted.
        when_changed: called with host and resource id after each change, to alter facts.
    """

    facts: dict[str, HostFacts]
    wrong: dict[str, set[str]] = field(default_factory=dict)
    failing: dict[str, set[str]] = field(default_factory=dict)
    without_python: set[str] = field(default_factory=set)
    forgetful: set[str] = field(default_factory=set)
    losing: dict[str, int] = field(default_factory=dict)
    vanishing: dict[str, str] = field(default_factory=dict)
    locked_out: set[str] = field(default_factory=set)
    others: dict[str, dict[str, str]] = field(default_factory=dict)
    when_changed: Callable[[str, str], None] = lambda _host, _id: None
    requests: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    installed: list[str] = field(default_factory=list)

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        if host in self.without_python:
            raise PythonMissing(host, "there is no python3.")
        self.requests.append((host, request))
        if host not in self.facts:
            raise Unreachable(host, "nothing listens at port 22.")
        if len(self.of(host)) == self.losing.get(host):
            raise AgentFailed(host, "the connection was lost.")
        if request["op"] == "facts":
            answer = as_answer(self.facts[host])
            if not request["with_munge_key"]:
                answer["munge_key"] = ""
            return ({"facts": answer},)
        if request["op"] == "daemon-errors":
            return (
                {"daemon_errors": {"errors": [f"error: {request['unit']} of {host} cannot", "error: so it ends."]}},
            )
        if request["op"] == "user-jobs":
            return ({"user_jobs": {"user": "", "ends": {}, "output": ""}},)
        lines = []
        for outcome in self.outcomes(host, request):
            if not request["dry_run"] and outcome["id"] == self.vanishing.get(host):
                raise ConnectionLost(host, "the connection was lost: no data for 30 s.")
            lines.append({"outcome": outcome})
            heard(lines[-1])
        return tuple(lines[:-1] if host in self.forgetful else lines)

    def outcomes(self, host: str, request: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        stopped = False
        for wanted in request["resources"]:
            name = build(wanted).id
            if stopped:
                status = "skipped"
            elif name not in self.wrong.get(host, ()):
                status = "ok"
            elif request["dry_run"]:
                status = "would change"
            elif name in self.failing.get(host, ()):
                status, stopped = "failed", True
            else:
                status = "changed"
                self.wrong[host].discard(name)
                self.when_changed(host, name)
            message = {"failed": "it cannot be done", "skipped": "not tried"}.get(status, "")
            changes = [] if status == "ok" else [{"name": "state", "actual": "", "wanted": "right", "diff": ""}]
            others = [] if request["dry_run"] else [[*pair] for pair in self.others.get(name, {}).items()]
            said = {"id": name, "status": status, "changes": changes, "message": message, "seconds": 0.0}
            yield {**said, "others": others}

    def log_in_again(self, host: str) -> None:
        if host in self.locked_out:
            raise LoginRefused(host, "sshd refused the login.")

    def host_key(self, host: str) -> tuple[str, str] | None:  # noqa: ARG002
        """No SSH, so no key."""
        return None

    def ends(self, host: str) -> Ends:  # noqa: ARG002
        """No SSH, so no addresses."""
        return Ends()

    def install_python(self, host: str) -> None:
        self.installed.append(host)
        self.without_python.discard(host)

    def close(self) -> None:
        pass

    def of(self, host: str) -> list[str]:
        """What a host was asked, in order: `facts`, `compare`, or the kinds of resources that it was to converge."""
        words = []
        for asked, request in self.requests:
            if asked != host or request["op"] in ("daemon-errors", "user-jobs"):
                continue
            if request["op"] == "facts":
                words.append("facts")
            elif request["dry_run"]:
                words.append("compare")
            elif not request["resources"]:
                words.append("claim")
            else:
                words.append("apply " + ",".join(dict.fromkeys(wanted["kind"] for wanted in request["resources"])))
        return words


def run_over(
    hosts: Transport,
    cluster: Cluster,
    chosen: Iterable[str] = (),
    lock: Lock | None = None,
    *,
    path: Path = Path("cluster.yaml"),
    progress: Progress | None = None,
    hooks: RunHooks | None = None,
    write_record: Callable[[Run], None] = lambda _: None,
    started: datetime | None = None,
    steps: Iterable[Step] = (),
    failed_hosts: Mapping[str, HostError] | None = None,
    **options: Any,
) -> Run:
    """A run over a cluster's hosts, which shows nothing; the options are those of `RunOptions`."""
    known = Inventory(cluster, lock or Lock(), path)
    quiet = progress or Progress(io.StringIO(), quiet=True)
    names = tuple(chosen) or cluster.hosts
    asked = RunOptions(**{"command": "deploy", **options})
    run = Run(asked, known, names, hosts, quiet, hooks=hooks, write_record=write_record, started=started)
    run.record_steps(*steps)
    for host, error in (failed_hosts or {}).items():
        run.exclude(host, error)
    return run


def lost_words(lost: Mapping[str, HostError]) -> dict[str, str]:
    """The reasons of lost hosts, by name."""
    return {host: error.reason for host, error in lost.items()}
