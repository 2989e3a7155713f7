"""A cluster with much of what one may have, ejected: its scripts make the same, as a user by sudo, through a host."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ejected import KEY, Ejected, Wanted, ejected
from lab_cluster import succeeded
from lab_user import PLATFORM, words_of
from stock import in_turn

from slurmfab.cluster.slurm.platform import DNF

pytestmark = pytest.mark.lab

RICH = """\
controllers: [ctl]
login: [n1]
nodes:
  - hosts: n[3-4]
configless: true
database: n2
accounts:
  - {name: physics, Fairshare: 60}
users:
  - {name: ann, uid: 7001, accounts: [physics], keys: ["%s"], MaxJobs: 7}
  - {name: bob, uid: 7002, sudo: true}
prolog: prolog.d
user_ssh: hostbased
node_logins: with_job
motd: true
user_tools: true
health: true
scratch: {path: /scratch, size: 1G}
power: {nodes: n4, suspend_after: 20d, how: {command: {suspend: /usr/bin/true, resume: /usr/bin/true}}}
files:
  /etc/profile.d/site.sh: {text: "export SITE=here\\n", roles: [login, compute]}
"""
"""Much of what a cluster may have besides."""

RICHER = """\
state_directory: /shared/state
login_limits: {memory: 20%%, tasks: 512}
firewall: managed
rest: n1
monitoring: true
modules: {system: lmod, path: [/software/modules]}
registry: {host: n1, directory: /srv/images}
"""
"""What Debian alone has."""

RULES = r"""
useradd -m ruth; useradd -m ulf; useradd -m alma; groupadd rooters
echo 'ruth ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ruth
printf '#%s ALL=/bin/dd\nUser_Alias OPS = alma : MORE = %%#%s\nOPS, MORE ALL=ALL\n+admins ALL=ALL\n' \
    $(id -u ulf) $(getent group rooters | cut -d: -f3) >/etc/sudoers.d/more
sed -i 's/^netgroup:.*/netgroup: files/' /etc/nsswitch.conf && echo 'admins (,nell,)' >/etc/netgroup
printf 'permit nopass doug as root\npermit persist :wheels\n' >/etc/doas.conf
"""
"""Ways to become root that new hosts may have: host-based logins are for none of these."""

AS_ANN = "cd /tmp && runuser -u ann -- "
IS_ENTERPRISE_LINUX = PLATFORM.manager == DNF
OF_DEBIAN = RICH.replace("controllers: [ctl]", "controllers: [ctl, n1]") + RICHER
NEEDED = {"shared": ("/shared",), "ssh_user": "admin"}
BY_HAND = {"n1": RULES, "n3": RULES}


@pytest.fixture(scope="module", params=in_turn("eject_rich"))
def rich(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ejected]:
    text = (RICH if IS_ENTERPRISE_LINUX else OF_DEBIAN) % KEY
    with ejected(
        Wanted("her", text, 4, "n2", NEEDED, relay="ctl", by_hand=BY_HAND), request.param, tmp_path_factory
    ) as made:
        yield made


def test_the_plan_of_the_cluster_file_when_the_scripts_have_run_then_is_empty(rich: Ejected) -> None:
    assert rich.differing() == set(), words_of(rich.hosts.slurmfab("plan"))


def test_jobs_when_the_scripts_have_run_then_find_what_the_cluster_gives_them(rich: Ejected) -> None:
    rich.hosts.until("ctl", "sinfo -h -p main -o '%D %t'", "2 idle")
    job = "id -u; ls /run/prolog-was-here; stat -c %U $SCRATCH"
    told = rich.hosts.on("n1", f"{AS_ANN} srun -w n3 -A physics --gres=scratch:1 sh -c '{job}'")
    assert told == "7001\n/run/prolog-was-here\nann"


def test_users_when_they_log_in_from_host_to_host_then_need_no_key_but_a_job_on_nodes(rich: Ejected) -> None:
    ssh = "ssh -n -o BatchMode=yes -o ConnectTimeout=20"
    assert rich.hosts.on("ctl", f"{AS_ANN} {ssh} n1 id -un") == "ann"
    assert "you have no active jobs on this node" in rich.hosts.on("n1", f"{AS_ANN} {ssh} n3 id -un 2>&1; true")
    assert rich.hosts.on("n1", f"{AS_ANN} salloc -w n3 -A physics {ssh} n3 id -un 2>/dev/null") == "ann"


def test_a_deployment_when_the_scripts_have_run_then_notes_what_is_there_and_the_plan_is_empty(rich: Ejected) -> None:
    rich.hosts.deploy()
    succeeded(rich.hosts.slurmfab("plan"))
