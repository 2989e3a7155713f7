"""The clusters that this host shows signs of: by the slurm.conf of its daemons, their processes, jobs and state."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Set, Tuple

from slurmfab.on_hosts.agent.core import processes as running
from slurmfab.on_hosts.agent.core.host_paths import MUNGE_KEY
from slurmfab.on_hosts.agent.core.included_files import conf_bytes, whole
from slurmfab.on_hosts.agent.core.reading import names, read_bytes
from slurmfab.on_hosts.agent.services.sockets import has_listening_socket

CONFS = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/etc/slurm-llnl/slurm.conf")
"""Debian's slurm.conf, the one that a configless slurmd has fetched, and that of Debian 10 and Ubuntu 20.04."""

STATES = ("/var/lib/slurm/slurmctld", "/var/lib/slurm-llnl/slurmctld", "/var/spool/slurmctld")
SLURMDBD_CONF = "/etc/slurm/slurmdbd.conf"
DAEMONS = ("slurmctld", "slurmd", "slurmdbd", "slurmstepd")
PACKAGED = "/usr/sbin/"
SETTING = re.compile(
    rb"^[ \t]*(ClusterName|SlurmctldHost|ControlMachine|ControlAddr|StateSaveLocation)[ \t]*=[ \t]*\"?([^\s\"#]+)",
    re.IGNORECASE | re.MULTILINE,
)
NAME = re.compile(rb"[\w.-]{1,64}")
CLUSTER_ID = re.compile(rb"[^|]*\|(\d{1,5})\s*")  # slurmctld's file `clustername` from Slurm 24.11 on: name and ID
OF_JOB = re.compile(rb"(?:^|\0)SLURM_JOB_?ID=(\d{1,10})\0")
STEP = re.compile(rb"slurmstepd: \[(\d+)[.+_]")


def read(root: str, request: Mapping[str, Any], accounts: Mapping[str, Mapping[str, Any]]) -> Dict[str, Any]:
    """What this host has of clusters.

    Args:
        request: `is_new`: whether to look for processes, state and the munge key too, and not only for slurm.conf;
            `state_directories`: where slurmctld's state may be, besides the usual places.
        accounts: the users that are known here, by name.

    Returns:
        `marks`: `place`, `cluster` and `controllers` of each sign; `daemons`: names of Slurm's running daemons; `jobs`:
        numbers of jobs with a running step or prolog, and `looked`: when they were looked for, which is so without
        `is_new`, too; `munge_key`: the SHA-256 of the munge key, empty if there is none.
    """
    is_new, states = bool(request.get("is_new")), request.get("state_directories", ())
    slurm_uid = accounts.get("slurm", {}).get("uid", 0)
    found = [mark for path in CONFS for mark in conf_marks(root, path)][:1]
    daemons, jobs = set(), set()
    looked = 0 if root else int(time.time())  # a test has its own root
    for pid, name in () if root else processes(slurm_uid):
        arguments = read_bytes("/proc/%s/cmdline" % pid)
        step = STEP.match(arguments)
        if step:
            jobs.add(int(step[1]))
        elif name == "slurmd":
            jobs |= prologs(pid)
        if name != "slurmstepd" and is_new:
            marks = daemon_marks(name, pid, arguments.decode(errors="replace").split("\0"))
            # From Slurm 24.11 on, slurmd that was just installed looks for a slurm.conf for a while, in the DNS too.
            if name != "slurmd" or marks or found or has_listening_socket(int(pid)):
                daemons.add(name)
            found += marks
    used = [mark.pop("state", "") for mark in found]
    for place in dict.fromkeys([*filter(None, used), *states, *STATES]) if is_new else ():
        # From Slurm 24.11 on the cluster's ID follows its name.
        cluster = NAME.fullmatch(read_bytes(root + place + "/clustername").partition(b"|")[0].strip())
        if cluster:
            found.append({"place": place, "cluster": cluster[0].decode(), "controllers": []})
    return {
        "marks": [mark for number, mark in enumerate(found) if mark not in found[:number]],
        "daemons": sorted(daemons),
        "jobs": sorted(jobs),
        "looked": looked,
        "munge_key": digest(read_bytes(root + MUNGE_KEY)) if is_new else "",
    }


def cluster_id(root: str, states: Sequence[str]) -> int:
    """The ID that slurmctld's state has for its cluster; 0 if there is none."""
    found = [CLUSTER_ID.fullmatch(read_bytes(root + place + "/clustername")) for place in states]
    return next((int(one[1]) for one in found if one), 0)


def prologs(slurmd: str) -> Set[int]:
    """The jobs for which a slurmd runs a program now, such as the prolog: these have no step yet."""
    children = read_bytes("/proc/%s/task/%s/children" % (slurmd, slurmd)).decode().split()
    found = (OF_JOB.search(read_bytes("/proc/%s/environ" % child)) for child in children)
    return {int(one[1]) for one in found if one}


def is_controller(hostname: str, marks: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the slurm.conf of one of the signs names this host as the primary controller."""
    return any(mark["controllers"][0].split("(")[0].split(".")[0] == hostname for mark in marks if mark["controllers"])


def conf_marks(root: str, path: str) -> List[Dict[str, Any]]:
    """The sign that a slurm.conf is, in a list; empty if there is no such file."""
    text = whole(root + path, conf_bytes(root + path))
    if not text:
        return []
    values: Dict[str, List[str]] = {}
    for key, value in SETTING.findall(text):
        values.setdefault(key.decode().lower(), []).append(value.decode(errors="replace"))
    machine, address = values.get("controlmachine", [""])[-1], values.get("controladdr", [""])[-1]
    old = ["%s(%s)" % (machine, address) if address else machine] if machine else []
    mark = {
        "place": path,
        "cluster": values.get("clustername", [""])[-1],
        "controllers": values.get("slurmctldhost", old),
        "state": values.get("statesavelocation", [""])[-1],
    }
    return [mark]


def processes(slurm_uid: int) -> Iterator[Tuple[str, str]]:
    """PID and name of Slurm's daemons, also as other users by systemd, but not of users or containers."""
    space = pid_namespace("self")
    for pid in names("/proc"):
        if not pid.isdecimal():
            continue
        # After a reconfigure the name is that of Debian's file.
        name = read_bytes("/proc/%s/comm" % pid).decode(errors="replace").strip().partition("-wlm")[0]
        if name not in DAEMONS or pid_namespace(pid) != space:
            continue
        place = "/proc/" + pid
        # Users can start programs of any name, with any arguments.
        if (running.real_uid(place) in (0, slurm_uid) or is_service(pid, name)) and running.program(place).startswith(
            name
        ):
            yield pid, name


def is_service(pid: str, name: str) -> bool:
    """Whether systemd has started a daemon that runs no jobs as a service of the system, as whatever user."""
    first, place = (control_group(one) for one in ("1", pid))
    base = first[: -len("/init.scope")] if first.endswith("/init.scope") else ""
    return name in ("slurmctld", "slurmdbd") and place == "%s/system.slice/%s.service" % (base, name)


def control_group(pid: str) -> str:
    """The control group by which systemd knows a process; empty if it is unknown."""
    lines = read_bytes("/proc/%s/cgroup" % pid).decode(errors="replace").split("\n")
    found = (line.split(":", 2) for line in lines if line.startswith("0::") or ":name=systemd:" in line)
    return next((path for _, _, path in found), "")


def pid_namespace(pid: str) -> str:
    """The PID namespace of a process; empty if it is unknown."""
    try:
        return os.readlink("/proc/%s/ns/pid" % pid)
    except OSError:
        return ""


def daemon_marks(name: str, pid: str, arguments: Sequence[str]) -> List[Dict[str, Any]]:
    """The signs of a cluster that a running daemon shows by its arguments, its environment or its program's place."""
    server = after("--conf-server", arguments)
    if server:
        place = "%s --conf-server %s" % (name, server)
        first = server.split(",")[0].strip("[]").rpartition(":")
        return conf_marks("", CONFS[1]) or [{"place": place, "cluster": "", "controllers": [first[0] or first[2]]}]
    variables = read_bytes("/proc/%s/environ" % pid).decode(errors="replace").split("\0")
    slurm_conf = after("-f", arguments) or next(
        (v[len("SLURM_CONF=") :] for v in variables if v[:11] == "SLURM_CONF="), ""
    )
    program = os.path.realpath("/proc/%s/exe" % pid)
    prefix = os.path.dirname(os.path.dirname(program))
    if name != "slurmdbd":
        own = (prefix + "/etc/slurm.conf", prefix + "/etc/slurm/slurm.conf")
        for path in [slurm_conf] if slurm_conf else own:
            marks = conf_marks("", path)
            if marks:
                return marks
    if program.startswith(PACKAGED) and not (name == "slurmdbd" and os.path.exists(SLURMDBD_CONF)):
        return []  # it uses the files in CONFS, or has none and will end
    return [{"place": program, "cluster": "", "controllers": []}]


def after(option: str, arguments: Sequence[str]) -> str:
    """The value of an option on a command line; empty if it is not there."""
    for number, word in enumerate(arguments):
        if word.partition("=")[0] == option:
            return word.partition("=")[2] or "".join(arguments[number + 1 : number + 2])
    return ""


def digest(content: bytes) -> str:
    """The SHA-256 of a munge key or file in hexadecimal digits; empty for nothing."""
    if not content:
        return ""
    import hashlib  # slow to import, and few hosts need it

    return hashlib.sha256(content).hexdigest()
