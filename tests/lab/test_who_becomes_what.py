"""Whom each role becomes by Slurm's own commands, and whom it does not: users, coordinators, operators, hosts' roots.

What docs/security.md says of these roles is played here, also what it says that a role can do: with the munge key there
is no way to take that away, so nobody should read there that it is taken away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from lab_cluster import DeployedLab
from lab_user import words_of
from stock import Stock
from suites import SUITES

from slurmfab.on_hosts.agent.client.commands import admin_level
from slurmfab.on_hosts.programs.jupyter.root import ADMIN_LEVEL

pytestmark = pytest.mark.lab

PEOPLE = """\
database: ctl
accounts:
  - {name: physics, coordinators: cora}
  - {name: maths}
users:
  - {name: ada, uid: 4001, accounts: physics}
  - {name: bob, uid: 4002, accounts: maths}
  - {name: cora, uid: 4003, accounts: physics}
  - {name: otto, uid: 4004, accounts: maths, AdminLevel: Operator}
  - {name: adam, uid: 4005, accounts: maths, AdminLevel: Administrator}
"""
EACH = ("bob", "cora", "otto", "adam")
"""An ordinary user, a coordinator, an operator and an administrator of Slurm."""

AS_ANOTHER = (
    "srun --no-allocate -w n1 id -u",
    "unshare -r srun --no-allocate -w n1 id -u",
    "sbatch -o /dev/null --uid=ada --wrap id",
    "sbatch -o /dev/null --uid=root --wrap id",
    "srun --jobid={runs} --overlap id -u",
    "strigger --set --drained --node=n1 --program=/usr/bin/true",
)
"""Ways of starting something as somebody else: without slurmctld, as root of a user namespace, in another's job."""

OF_OTHERS = (
    "scontrol update JobId={waits} Comment=x",
    "scontrol update JobId={waits} StdOut=/tmp/x",
    "scontrol update JobId={waits} WorkDir=/",
    "scontrol write batch_script {waits} -",
    "scontrol requeue {runs}",
    "scancel {waits}",
)
"""Changing and reading the jobs of others."""

OF_OPERATORS = (
    "scontrol create reservation StartTime=now+9days Duration=1 Users=bob NodeCnt=1 ReservationName=x",
    "sacctmgr -i modify account maths set Fairshare=7",
)
OF_ADMINISTRATORS = (
    "scontrol update NodeName=n1 Comment=x",
    "scontrol update PartitionName=main DisableRootJobs=NO",
    "scontrol setdebug info",
    "sacctmgr -i add qos x",
    "sacctmgr -i modify user bob set AdminLevel=Operator",
)
FOR_NOBODY = (
    "scontrol reboot n1",
    "scontrol shutdown",
    "sacctmgr -i archive dump directory=/tmp events purgeeventafter=1000months script=/usr/bin/true",
)
"""What administrators may do, too, and is not tried as one, because it ends a daemon or a host."""

ROOTS_JOBS = (
    "srun -w n1 id -u",
    "srun -p slurmfab -w n1 id -u",
    "salloc -w n1 srun id -u",
    "sbatch -w n1 -o /dev/null --wrap id",
    "sbatch -w n1 -o /dev/null --array=1-2 --wrap id",
    "sbatch -w n1 -o /dev/null --uid=0 --wrap id",
    "SLURM_JOB_UID=0 srun -w n1 id -u",
    "runuser -u slurm -- sbatch -w n1 -o /dev/null --uid=0 --wrap id",
)
HOSTS_WITH_THE_KEY = ("n2", "n3")
"""A compute node, and a login host."""

NOT_ALLOCATED = "srun --quiet --no-allocate -w n1 sh -c 'id -un; hostname' 2>/dev/null"
"""A step that slurmctld is not asked for: srun makes the credential itself (srun(1), --no-allocate)."""

NO_SCRIPT = "job script retrieval failed"
"""What scontrol says with the exit code 0 of a script that it does not get."""

CONNECTS = "timeout 5 bash -c '</dev/tcp/{}/6818' 2>/dev/null && echo yes || echo no"


@dataclass(frozen=True)
class Site:
    """A cluster with a login host and people; ada, in the account physics, has a job that runs and one that waits.

    Args:
        lab: its hosts.
        runs: the job that runs.
        waits: the job that waits.
    """

    lab: DeployedLab
    runs: str
    waits: str

    def tried(self, user: str, command: str) -> tuple[int, str]:
        """Exit code and both outputs of a user's command on the controller."""
        script = command.format(runs=self.runs, waits=self.waits)
        quoted = script.replace("'", "'\\''")
        said = self.lab.on(
            "ctl", f"cd /tmp; timeout 60 runuser -u {user} -- sh -c '{quoted}' 2>&1; echo $?", check=False
        )
        shown, _, code = said.rpartition("\n")
        return int(code), shown

    def refused(self, user: str, commands: Sequence[str]) -> None:
        """A user may not do any of these."""
        for command in commands:
            code, shown = self.tried(user, command)
            assert code or NO_SCRIPT in shown, (user, command, shown)

    def allowed(self, user: str, commands: Sequence[str]) -> None:
        """A user may do all of these."""
        for command in commands:
            code, shown = self.tried(user, command)
            assert (code, NO_SCRIPT in shown) == (0, False), (user, command, shown)


def submit(lab: DeployedLab, user: str, options: str, script: str) -> str:
    """A job of a user's; its number."""
    words = f"sbatch --parsable -o /dev/null -n1 --mem=20 --time=10 {options} --wrap '{script}'"
    return lab.on("ctl", f"cd /tmp && runuser -u {user} -- {words}")


@pytest.fixture(scope="module", params=SUITES)
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    """A cluster in which n3 was a compute node, and becomes a login host; slurmd runs there until the deployment."""
    with stock.copy(request.param, database=True, nodes=3) as lab:
        assert lab.on("n3", "systemctl is-enabled slurmd") == "enabled"
        text = lab.inventory_path.read_text().replace("n[1-3]", "n[1-2]")
        lab.inventory_path.write_text(text.replace("controllers:", "login: [n3]\ncontrollers:") + PEOPLE)
        lab.deploy()
        assert lab.deploy()["steps"] == []
        lab.until("ctl", "sinfo -h -p main -o '%D %t'", "2 idle")
        runs, waits = submit(lab, "ada", "-w n1", "sleep 900"), submit(lab, "ada", "-w n1 --hold", "./begin")
        lab.until("ctl", f"squeue -h -j {runs} -o %T", "RUNNING")
        yield Site(lab, runs, waits)


def test_a_user_of_slurm_starts_nothing_as_another_and_changes_nothing_of_others(site: Site) -> None:
    site.refused("bob", (*AS_ANOTHER, *OF_OTHERS, *OF_OPERATORS, *OF_ADMINISTRATORS, *FOR_NOBODY))
    assert site.tried("bob", "unshare -r srun -w n2 --mem=20 id -u")[1].splitlines()[-1:] != ["0"]


def test_a_coordinator_manages_the_jobs_of_the_account_and_nothing_else(site: Site) -> None:
    site.refused("cora", (*AS_ANOTHER, *OF_OPERATORS, *OF_ADMINISTRATORS, *FOR_NOBODY))
    site.refused("cora", ("scontrol write batch_script {waits} -", "sacctmgr -i add user bob account=maths"))
    others = submit(site.lab, "bob", "--hold", "id")
    site.refused("cora", tuple(command.replace("{waits}", others) for command in OF_OTHERS if "{waits}" in command))
    site.allowed("cora", ("sacctmgr -i add user bob account=physics", "scontrol update JobId={waits} Comment=x"))
    site.lab.on("ctl", f"scancel {others}")


def test_an_operator_manages_all_jobs_accounts_and_reservations_and_neither_nodes_nor_rights(site: Site) -> None:
    site.refused("otto", (*AS_ANOTHER, *OF_ADMINISTRATORS, *FOR_NOBODY))
    site.refused("otto", ("sacctmgr -i modify user otto set AdminLevel=Administrator",))
    site.allowed(
        "otto", (*OF_OPERATORS, "scontrol write batch_script {waits} -", "scontrol update JobId={waits} Comment=y")
    )
    site.lab.on("ctl", "scontrol delete ReservationName=x")


def test_operators_and_administrators_when_notebooks_ask_slurm_then_are_known_as_such(site: Site) -> None:
    levels = {user: ADMIN_LEVEL.findall(site.lab.on("n3", " ".join(admin_level(user)))) for user in EACH}
    assert levels == {"bob": [], "cora": [], "otto": ["Operator"], "adam": ["Administrator"]}


@pytest.mark.parametrize(
    ("who", "owner"),
    [("cora", "ada"), ("otto", "ada"), ("otto", "slurm")],
    ids=["coordinator", "operator", "operator-and-slurm"],
)
def test_who_may_change_a_waiting_job_when_its_script_names_a_relative_path_then_becomes_its_user(
    site: Site, who: str, owner: str
) -> None:
    job = submit(site.lab, owner, "-w n1 --hold", "./begin")
    place, seen = f"/tmp/of-{who}-{owner}", f"/tmp/by-{who}-{owner}"
    site.lab.on("n1", f"mkdir {place} && printf '#!/bin/sh\nid -un >{seen}\n' >{place}/begin")
    site.lab.on("n1", f"chmod 0755 {place}/begin && chown -R {who} {place}")
    site.allowed(who, (f"scontrol update JobId={job} WorkDir={place}", f"scontrol release {job}"))
    site.lab.until("n1", f"cat {seen} 2>/dev/null", owner)


def test_an_administrator_of_slurm_changes_nodes_and_rights_and_becomes_slurm_where_the_database_is(site: Site) -> None:
    site.refused("adam", AS_ANOTHER)
    try:
        site.allowed("adam", OF_ADMINISTRATORS)
        site.lab.on("ctl", "printf '#!/bin/sh\nid -un >/tmp/of-the-archive\n' >/tmp/adams; chown adam /tmp/adams")
        site.lab.on("ctl", "chmod 0755 /tmp/adams")
        # slurmdbd becomes the script, and so ends.
        site.tried(
            "adam", "sacctmgr -i archive dump directory=/tmp events purgeeventafter=1000months script=/tmp/adams"
        )
        site.lab.until("ctl", "cat /tmp/of-the-archive", "slurm")
    finally:
        site.lab.on("ctl", "scontrol update PartitionName=main DisableRootJobs=YES; systemctl restart slurmdbd")
        site.lab.until("ctl", "sacctmgr -nP show cluster format=cluster 2>/dev/null | wc -l", "1")
        site.lab.on("ctl", "sacctmgr -i delete qos x; sacctmgr -i modify user bob set AdminLevel=None")


@pytest.mark.parametrize("host", HOSTS_WITH_THE_KEY)
def test_root_of_a_host_when_it_starts_jobs_then_slurm_refuses_those_of_root_and_runs_those_of_others(
    site: Site, host: str
) -> None:
    for command in ROOTS_JOBS:
        said = site.lab.on(host, f"cd /tmp; timeout 60 sh -c '{command}' 2>&1; echo $?", check=False)
        assert said.splitlines()[-1] != "0", (command, said)
    as_slurm = site.lab.on(host, "cd /tmp; runuser -u slurm -- srun --quiet -w n1 --mem=20 id -un")
    as_user = site.lab.on(host, "cd /tmp; runuser -u ada -- srun --quiet -w n1 --mem=20 id -un")
    assert (as_slurm, as_user) == ("slurm", "ada")
    site.lab.on(host, "sacctmgr -i modify account maths set Fairshare=8")
    site.lab.on(host, "runuser -u adam -- sacctmgr -i modify account maths set Fairshare=9")


@pytest.mark.parametrize("host", HOSTS_WITH_THE_KEY)
def test_root_of_a_host_with_the_munge_key_is_root_where_slurmd_runs_although_slurm_refuses_jobs_of_root(
    site: Site, host: str
) -> None:
    assert site.lab.on(host, f"cd /tmp; {NOT_ALLOCATED}", check=False) == "root\nn1"
    let = "scontrol update PartitionName=main DisableRootJobs="
    try:
        site.lab.on(host, f"{let}NO")
        assert site.lab.on(host, "cd /tmp; srun --quiet -w n1 --mem=20 id -un") == "root"
    finally:
        site.lab.on(host, "scontrol reconfigure")
    site.lab.until("ctl", "scontrol show partition main | grep -o 'DisableRootJobs=[A-Z]*'", "DisableRootJobs=YES")


def test_slurm_on_any_host_is_root_where_slurmd_runs(site: Site) -> None:
    for host in ("ctl", "n2"):
        step = f"srun --quiet --no-allocate -w n1 sh -c 'id -un >/tmp/by-slurm-of-{host}'"
        # srun of Slurm 22.05 waits for an answer that it cannot read in there.
        site.lab.on(host, f"cd /tmp; timeout 10 runuser -u slurm -- unshare -r {step} 2>/dev/null", check=False)
        site.lab.until("n1", f"cat /tmp/by-slurm-of-{host} 2>/dev/null", "root")


def test_a_controller_and_a_login_host_that_are_no_nodes_have_no_slurmd_that_roots_of_nodes_could_reach(
    site: Site,
) -> None:
    for host in ("ctl", "n3"):
        assert site.lab.on("n2", CONNECTS.format(host)) == "no"
        assert site.lab.on(host, "systemctl is-active slurmd || true") in ("inactive", "unknown")
        assert site.lab.on(host, "systemctl is-enabled slurmd 2>/dev/null || true") in ("disabled", "not-found", "")
        said = site.lab.on("n2", f"cd /tmp; timeout 60 {NOT_ALLOCATED.replace('n1', host)}; echo $?", check=False)
        assert (said[-1:], "root" in said) != ("0", True), said
        assert "root" not in said
    assert site.lab.on("n2", CONNECTS.format("n1")) == "yes"


@pytest.mark.parametrize("host", HOSTS_WITH_THE_KEY)
def test_root_of_a_host_with_the_munge_key_becomes_slurm_on_the_controller_and_not_root_there(
    site: Site, host: str
) -> None:
    trigger = f"strigger --set --drained --node=n2 --program='/usr/bin/touch /tmp/{{}}-from-{host}'"
    try:
        site.lab.on(host, f"runuser -u slurm -- {trigger.format('slurm')}")
        refused = site.lab.on(host, f"{trigger.format('root')} 2>&1; echo $?", check=False)
        assert refused.endswith("\n1"), refused
        site.lab.on(host, "scontrol update NodeName=n2 State=DRAIN Reason=trigger")
        site.lab.until("ctl", f"stat -c %U /tmp/slurm-from-{host} 2>/dev/null", "slurm")
        assert site.lab.on("ctl", "ls /tmp/root-from-* 2>/dev/null || true") == ""
    finally:
        site.lab.on("ctl", "scontrol update NodeName=n2 State=RESUME")


def test_alloc_nodes_hold_users_to_the_hosts_and_not_root_of_a_host_with_the_munge_key(site: Site) -> None:
    words = "sbatch --parsable -o /dev/null -w n1 -n1 --mem=20 --hold --wrap id"
    try:
        site.lab.on("ctl", "scontrol update PartitionName=main AllocNodes=ctl,n3")
        for host, expected in (("ctl", "0"), ("n3", "0"), ("n2", "1")):
            said = site.lab.on(host, f"cd /tmp; runuser -u ada -- {words} 2>&1; echo $?", check=False)
            assert said.splitlines()[-1] == expected, (host, said)
        other_name = f"runuser -u ada -- unshare -r --uts sh -c 'hostname ctl; {words}' 2>&1; echo $?"
        assert site.lab.on("n2", f"cd /tmp; {other_name}", check=False).splitlines()[-1] == "1"
        step = f"cd /tmp; runuser -u ada -- srun --quiet --jobid={site.runs} --overlap --mem=0 id -un"
        assert site.lab.on("n2", step) == "ada"
        assert site.lab.on("n2", FORGED.format(words=words), check=False).isdigit()
    finally:
        site.lab.on("ctl", "scontrol update PartitionName=main AllocNodes=ALL")


def test_jobs_of_root_when_a_deployment_ends_them_then_the_plan_says_so_and_one_that_runs_goes_on(site: Site) -> None:
    path, text = site.lab.inventory_path, site.lab.inventory_path.read_text()
    path.write_text(f"{text}slurm_conf: {{DisableRootJobs: NO}}\n")
    site.lab.deploy()
    runs = submit(site.lab, "root", "-w n2", "until [ -e /tmp/root-may-end ]; do sleep 0.1; done; srun true")
    site.lab.until("ctl", f"squeue -h -j {runs} -o %T", "RUNNING")
    waits = submit(site.lab, "root", "-w n2 --exclusive", "true")

    path.write_text(text)
    assert "Slurm refuses srun, sbatch and salloc of root" in " ".join(words_of(site.lab.slurmfab("plan")).split())
    site.lab.deploy()
    site.lab.until("ctl", f"squeue -h -j {waits} -o %r", "PartitionConfig")
    refused = site.lab.on("ctl", "cd /tmp; srun -w n2 true 2>&1; echo $?", check=False)
    assert "Invalid user id" in refused
    site.lab.on("n2", "touch /tmp/root-may-end")
    site.lab.until("ctl", f"scontrol -o show job {runs} | grep -o 'JobState=[A-Z]*'", "JobState=COMPLETED")
    site.lab.on("ctl", f"scancel {waits}")
    assert site.lab.deploy()["steps"] == []


FORGED = """
controller=$(getent hosts ctl | cut -d' ' -f1)
mkdir -p /tmp/other && cd /tmp/other
ip address add $controller/32 dev lo
munged --force --socket=/tmp/other/socket --origin=$controller --pid-file=/tmp/other/pid --log-file=/tmp/other/log \
    --seed-file=/tmp/other/seed 2>/dev/null
ip address del $controller/32 dev lo
sed 's|^AuthType=.*|&\\nAuthInfo=socket=/tmp/other/socket|' /etc/slurm/slurm.conf >slurm.conf
chmod -R a+rX /tmp/other
SLURM_CONF=/tmp/other/slurm.conf runuser -u ada -- {words}
munged --stop --socket=/tmp/other/socket >/dev/null 2>&1
"""
"""Root of n2 runs a munged of its own, whose credentials name the controller as the host that they come from."""
