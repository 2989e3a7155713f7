"""Checks of logins: nodes are closed to users without a job; login hosts limit and greet users, and forward X11."""

from __future__ import annotations

import pytest

from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.rules.people import POWERFUL_GROUPS
from slurmfab.commands.checks.applies import DoesNotApply, Drifted
from slurmfab.commands.checks.hosts import CheckedHost, last_words
from slurmfab.commands.checks.slurm import Slurm
from slurmfab.commands.checks.wanted import deploy
from slurmfab.core.impact.drift_kinds import CHANGED_FILE
from slurmfab.core.plan.phases import logins
from slurmfab.core.plan.phases.logins import MESSAGE, PAM_SYSTEMD
from slurmfab.on_hosts.agent.files.sshd_files import DROP_INS
from slurmfab.on_hosts.agent.people.node_logins import SSHD

STRANGER, KEEPERS = "nobody", ("root", "slurm")  # a user of every Debian who has no job, and users who need none

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
MOST_ASKED = 50  # how many users sudo is asked about, each by a command of its own

VOUCHED_FOR = f"""
{{ echo {STRANGER} {" ".join(KEEPERS)}; getent passwd | awk -F: '$3 < 1000 {{ print $1 }}'
  getent passwd | awk -F: '$3 >= 1000 {{ print $1 }}' | head -n {MOST_ASKED} | while read -r user; do
      LC_ALL=C sudo -n -l -U "$(id -un "$user")" </dev/null 2>/dev/null | grep -q ' may run ' && echo "$user"
  done
  getent group {POWERFUL} | cut -d: -f4 | tr , ' '; }} | tr -s ' ' '\\n' | sort -u | while read -r user; do
    sshd -T -C "user=$user,host=localhost,addr=127.0.0.1" | grep -qix 'hostbasedauthentication yes' && echo "$user"
done; true
"""
"""Prints those whom sshd lets in if another host vouches for them, among a stranger and the host's powerful users."""

EQUIVALENTS = ("/etc/ssh/shosts.equiv", "/etc/hosts.equiv")  # the files in which sshd finds the hosts that it believes

MOST_NAMES = 10

LIMITED = "slurm"  # an ordinary user for systemd whom every host has

OUTSIDE = "systemd-run --quiet --pipe --wait --collect"
"""Runs a command outside of the login of the check: systemd starts no session within another one."""

LOGIN_SECONDS = 60.0
SEE_LIMITS = r"""
import os
groups = {}
for line in open("/proc/self/cgroup"):
    _, names, path = line.rstrip().split(":", 2)
    groups.update(dict.fromkeys(names.split(","), path))
def read(controller, new, old):
    is_old = controller in groups
    path, name = groups[controller if is_old else ""] if is_old or "" in groups else "/", old if is_old else new
    found = []
    while path.strip("/"):
        file = "/sys/fs/cgroup%s%s/%s" % ("/" + controller if is_old else "", path, name)
        found += [open(file).read().split()] if os.path.exists(file) else []
        path = os.path.dirname(path)
    return found
def tell(name, files, values):
    print("%s=%s" % (name, min(values) if values else "infinity" if files else "unknown"))
memory, tasks = read("memory", "memory.max", "memory.limit_in_bytes"), read("pids", "pids.max", "pids.max")
quotas, periods = read("cpu", "cpu.max", "cpu.cfs_quota_us"), read("cpu", "cpu.max", "cpu.cfs_period_us")
print("group=%s" % groups.get("name=systemd", groups.get("", "")))
tell("memory", memory, [int(one[0]) for one in memory if one[0].isdecimal() and int(one[0]) < 1 << 62])
tell("tasks", tasks, [int(one[0]) for one in tasks if one[0].isdecimal()])
tell("cpus", quotas, ["%g" % (int(one[0]) / int(two[-1])) for one, two in zip(quotas, periods) if one[0].isdecimal()])
"""
"""Prints the control group in which it runs, and the least limits of that and of those around it, of both versions;
`unknown` where systemd has no such group there, as in a container."""

LOG_IN = f"""
umask 022; mkdir -p /run/sshd; place=$(mktemp -d /run/slurmfab-login.XXXXXX) || exit 1; trap 'rm -rf "$place"' EXIT
chmod 0711 "$place"; ssh-keygen -q -t ed25519 -N '' -f "$place/key" && cp "$place/key.pub" "$place/known" || exit 1
cat >"$place/see" <<'END'
{SEE_LIMITS}
END
sshd=$(command -v sshd || echo /usr/sbin/sshd)
server="$sshd -i -o AuthorizedKeysFile=$place/known -o PubkeyAuthentication=yes -o AuthenticationMethods=publickey"
ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \\
    -o IdentitiesOnly=yes -o IdentityAgent=none -i "$place/key" -o ProxyCommand="$server" {LIMITED}@localhost \\
    python3 -I -S - <"$place/see"
"""
"""Logs in by the host's own sshd, with its settings and its PAM, and a key that is there for this login alone."""

NONE, UNKNOWN = "infinity", "unknown"


def test_node_is_closed_without_a_job(closed_node: CheckedHost) -> None:
    """sshd's PAM lets users in only with a job on the node, and root and slurm always"""
    done = closed_node.run(f"python3 -I -S -c %s {STRANGER} {' '.join(KEEPERS)}", ASK_PAM)
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
    """a user who logs in by SSH has no more memory, tasks and CPUs than the cluster file says"""
    limits = cluster.limits_on(limited_host.name)
    assert limits is not None, "there are limited hosts only where the cluster file wants them"
    done = limited_host.run(f"{OUTSIDE} sh -c %s", LOG_IN, seconds=LOGIN_SECONDS)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    if "group" not in found:
        pytest.skip(f"{LIMITED} cannot log in to {limited_host.name} by SSH, to see its limits: {last_words(done)}.")
    slice = f"user-{limited_host.user(LIMITED).uid}.slice"
    assert f"/{slice}/" in found["group"], (
        f"{LIMITED}, who logged in by SSH, is in the control group {found['group']} and in no {slice}, so login_limits "
        f"reach nobody. Repair: {deploy(limited_host.name)} brings {PAM_SYSTEMD}; if that changes nothing: sshd needs "
        f"UsePAM yes, and {SSHD} or a file that it includes `session optional pam_systemd.so`"
    )
    memory = limited_host.service(slice).systemd_properties["MemoryMax"] if limits.memory else ""
    wanted = {"memory": memory, "tasks": str(limits.tasks or ""), "cpus": str(limits.cpus or "")}
    wanted = {name: value for name, value in wanted.items() if value}
    if all(found[name] == UNKNOWN for name in wanted):
        pytest.skip(f"systemd on {limited_host.name} has no control groups that limit, as in a container.")
    wrong = [
        f"{'no limit' if found[name] in {NONE, UNKNOWN} else found[name]} in place of {value} for {name}"
        for name, value in wanted.items()
        if value == NONE or found[name] != value
    ]
    assert not wrong, (
        f"{LIMITED}, who logged in by SSH, has {' and '.join(wrong)}. Repair: {deploy(limited_host.name)}; if that "
        f"changes nothing, see systemctl cat {slice}"
    )


def test_users_need_no_keys(believing_host: CheckedHost) -> None:
    """sshd lets users of the cluster's hosts in without keys of their own, but nobody who is or may become root"""
    done = believing_host.ask(VOUCHED_FOR)
    believed = done.split()
    assert STRANGER in believed, (
        f"sshd has HostbasedAuthentication no for {STRANGER}. Does another file in {DROP_INS} set it first, or does a "
        f"rule of sudo's name ALL, who are then refused? Repair: {deploy(believing_host.name)}"
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
        raise DoesNotApply("it is a compute node and nothing else")
    believed = set(believing_host.ask(f"cat {' '.join(EQUIVALENTS)} 2>/dev/null; true").split())
    nodes = [node for node in cluster.compute_nodes if believed & {node, cluster.addresses.get(node, node)}]
    assert not nodes, (
        f"{' or '.join(EQUIVALENTS)} names {fold(nodes)}, so root there can log in here as any ordinary user. "
        f"Repair: {deploy(believing_host.name)}"
    )


def test_users_are_greeted(greeting_host: CheckedHost, cluster: Cluster) -> None:
    """sshd's PAM shows the message of the day, with the cluster file's partitions and limits"""
    wanted = logins.message_of_the_day(cluster, greeting_host.name).strip()
    message = greeting_host.file(MESSAGE)
    if not message.exists or message.content_string.strip() != wanted:
        raise Drifted(CHANGED_FILE, f"{MESSAGE} differs from the cluster file. Repair: {deploy(greeting_host.name)}")
    settings = greeting_host.ask(SSHD_SETTINGS).lower().splitlines()
    assert "usepam yes" in settings, "sshd has UsePAM no, so it shows no message of the day. Repair: UsePAM yes"
    done = greeting_host.run("python3 -I -S -c %s", SHOW_MOTD)
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
    assert x11_host.exists("xauth"), f"there is no xauth. Repair: {deploy(name)}"
    if name not in (cluster.login or cluster.controllers):
        return
    settings = dict(line.split(" ", 1) for line in x11_host.ask(SSHD_SETTINGS).lower().splitlines() if " " in line)
    assert settings.get("x11forwarding") == "yes", (
        "sshd has X11Forwarding no, so `ssh -X` brings no screen. "
        f"Repair: X11Forwarding yes in a file of /etc/ssh/sshd_config.d on {name}, and systemctl restart ssh"
    )


def test_jobs_forward_windows(x11_controller: CheckedHost, slurm: Slurm) -> None:
    """slurmctld lets jobs forward X11"""
    flags = slurm.configuration().get("prologflags", "")
    assert "X11" in {flag.strip().upper() for flag in flags.split(",")}, (
        f"slurmctld on {x11_controller.name} has PrologFlags={flags} without X11. Repair: {FAB} deploy"
    )
