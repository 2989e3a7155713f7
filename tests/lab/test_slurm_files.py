"""Files of the site's own in Slurm's directory, and switches as data, on real Slurm: read, changed, taken back.

One lab goes through all of it, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_cluster import AS_SLURM, DeployedLab, succeeded
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

PROLOG = "#!/bin/sh\ntouch /run/prolog-ran-$SLURM_JOB_ID\n"
LUA = (
    "function slurm_job_submit(job, partitions, uid)\n  job.admin_comment = 'seen'\n  return slurm.SUCCESS\nend\n"
    "function slurm_job_modify(job, record, partitions, uid)\n  return slurm.SUCCESS\nend\n"
    "return slurm.SUCCESS\n"
)
ONE = "SwitchName=leaf Nodes=n[1-2]\n"
TWO = "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=top Switches=a,b\n"
SETTINGS = "slurm_conf: {TopologyPlugin: topology/tree, JobSubmitPlugins: lua, Prolog: /etc/slurm/prolog.sh}\n"
FILES = (
    "slurm_files: {topology.conf: own/topology.conf, prolog.sh: own/prolog.sh, job_submit.lua: own/submit.lua,\n"
    "  plugstack.conf: own/plugstack.conf, plugstack.conf.d/none.conf: own/none.conf}\n"
)
SWITCHES = "topology: [{SwitchName: a, Nodes: n1}, {SwitchName: b, Nodes: n2}, {SwitchName: top, Switches: 'a,b'}]\n"
PIDS = "systemctl show --property=MainPID --value slurmctld slurmd | xargs"


@dataclass
class Site:
    """A cluster, what its file says beside its own files, and the directory of these."""

    lab: DeployedLab
    text: str
    own: Path

    def deploy(self, more: str, *words: str) -> str:
        """Deploy with this in the cluster file, twice: the second time nothing differs."""
        self.lab.inventory_path.write_text(f"{self.text}{more}")
        done = succeeded(self.lab.slurmfab("deploy", *words))
        assert self.lab.deploy()["steps"] == []
        return done.stdout

    def put(self, **files: str) -> None:
        self.own.mkdir(exist_ok=True)
        for name, text in files.items():
            path = self.own / name.replace("_", ".")
            path.write_text(text)
            path.chmod(0o755 if text.startswith("#!") else 0o644)

    def switches(self) -> str:
        shown = self.lab.on("ctl", "scontrol show topology 2>&1 | grep -o 'SwitchName=[a-z]*' | sort | xargs")
        return shown.replace("SwitchName=", "")

    def check(self) -> None:
        assert [one for one in self.lab.checks("configuration,slurmd,slurmctld") if one["outcome"] == "failed"] == []


@pytest.fixture(scope="module", params=in_turn("slurm_files"))
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    with stock.copy(request.param, nodes=2) as lab:
        lab.deploy()
        yield Site(lab, lab.inventory_path.read_text(), lab.inventory_path.parent / "own")


def test_files_of_the_site_are_there_and_slurm_uses_them(site: Site) -> None:
    site.put(
        topology_conf=ONE,
        prolog_sh=PROLOG,
        submit_lua=LUA,
        plugstack_conf="include /etc/slurm/plugstack.conf.d/*\n",
        none_conf="# nothing yet\n",
    )
    site.deploy(SETTINGS + FILES)
    assert site.switches() == "leaf"
    job = site.lab.on("ctl", AS_SLURM + "sbatch --parsable -w n1 -n1 --mem=50 -o /dev/null --wrap true")
    site.lab.until("n1", f"ls /run/prolog-ran-{job} 2>/dev/null | wc -l", "1")
    assert site.lab.on("ctl", f"scontrol show job {job} | grep -c AdminComment=seen") == "1"
    assert site.lab.on("n2", "stat -c '%U %a' /etc/slurm/prolog.sh /etc/slurm/topology.conf | xargs") == (
        "root 755 root 644"
    )
    site.check()


def test_a_change_is_shown_and_read_by_daemons_without_a_word_about_others(site: Site) -> None:
    site.put(topology_conf=TWO)
    done = site.lab.slurmfab("plan")
    assert "+SwitchName=top Switches=a,b" in done.stdout, done.stdout
    site.deploy(SETTINGS + FILES)
    assert site.switches() == "a b top"
    before = site.lab.on("ctl", PIDS), site.lab.on("n1", PIDS)
    site.put(none_conf="# nothing at all\n")
    site.deploy(SETTINGS + FILES)
    assert (site.lab.on("ctl", PIDS), site.lab.on("n1", PIDS)) == before
    site.check()


def test_a_file_edited_on_a_host_is_found_by_the_checks(site: Site) -> None:
    site.lab.on("n2", "echo '# mine' >>/etc/slurm/prolog.sh")
    done = site.lab.slurmfab("check-cluster", "--only", "site_files")
    assert "prolog.sh differs from the cluster file" in done.stdout, done.stdout
    site.deploy(SETTINGS + FILES)


def test_files_that_slurmctld_does_not_start_with_are_taken_back(site: Site) -> None:
    site.put(topology_conf="SwitchName=a Switches=nothing-known\n")
    site.lab.inventory_path.write_text(f"{site.text}{SETTINGS}{FILES}")
    done = site.lab.slurmfab("deploy")
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert site.lab.on("ctl", "systemctl is-active slurmctld; cat /etc/slurm/topology.conf") == f"active\n{TWO}".strip()
    site.put(topology_conf=TWO)
    site.deploy(SETTINGS + FILES)


def test_switches_as_data_take_the_files_place_and_files_without_a_name_go(site: Site) -> None:
    site.deploy(SWITCHES)
    assert site.switches() == "a b top"
    for host in ("ctl", "n1"):
        left = site.lab.on(host, "ls -A /etc/slurm /usr/local/lib/slurmfab 2>/dev/null | xargs")
        assert "topology.conf" in left
        assert not {"prolog.sh", "job_submit.lua", "plugstack.conf", "plugstack.conf.d"} & set(left.split())
    site.check()


def test_a_rollback_brings_the_files_back_with_slurm_conf(site: Site) -> None:
    succeeded(site.lab.slurmfab("rollback"))
    assert site.lab.on("n1", "cat /etc/slurm/topology.conf /etc/slurm/prolog.sh") == f"{TWO}{PROLOG}".strip()
    assert site.lab.inventory_path.read_text() == f"{site.text}{SETTINGS}{FILES}"
    assert site.lab.deploy()["steps"] == []
    assert site.switches() == "a b top"


def test_configless_nodes_fetch_what_slurmctld_serves_and_have_the_rest(site: Site) -> None:
    more = f"configless: true\n{SETTINGS}{FILES}"
    site.deploy(more)
    assert site.lab.on("n1", "cat /run/slurm/conf/topology.conf") == TWO.strip()
    there = site.lab.on("n1", "cd /etc/slurm && find . -type f | sort | xargs").split()
    assert {"./prolog.sh", "./plugstack.conf.d/none.conf"} <= set(there)
    assert not {"./topology.conf", "./plugstack.conf", "./slurm.conf"} & set(there)
    site.put(topology_conf=ONE)
    site.deploy(more)
    assert site.lab.on("n1", "cat /run/slurm/conf/topology.conf") == ONE.strip()
    site.check()


def test_without_its_keys_nothing_of_the_site_is_left(site: Site) -> None:
    site.deploy("")
    for host in ("ctl", "n1"):
        files = site.lab.on(
            host, "cd /etc/slurm && find . -name '*.sh' -o -name 'topology*' -o -name 'plugstack*' -o -name '*.lua'"
        )
        assert files == ""
        assert site.lab.on(host, "test -e /usr/local/lib/slurmfab/slurm-files; echo $?") == "1"
    site.check()
