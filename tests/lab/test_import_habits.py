"""A hand-made cluster with what years leave behind stays: a dead node, an old password, GPUs that nobody uses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hand_made import ETC, PASSWORD, HandMade, worn
from lab_cluster import ended, succeeded
from lab_user import Person, words_of
from stock import Stock, in_turn

from slurmfab import lab
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.slurm.platform import DEBIAN

pytestmark = pytest.mark.lab

FILES = f"sha256sum {ETC}/*.conf"
LEFT_OUT = 3
"""The exit code with a host that does not answer."""


@dataclass(frozen=True)
class Worn:
    """The cluster, and the admin who has imported it."""

    made: HandMade
    admin: Person

    def state(self) -> tuple[object, ...]:
        """What no takeover may change."""
        jobs = self.made.jobs()
        files = {host: self.made.on(host, FILES) for host in ("ctl", "n1", "n2")}
        return jobs.jobs, jobs.processes, self.made.daemons(), self.made.settings(), files

    def texts(self) -> str:
        """All that is in the admin's directory."""
        return "".join(path.read_text() for path in self.admin.directory.rglob("*") if path.is_file())


@pytest.fixture(scope="module", params=in_turn("import_habits"))
def cluster(request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worn]:
    packages = {"ctl": (*DEBIAN.packages("database"), *DEBIAN.database.packages)}
    gpus = tuple(f"{name}:2:Tesla_T4" for name in ("n1", "n2", "n3"))
    with stock.installed(request.param, packages, nodes=3, gpus=gpus) as hosts:
        admin = Person.at(tmp_path_factory.mktemp("worn"))
        admin.has_seen(hosts.lab, "ctl", "n1", "n2", "n3")
        yield Worn(worn(hosts, request.param), admin)


def test_a_worn_cluster_when_it_is_taken_over_then_keeps_every_file_daemon_and_job(cluster: Worn) -> None:
    before, admin, made = cluster.state(), cluster.admin, cluster.made.lab.lab
    options = ("--user", "root", "--key", str(made.ssh_key))
    done = ended(admin.slurmfab("import", "--hosts", made.host("ctl").address, *options), LEFT_OUT)
    assert "The first deployment will write" not in words_of(done)
    assert "is refused:" not in words_of(done)
    known = loading.load(admin.cluster_file)
    assert [name for name, one in known.lock.hosts.items() if one.never_seen] == ["n3"]
    planned = admin.slurmfab("plan", "--json", "plan.json")
    plan = json.loads((admin.directory / "plan.json").read_text())
    assert (planned.returncode, plan["slurm_conf"], plan["daemons"]) == (LEFT_OUT, [], ""), words_of(planned)
    deployed = ended(admin.slurmfab("deploy"), LEFT_OUT)
    assert cluster.state() == before
    again = admin.slurmfab("plan", "--json", "plan.json")
    second = json.loads((admin.directory / "plan.json").read_text())
    assert not [one for step in second["steps"] for one in step["outcomes"] if one["status"] != "ok"], words_of(again)
    assert PASSWORD not in cluster.texts() + "".join(map(words_of, (done, planned, deployed, again)))


def test_check_cluster_when_accounting_holds_nobody_and_gpus_are_unused_then_finds_nothing_wrong_on_live_hosts(
    cluster: Worn,
) -> None:
    done = cluster.admin.slurmfab("check-cluster", "--hosts", "ctl,n1,n2", "--json", "check.json")
    told = json.loads((cluster.admin.directory / "check.json").read_text())
    assert [one for one in told["checks"] if one["outcome"] == "failed"] == [], words_of(done)
    # The jobs of before can leave no room for two more that ask for GPUs.
    unseen = any(one["outcome"] == "not run" for one in told["checks"])
    assert done.returncode == (5 if unseen else 0), words_of(done)


def test_a_change_when_it_writes_the_files_anew_then_shows_no_password_keeps_it_and_no_job_ends(cluster: Worn) -> None:
    admin, before = cluster.admin, cluster.made.jobs()
    admin.writes(admin.cluster_file.read_text().replace("slurm_conf:\n", "slurm_conf:\n  KillWait: 77\n", 1))
    planned = admin.slurmfab("plan")
    assert "KillWait" in words_of(planned)
    done = ended(admin.slurmfab("deploy"), LEFT_OUT)
    assert cluster.made.on("n1", f"grep -h Pass= {ETC}/slurm.conf") == f"JobCompPass={PASSWORD}"
    assert "mps:200" in cluster.made.on("ctl", f"grep ^NodeName=n1 {ETC}/slurm.conf")
    after = cluster.made.jobs()
    assert (after.jobs, after.processes) == (before.jobs, before.processes)
    assert PASSWORD not in cluster.texts() + words_of(planned) + words_of(done)


def test_a_dead_node_when_it_comes_back_then_is_compared_and_belongs_to_the_cluster(cluster: Worn) -> None:
    lab.start_host(cluster.made.lab.lab, "n3")
    succeeded(cluster.admin.slurmfab("deploy"))
    assert not loading.load(cluster.admin.cluster_file).lock.hosts["n3"].never_seen
    succeeded(cluster.admin.slurmfab("plan"))
