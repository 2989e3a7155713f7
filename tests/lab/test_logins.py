"""Logins of users on real hosts: nodes closed to those without a job, proved before it counts, and opened again.

One lab goes through all of it, in this order.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_cluster import PROGRAM, DeployedLab, eventually, succeeded
from lab_user import log_in, new_key
from stock import Stock, in_turn

from slurmfab import lab

pytestmark = pytest.mark.lab

LEFT_OUT = 3
HOSTBASED = "user_ssh: hostbased\n"
CLOSED = "node_logins: with_job\nuser_ssh: hostbased\n"
PAM = "cat /etc/pam.d/sshd"
LISTFILE = "$(find /lib/*/security /usr/lib/*/security -name 'pam_listfile.so*' | head -1)"
BREAK = f"f={LISTFILE}; cp -p $f $f.whole && echo broken >$f"
MEND = f"f={LISTFILE}; f=${{f%.whole}}; mv $f.whole $f"
EARLIER = "/var/lib/slurmfab/earlier-logins"
LEFT_OF_GUARD = f"ls -d {EARLIER}* 2>/dev/null; find /etc /run/systemd -name '*logins-back*'"
"""Prints what a node has only while a change is not proved."""

REFUSE = f"sed -i.before '1i [ ! -d {EARLIER} ] || exit 1' ~dora/.bashrc"
"""bash reads it for each command by SSH."""

ADMIT = "mv ~dora/.bashrc.before ~dora/.bashrc"
HOLD = f"echo 'while [ -d {EARLIER} ]; do sleep 0.1; done' >/etc/ssh/sshrc"
VERIFY = "systemd-analyze verify /etc/systemd/system/slurmfab-logins-back-at-boot.service 2>&1 | grep logins-back"
DEPLOYER = (
    "useradd -m -s /bin/bash dora && cp -r /root/.ssh ~dora/ && chown -R dora: ~dora/.ssh"
    " && echo 'dora ALL=(ALL:ALL) NOPASSWD: ALL' >/etc/sudoers.d/dora"
)
"""A user who may deploy, and is not in the group sudo."""


BY_HAND = """
for group in wheel admin docker disk; do groupadd -f $group; done
useradd -o -u 0 -m toor; useradd -u 901 -m daemon1
for user in will:wheel adele:admin doc:docker dick:disk late: ruth: nell: doug: ulf: alma: gus:; do
    useradd -m -s /bin/bash ${user%:*}; test -z "${user#*:}" || usermod -aG ${user#*:} ${user%:*}
done
echo 'ruth ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ruth
printf '+admins ALL=(ALL) ALL\\n#%s ALL=/bin/dd\\nUser_Alias OPS = alma : MORE = %%#%s\\nOPS, MORE ALL=ALL\\n' \
    $(id -u ulf) $(id -g gus) >/etc/sudoers.more
echo '@include /etc/sudoers.more' >/etc/sudoers.d/more
sed -i 's/^netgroup:.*/netgroup: files/' /etc/nsswitch.conf && echo 'admins (,nell,)' >/etc/netgroup
echo 'permit nopass doug as root' >/etc/doas.conf
useradd -m carl; useradd -m otto; echo 'domänen-admins:x:3999:otto' >>/etc/group
printf 'CARL ALL=(ALL) NOPASSWD: ALL\n%%Domänen-Admins ALL=(ALL) NOPASSWD: ALL\n' >/etc/sudoers.d/letters
"""
"""Makes users who are root, or may become root in different ways, and late, who is an ordinary one as yet."""

POWERFUL = (
    *("root", "slurm", "zoe", "toor", "daemon1", "will", "adele", "doc", "dick"),
    *("ruth", "nell", "doug", "ulf", "alma", "gus"),  # by rules: for a name, netgroup, with doas, UID, alias, GID
    *("carl", "otto"),  # by rules in other letters than the names'
)
GO = (
    "cd / && runuser -u {} -- ssh -n -o BatchMode=yes -o ConnectTimeout=20 -o HostbasedAuthentication=yes"
    " -o PreferredAuthentications=hostbased {} id -un 2>&1"
)
"""What root of a host does as any user who is known there."""


RIGHT = (0, 5)
"""Exit codes of check-cluster; 5 on a machine where systemd in a container has no control groups that limit."""


@dataclass
class Site:
    """A cluster, the text of its file, and the key of the user ann."""

    lab: DeployedLab
    text: str
    key: Path

    def write(self, more: str) -> None:
        ann = f"{{name: ann, keys: ['{self.key.with_suffix('.pub').read_text().strip()}']}}"
        self.lab.inventory_path.write_text(f"{self.text}users: [{ann}, {{name: zoe, sudo: yes}}]\n{more}")

    def deploy(self, more: str) -> list[str]:
        """The resources that a deployment of this changes."""
        self.write(more)
        steps = self.lab.deploy()["steps"]
        return [outcome["id"] for step in steps for outcome in step["outcomes"]]

    def goes(self, user: str, start: str, goal: str) -> bool:
        """Whether root of a host gets to another one as a user; otherwise sshd there has asked for more."""
        said = self.lab.on(start, GO.format(user, goal), check=False)
        assert said == user or "Permission denied" in said, said
        return said == user

    def log_in(self, host: str, command: str, typed: str = "") -> tuple[int, str]:
        """What a login of ann's on a host prints, with its exit code; what she types needs a terminal."""
        return log_in(self.lab, "ann", self.key, host, command, typed=typed)


@pytest.fixture(scope="module", params=in_turn("logins"))
def site(request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    key = new_key(tmp_path_factory.mktemp("ann"))
    with stock.copy(request.param, nodes=3) as lab:
        lab.on("n2", "systemctl disable --now slurmd")
        text = (
            lab.inventory_path.read_text()
            .replace("hosts: n[1-3]", "hosts: [ctl, n1, n3]")
            .replace("controllers:", "login: [n2]\ncontrollers:")
        )
        yield Site(lab, text, key)


def test_a_change_that_lets_the_deployer_not_in_again_is_taken_back(site: Site) -> None:
    before = site.lab.on("n1", PAM)
    for host in ("ctl", "n1", "n2", "n3"):
        site.lab.on(host, DEPLOYER)
    site.lab.on("n1", BREAK)
    text = site.text
    site.text = text.replace("user: root", "user: dora", 1).replace("}\n", ", become: sudo}\n", 1)
    assert "user: dora" in site.text
    site.write(CLOSED)
    done = site.lab.slurmfab("deploy")
    said = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode, "with this, another login failed" in said) == (LEFT_OUT, True), said
    assert site.lab.on("n1", PAM) == before
    assert site.log_in("n1", "id -un") == (0, "ann\n")
    site.lab.on("n1", MEND)
    assert "node-logins:/etc/pam.d/sshd" in site.deploy(CLOSED)
    site.text = text
    changed = site.deploy(CLOSED)
    assert set(changed) == {"hostbased-logins:user-ssh", "node-logins:/etc/pam.d/sshd"}, changed
    assert "dora" in site.lab.on("n1", "cat /etc/security/slurmfab-logins").split(), "as one who has deployed"
    assert site.deploy(CLOSED) == []
    assert site.lab.on("n1", LEFT_OF_GUARD) == ""
    assert site.lab.on("n2", "sshd -T -C user=root,host=n1,addr=127.0.0.1 | grep -i ^hostbasedauth") == (
        "hostbasedauthentication no"
    )


def test_a_rollback_counts_only_when_another_login_has_passed_it(site: Site) -> None:
    list_of_users = "cat /etc/security/slurmfab-logins"
    after = site.lab.on("n1", list_of_users)
    site.lab.on("n1", REFUSE)
    done = site.lab.slurmfab("rollback")
    said = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode, "with this, another login failed" in said) == (LEFT_OUT, True), said
    assert (site.lab.on("n1", list_of_users), site.lab.on("n1", LEFT_OF_GUARD)) == (after, "")
    site.lab.on("n1", ADMIT)
    succeeded(site.lab.slurmfab("rollback"))
    assert site.lab.on("n1", list_of_users).splitlines()[0] == "dora", "the cluster file names her again"
    assert site.lab.on("n1", LEFT_OF_GUARD) == ""
    assert set(site.deploy(CLOSED)) == {"hostbased-logins:user-ssh", "node-logins:/etc/pam.d/sshd"}
    assert site.lab.on("n1", list_of_users) == after


def test_a_user_gets_in_with_a_job_alone_and_stays_in_its_control_group(site: Site) -> None:
    code, said = site.log_in("n1", "id -un")
    assert (code != 0, "ann" in said.splitlines()) == (True, False), said
    assert site.log_in("n2", "id -un") == (0, "ann\n")
    job = site.lab.on(
        "ctl", "cd /tmp && runuser -u ann -- sbatch --parsable -w n1 --mem=50 -o /dev/null --wrap 'sleep 600'"
    )
    site.lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    code, shown = site.log_in("n1", "cat /proc/self/cgroup; sleep 0")
    assert code == 0, shown
    between = "cd / && runuser -u {} -- ssh -o BatchMode=yes {} cat /proc/self/cgroup"
    assert f"/job_{job}/" in site.lab.on("n2", between.format("ann", "n1"))
    assert site.lab.on("n1", between.format("ann", "n2"), check=False) == "", (
        "jobs run on n1, so no login host believes it"
    )
    assert site.lab.on("n2", between.format("root", "n1"), check=False) == ""
    assert site.lab.on("n2", between.format("slurm", "n1"), check=False) == ""
    held = {line.split(":")[1] for line in shown.splitlines() if f"/job_{job}/" in line}
    assert {"memory", "cpuset", "devices"} <= held, shown
    site.lab.on("ctl", f"scancel {job}")
    eventually(lambda: site.log_in("n1", "id -un")[0] != 0, "ann is still let in")


def test_others_get_in_and_the_checks_prove_it(site: Site) -> None:
    site.lab.on("ctl", "runuser -u slurm -- ssh -o BatchMode=yes n1 true")
    succeeded(site.lab.slurmfab("check-cluster", "--only", "ssh,logins"))
    site.lab.on("n1", "sed -i '/slurmfab-account/d' /etc/pam.d/sshd")
    done = site.lab.slurmfab("check-cluster", "--only", "logins")
    said = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode != 0, "a user without a job on the node (nobody) may log in" in said) == (True, True), said
    assert site.deploy(CLOSED) == ["node-logins:/etc/pam.d/sshd"]


def test_login_hosts_hold_users_to_their_limits_and_greet_them(site: Site) -> None:
    changed = site.deploy(f"{CLOSED}login_limits: {{memory: 300M, tasks: 100, cpus: 1}}\nmotd: 'Help: ask ann'\n")
    assert changed == ["user-slices:login-limits", "owned-files:motd"]
    assert site.lab.deploy()["steps"] == []
    show = "systemctl show --property=TasksMax,MemoryMax,CPUQuotaPerSecUSec user-%s.slice"
    uid = site.lab.on("n2", "id -u ann")
    assert sorted(site.lab.on("n2", show % uid).split()) == [
        "CPUQuotaPerSecUSec=1s",
        "MemoryMax=314572800",
        "TasksMax=100",
    ]
    roots = ["CPUQuotaPerSecUSec=infinity", "MemoryMax=infinity", "TasksMax=infinity"]
    assert sorted(site.lab.on("n2", show % 0).split()) == roots
    shown = site.log_in("n2", "cat /proc/self/cgroup; cat /sys/fs/cgroup/pids/user.slice/user-$(id -u).slice/pids.max")[
        1
    ]
    assert f"/user.slice/user-{uid}.slice/" in shown, shown
    greeting = site.log_in("n2", "", "exit\n")[1]
    assert "main*" in greeting, greeting
    assert "Help: ask ann" in greeting, greeting
    done = site.lab.slurmfab("check-cluster", "--only", "logins")
    assert (done.returncode in RIGHT, "a user who logs in by SSH has no more memory" in done.stdout) == (True, True), (
        done.stdout + done.stderr
    )


def test_limits_that_reach_nobody_are_seen_by_a_login_and_the_deployment_brings_what_is_missing(site: Site) -> None:
    limited = f"{CLOSED}login_limits: {{memory: 300M, tasks: 100, cpus: 1}}\nmotd: 'Help: ask ann'\n"
    site.deploy(limited)
    site.lab.on("n2", "dpkg --purge --force-depends libpam-systemd")
    done = site.lab.slurmfab("check-cluster", "--only", "users_have_their_limits", "--hosts", "n2")
    said = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode, "in no user-64030.slice, so login_limits reach nobody" in said) == (1, True), said
    (changed,) = site.deploy(limited)
    assert changed.startswith("packages:libpam-systemd,"), changed
    done = site.lab.slurmfab("check-cluster", "--only", "users_have_their_limits", "--hosts", "n2")
    assert done.returncode in RIGHT, done.stdout + done.stderr
    site.lab.on("n2", "sed -i '/pam_systemd.so/d' /etc/pam.d/common-session")
    done = site.lab.slurmfab("check-cluster", "--only", "users_have_their_limits", "--hosts", "n2")
    said = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode, "a file that it includes `session optional pam_systemd.so`" in said) == (1, True), said
    site.lab.on("n2", "echo 'session optional pam_systemd.so' >>/etc/pam.d/common-session")
    done = site.lab.slurmfab("check-cluster", "--only", "users_have_their_limits", "--hosts", "n2")
    assert done.returncode in RIGHT, done.stdout + done.stderr


def test_a_node_that_loses_power_before_the_proof_has_the_files_of_before(site: Site) -> None:
    closed = site.lab.on("n1", PAM)
    site.lab.on("n1", HOLD)
    site.write("")
    words = [*PROGRAM, "deploy", "--cluster", str(site.lab.inventory_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        site.lab.until("n1", f"test -d {EARLIER} && grep -c slurmfab /etc/pam.d/sshd", "0")
        assert site.lab.on("n1", VERIFY, check=False) == ""
        lab.kill_host(site.lab.lab, "n1")
        lab.start_host(site.lab.lab, "n1")
        said = process.communicate(timeout=120)[0]
    site.lab.on("n1", "rm /etc/ssh/sshrc")
    assert process.returncode == LEFT_OUT, said
    assert site.lab.on("n1", PAM) == closed
    assert site.lab.on("n1", LEFT_OF_GUARD) == ""


def test_without_the_keys_all_is_as_before(site: Site) -> None:
    site.deploy("")
    assert site.lab.deploy()["steps"] == []
    assert site.log_in("n1", "id -un") == (0, "ann\n")
    left = site.lab.on("n1", "grep -rl slurmfab /etc/pam.d /etc/security; ls /var/lib/slurmfab; dpkg -V openssh-server")
    assert "pam" not in left
    assert "earlier-logins" not in left
    assert site.lab.on("n2", "ls -d /etc/systemd/system/user-* /etc/motd.d/slurmfab 2>/dev/null; true") == ""


def test_root_of_a_node_gets_nowhere_as_somebody_who_may_become_root_there(site: Site) -> None:
    for host in ("ctl", "n1", "n2", "n3"):
        site.lab.on(host, BY_HAND)
    site.deploy(HOSTBASED)
    assert site.deploy(HOSTBASED) == []
    for user in POWERFUL:
        reached = [goal for goal in ("n2", "n3", "ctl") if site.goes(user, "n1", goal)]
        assert reached == [], user
    assert not site.goes("zoe", "n2", "n3")
    said = site.lab.on("n1", "cd / && su zoe -c 'ssh -o BatchMode=yes n2 sudo -n id' 2>&1", check=False)
    assert ("uid=0" in said, "Permission denied" in said) == (False, True), said


def test_an_ordinary_user_gets_from_login_hosts_to_nodes_and_between_nodes_and_not_back(site: Site) -> None:
    ways = {(start, goal): site.goes("ann", start, goal)
            for start, goal in (("n2", "n1"), ("n1", "n3"), ("ctl", "n1"), ("n2", "ctl"))}  # fmt: skip
    assert all(ways.values()), ways
    back = {goal: site.goes("ann", "n1", goal) for goal in ("n2", "ctl")}
    assert not any(back.values()), back


def test_a_user_who_joins_a_powerful_group_is_refused_from_that_moment_on(site: Site) -> None:
    assert site.goes("late", "n1", "n3")
    for group in ("sudo", "wheel", "docker"):
        site.lab.on("n3", f"usermod -aG {group} late")
        assert not site.goes("late", "n1", "n3"), group
        site.lab.on("n3", f"gpasswd -d late {group}")
        assert site.goes("late", "n1", "n3"), group


def test_who_became_powerful_in_another_way_is_found_by_checks_and_refused_from_the_next_deployment_on(
    site: Site,
) -> None:
    site.lab.on("n3", "useradd -u 902 -m daemon2; echo '%late ALL=(root) /bin/dd' >/etc/sudoers.d/late")
    done = site.lab.slurmfab("check-cluster", "--only", "logins")
    said = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode != 0, "yes for daemon2 and late, so root of another host" in said) == (True, True), said
    assert site.deploy(HOSTBASED) == ["hostbased-logins:user-ssh"]
    assert not site.goes("late", "n1", "n3")
    succeeded(site.lab.slurmfab("check-cluster", "--only", "logins"))


def test_a_rule_of_sudo_for_everybody_then_nobody_is_believed_there_and_the_checks_say_why(site: Site) -> None:
    site.lab.on("n3", "echo 'ALL ALL=(root) NOPASSWD: /bin/dd' >/etc/sudoers.d/all")
    assert site.goes("ann", "n1", "n3")
    done = site.lab.slurmfab("check-cluster", "--only", "logins")
    assert (done.returncode, "HostbasedAuthentication yes for ann" in done.stdout) == (1, True), done.stdout
    assert site.deploy(HOSTBASED) == ["hostbased-logins:user-ssh"]
    assert (site.goes("ann", "n1", "n3"), site.goes("ann", "n3", "n1")) == (False, True)
    done = site.lab.slurmfab("check-cluster", "--only", "logins")
    said = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode, "does a rule of sudo's name ALL, who are then refused?" in said) == (1, True), said
    site.lab.on("n3", "rm /etc/sudoers.d/all")
    assert site.deploy(HOSTBASED) == ["hostbased-logins:user-ssh"]
    assert site.goes("ann", "n1", "n3")


@pytest.mark.parametrize("suite", in_turn("logins"))
def test_a_controller_that_is_the_login_host_keeps_room_for_slurmctld(stock: Stock, tmp_path: Path, suite: str) -> None:
    key = new_key(tmp_path)
    with stock.copy(suite, nodes=1) as made:
        site = Site(made, made.inventory_path.read_text().replace("controllers:", "login: [ctl]\ncontrollers:"), key)
        site.write("motd: true\nuser_ssh: hostbased\n")
        first, second = (made.slurmfab("deploy") for _ in range(2))
        beside = ["run beside slurmctld" in " ".join((done.stdout + done.stderr).split()) for done in (first, second)]
        assert (first.returncode, second.returncode, beside) == (0, 0, [True, False]), first.stdout + first.stderr
        checked = made.slurmfab("check-cluster")
        # On hosts with control groups of version 1, no process is in a group that limits it.
        told = " ".join(checked.stdout.split())
        assert checked.returncode == 0 or ("1 not run" in told and "no control groups that limit" in told), told
        said = site.log_in("ctl", "systemctl show --property=TasksMax,MemoryMax user-$(id -u).slice | sort")[1]
        assert re.fullmatch(r"MemoryMax=\d+\nTasksMax=1024\n", said)
        assert "UP" in made.on("ctl", "scontrol ping")
        assert site.log_in("ctl", "srun -N1 hostname") == (0, "n1\n")
