"""Checks of logins: nodes are closed to users without a job; login hosts limit and greet users, and forward X11."""

from __future__ import annotations

import pytest

from slurmfab.agent.files.sshd_files import DROP_INS
from slurmfab.agent.people.node_logins import SSHD
from slurmfab.checks.drifted import Drifted
from slurmfab.checks.hosts import CheckedHost, last_words
from slurmfab.checks.slurm import Slurm
from slurmfab.checks.wanted import deploy
from slurmfab.hostlist import fold
from slurmfab.impact.drift_kinds import CHANGED_FILE
from slurmfab.inventory.cluster import Cluster
from slurmfab.inventory.rules.people import POWERFUL_GROUPS
from slurmfab.plan import motd
from slurmfab.plan.phases.logins import MESSAGE
from slurmfab.program_name import FAB

STRANGER, KEEPERS = "nobody", ("root", "slurm")
"""A user of every Debian who has no job, and users who need none."""

ASK_PAM = """
import ctypes, sys
libpam = ctypes.CDLL("libpam.so.0")
CONVERSE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, *[ctypes.c_void_p] * 3)
class Conversation(ctypes.Structure):
    _fields_ = [("converse", CONVERSE), ("data", ctypes.c_void_p)]
silence = Conversation(CONVERSE(lambda *_: 19), None)
for user in sys.argv[1:]:
    handle = ctypes.c_void_p()
    code = libpam.pam_start(b"sshd", user.encode(), ctypes.byref(silence), ctypes.byref(handle))
    code = code or libpam.pam_acct_mgmt(handle, 0x8000)
    print(user, code)
    libpam.pam_end(handle, code)
"""
"""Asks PAM, as sshd does, whether users may log in; prints each with PAM's answer, of which 0 is yes."""

SHOW_MOTD = f"""
import ctypes, os, re, sys, tempfile
lines = [line for line in open("{SSHD}") if re.match(r"-?session\\b.*\\bpam_motd\\.so\\b", line)]
libpam = ctypes.CDLL("libpam.so.0")
class Message(ctypes.Structure):
    _fields_ = [("style", ctypes.c_int), ("text", ctypes.c_char_p)]
CONVERSE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.POINTER(Message)), *[ctypes.c_void_p] * 2)
class Conversation(ctypes.Structure):
    _fields_ = [("converse", CONVERSE), ("data", ctypes.c_void_p)]
def show(count, messages, *_):
    for number in range(count):
        sys.stdout.buffer.write((messages[number].contents.text or b"") + b"\\n")
    return 0
conversation, handle = Conversation(CONVERSE(show), None), ctypes.c_void_p()
with tempfile.TemporaryDirectory() as place:
    with open(os.path.join(place, "sshd"), "w") as file:
        file.writelines(line.partition("#")[0].rstrip() + " noupdate\\n" for line in lines)
    words, place = ctypes.byref(conversation), place.encode()
    code = libpam.pam_start_confdir(b"sshd", b"{STRANGER}", words, place, ctypes.byref(handle))
    code = code or libpam.pam_open_session(handle, 0)
    libpam.pam_end(handle, code)
"""
"""Prints what the lines of sshd's PAM configuration about the message of the day show to users, and runs no others.

They run no scripts of the host here (`noupdate`, pam_motd(8)). A function of the libpam of Debian 11 is needed.
"""

SSHD_SETTINGS = f"sshd -T -C user={STRANGER},host=localhost,addr=127.0.0.1"

POWERFUL = " ".join(sorted(POWERFUL_GROUPS))
VOUCHED_FOR = f"""
{{ echo {STRANGER} {" ".join(KEEPERS)}; getent passwd | awk -F: '$3 < 1000 {{ print $1 }}'
  getent group {POWERFUL} | cut -d: -f4 | tr , ' '; }} | tr -s ' ' '\\n' | sort -u | while read -r user; do
    sshd -T -C "user=$user,host=localhost,addr=127.0.0.1" | grep -qix 'hostbasedauthentication yes' && echo "$user"
done; true
"""
"""Prints those whom sshd lets in if another host vouches for them, among a stranger and the host's powerful users."""

EQUIVALENTS = ("/etc/ssh/shosts.equiv", "/etc/hosts.equiv")
"""The files in which sshd finds the hosts that it believes."""

MOST_NAMES = 10

SLICE = "user-64999.slice"
"""The slice of a user who does not exist, which has what those of all users have (systemd.special(7))."""

LIMITS = f"systemctl show --property=MemoryMax,TasksMax,CPUQuotaPerSecUSec {SLICE}"
NONE = "infinity"


def test_node_is_closed_without_a_job(closed_node: CheckedHost) -> None:
    """sshd's PAM lets users in only with a job on the node, and root and slurm always"""
    done = closed_node.run(f"python3 -c %s {STRANGER} {' '.join(KEEPERS)}", ASK_PAM)
    if done.rc != 0 and "ctypes" in done.stderr:
        pytest.skip(f"the python3 of {closed_node.name} has no ctypes, with which PAM is asked.")
    assert done.rc == 0, f"PAM does not answer: {last_words(done)}. Repair: {deploy(closed_node.name)}"
    answers = dict(line.split() for line in done.stdout.splitlines())
    assert answers.get(STRANGER) != "0", (
        f"a user without a job on the node ({STRANGER}) may log in: a line of {SSHD} or of a file that it includes "
        f"decides before pam_slurm_adopt. Repair: {deploy(closed_node.name)}, and compare {SSHD}"
    )
    refused = [user for user in KEEPERS if answers.get(user) != "0"]
    assert not refused, f"{' and '.join(refused)} may not log in by SSH, by {SSHD}. Repair: {deploy(closed_node.name)}"


def test_jobs_can_adopt_logins(closed_node: CheckedHost, slurm: Slurm) -> None:
    """jobs have the step on the node that adopts their users' logins"""
    flags = slurm.configuration().get("prologflags", "")
    assert {"CONTAIN", "X11"} & {flag.strip().upper() for flag in flags.split(",")}, (
        f"slurmctld has PrologFlags={flags} without Contain, so nobody can log in to {closed_node.name} with a job. "
        f"Repair: {FAB} deploy"
    )


def test_users_have_their_limits(limited_host: CheckedHost, cluster: Cluster) -> None:
    """systemd limits each user who logs in as the cluster file says"""
    limits = cluster.login_limits
    assert limits is not None, "there are limited hosts only where the cluster file wants them"
    shown = dict(line.split("=", 1) for line in limited_host.ask(LIMITS).splitlines())
    wanted = {"MemoryMax": limits.memory, "TasksMax": limits.tasks, "CPUQuotaPerSecUSec": limits.cpus}
    missing = [key for key, value in wanted.items() if value and shown.get(key, NONE) == NONE]
    if limits.tasks and shown.get("TasksMax") != str(limits.tasks):
        missing = list(dict.fromkeys((*missing, "TasksMax")))
    assert not missing, (
        f"users who log in have no {' and no '.join(missing)} as login_limits says. Repair: "
        f"{deploy(limited_host.name)}; if that changes nothing, `systemctl cat user-.slice` shows which file sets it"
    )


def test_users_need_no_keys(believing_host: CheckedHost) -> None:
    """sshd lets users of the cluster's hosts in without keys of their own, but nobody who is or may become root"""
    done = believing_host.ask(VOUCHED_FOR)
    believed = done.split()
    assert STRANGER in believed, (
        f"sshd has HostbasedAuthentication no for {STRANGER}. Does another file in {DROP_INS} set it first? "
        f"Repair: {deploy(believing_host.name)}"
    )
    powerful = [user for user in believed if user != STRANGER]
    assert not powerful, (
        f"sshd has HostbasedAuthentication yes for {' and '.join(powerful[:MOST_NAMES])}, so root of another host can "
        f"log in as these, who are or may become root here. Does another file in {DROP_INS} set it first? "
        f"Repair: {deploy(believing_host.name)}"
    )


def test_users_of_compute_nodes_need_keys_elsewhere(believing_host: CheckedHost, cluster: Cluster) -> None:
    """sshd of hosts that are more than compute nodes believes no host with jobs"""
    if cluster.roles(believing_host.name) == ("compute",):
        return
    believed = set(believing_host.ask(f"cat {' '.join(EQUIVALENTS)} 2>/dev/null; true").split())
    nodes = [node for node in cluster.compute_nodes if believed & {node, cluster.addresses.get(node, node)}]
    assert not nodes, (
        f"{' or '.join(EQUIVALENTS)} names {fold(nodes)}, so root there can log in here as any ordinary user. "
        f"Repair: {deploy(believing_host.name)}"
    )


def test_users_are_greeted(greeting_host: CheckedHost, cluster: Cluster) -> None:
    """sshd's PAM shows the message of the day, with the cluster file's partitions and limits"""
    wanted = motd.message(cluster).strip()
    if greeting_host.run("cat %s", MESSAGE).stdout.strip() != wanted:
        raise Drifted(CHANGED_FILE, f"{MESSAGE} differs from the cluster file. Repair: {deploy(greeting_host.name)}")
    settings = greeting_host.ask(SSHD_SETTINGS).lower().splitlines()
    assert "usepam yes" in settings, "sshd has UsePAM no, so it shows no message of the day. Repair: UsePAM yes"
    done = greeting_host.run("python3 -c %s", SHOW_MOTD)
    if done.rc != 0 and ("ctypes" in done.stderr or "pam_start_confdir" in done.stderr):
        pytest.skip(f"{greeting_host.name} has no python3 with ctypes, or a libpam before 1.4: PAM cannot be asked.")
    assert done.rc == 0, f"PAM does not answer: {last_words(done)}. Repair: compare {SSHD}"
    assert wanted in done.stdout, (
        f"no line of {SSHD} shows {MESSAGE} to users who log in. "
        f"Repair: session optional pam_motd.so noupdate in {SSHD}, as Debian's has it"
    )


def test_windows_reach_users(x11_host: CheckedHost, cluster: Cluster) -> None:
    """xauth is there for X11, and sshd forwards it where users log in"""
    name = x11_host.name
    assert x11_host.run("command -v xauth").rc == 0, f"there is no xauth. Repair: {deploy(name)}"
    if name not in (cluster.login or cluster.controllers):
        return
    settings = dict(line.split(" ", 1) for line in x11_host.ask(SSHD_SETTINGS).lower().splitlines() if " " in line)
    assert settings.get("x11forwarding") == "yes", (
        "sshd has X11Forwarding no, so `ssh -X` brings no screen. "
        f"Repair: X11Forwarding yes in a file of /etc/ssh/sshd_config.d on {name}, and systemctl reload ssh"
    )


def test_jobs_forward_windows(x11_controller: CheckedHost, slurm: Slurm) -> None:
    """slurmctld lets jobs forward X11"""
    flags = slurm.configuration().get("prologflags", "")
    assert "X11" in {flag.strip().upper() for flag in flags.split(",")}, (
        f"slurmctld on {x11_controller.name} has PrologFlags={flags} without X11. Repair: {FAB} deploy"
    )
