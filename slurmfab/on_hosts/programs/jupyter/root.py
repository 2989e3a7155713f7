"""What root does for the hub: prove a password, and submit, look at and cancel servers as their users.

The hub talks to the network, so it is a user of its own without rights. systemd starts this for each connection, and
only the hub's user is answered. Root asks PAM, and becomes the user for all of Slurm's commands; what the job runs is
written here and not by the hub.
"""

from __future__ import annotations

import hmac
import json
import os
import pwd
import re
import socket
import struct
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Mapping

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.agent.core.language import ENGLISH, SYSTEM_PATH
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.identities.powerful_users import FIRST_OF_PEOPLE, Powerful, why_powerful, with_id
from slurmfab.on_hosts.agent.identities.users_and_groups import group_name
from slurmfab.on_hosts.programs.jupyter import options, pam
from slurmfab.on_hosts.programs.jupyter.asking import read_line
from slurmfab.on_hosts.programs.jupyter.places import JUPYTER_PROGRAM, JUPYTER_RUN, JUPYTER_TICKET

SECONDS = 30.0  # time limit of each of Slurm's commands
NOBODY = 65534  # the UID of nobody
TICKET_SECONDS = 60.0
JOB_NAME = "jupyter"
MARK = "slurmfab-jupyter:"  # begins the comment by which a job tells its port
MOST_LETTERS = 300  # of what sbatch says

ENVIRONMENT = r"JUPYTERHUB_[A-Z_]{1,40}|JPY_API_TOKEN"
"""The variables that JupyterHub gives its servers; no other one comes from the hub."""

ALIVE = frozenset({"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD", "RESIZING", "STOPPED"})
"""States of a job that has not ended."""

ADMIN_LEVEL = re.compile(r"\bAdminLevel=(Operator|Administrator)\b")
UNKNOWN_JOB = b"Invalid job id"  # what squeue says of a job that slurmctld has forgotten, or never had


def main() -> int:
    """Answer one request on standard input, which is the connection; returns the exit code."""
    with socket.socket(fileno=os.dup(0)) as connection:
        connection.settimeout(SECONDS)
        if not is_hub(connection):
            return 1
        request = json_objects.parse(read_line(connection)) or {}
        connection.sendall(json.dumps(answer(request)).encode() + b"\n")
    return 0


def is_hub(connection: socket.socket) -> bool:
    """Whether the other end is the hub: systemd gives its directory in /run to the user that it makes for it."""
    size = struct.calcsize("3i")
    uid: int = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[1]
    try:
        return bool(uid) and uid == os.stat(JUPYTER_RUN).st_uid
    except OSError:
        return False


def answer(request: Mapping[str, Any]) -> Dict[str, Any]:
    """The answer to a request: values, or `error` with the reason for the user."""
    try:
        do = DOES[str(request.get("do"))]
        who = person(str(request.get("user")), options.read().denied)
        return do(who, request)
    except KeyError as error:
        return {"error": "%s is missing, or nothing that can be done" % error}
    except (ValueError, ResourceFailed, OSError, subprocess.SubprocessError) as error:
        print("%s: %s" % (ascii(request.get("do")), error), file=sys.stderr)  # noqa: T201 - the journal
        return {"error": str(error)}


def person(name: str, denied: Any) -> pwd.struct_passwd:
    """A user who may have a server: a person's account that can log in.

    `denied`: users whose jobs could do more than a user's, such as slurm. Raises ValueError for others.
    """
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise ValueError("there is no such user") from None
    is_person = found.pw_uid >= FIRST_OF_PEOPLE and found.pw_uid != NOBODY and found.pw_name not in denied
    if not is_person or found.pw_shell.endswith(("/nologin", "/false")):
        raise ValueError("this user can have no server here")
    return found


def refuse_powerful(who: pwd.struct_passwd, offer: options.Offer) -> None:
    """Refuse, by ValueError with the reason, a user by whose server somebody who has the hub would become more."""
    context = Context()
    numbers = os.getgrouplist(who.pw_name, who.pw_gid)
    # A group has more than one name where another line of /etc/group has its number.
    groups = [
        name
        for number in numbers
        for name in (group_name(context, number), *with_id(context, "/etc/group", str(number)))
    ]
    more = Powerful({*offer.powerful}, {*offer.powerful_groups})
    why = why_powerful(context, who, groups, more)
    if not why:
        shown = context.must(commands.admin_level(who.pw_name), seconds=SECONDS)
        level = next(iter(ADMIN_LEVEL.findall(shown)), "")
        why = "it has the AdminLevel %s in Slurm" % level if level else ""
    if why:
        raise ValueError(
            "%s gets no notebook: %s, so whoever takes over the hub could, too. Use a user without such rights"
            % (who.pw_name, why)
        )


def login(who: pwd.struct_passwd, request: Mapping[str, Any]) -> Dict[str, Any]:
    """Whether `password` is the user's; the user's name as the host writes it."""
    password = str(request["password"])
    if not (is_ticket(who.pw_name, password) or pam.is_password_of(who.pw_name, password)):
        raise ValueError("the password is wrong, or the account is closed")
    return {"user": who.pw_name}


def is_ticket(user: str, password: str) -> bool:
    """Whether root of this host has written that this user logs in now with this password, once."""
    try:
        with open(JUPYTER_TICKET, encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            wanted = file.read(1000)
    except OSError:
        return False
    is_roots = status.st_uid == 0 and not status.st_mode & 0o077
    if not is_roots or not hmac.compare_digest(wanted.encode(), ("%s %s" % (user, password)).encode()):
        return False
    os.unlink(JUPYTER_TICKET)
    return time.time() - status.st_mtime < TICKET_SECONDS


def submit(who: pwd.struct_passwd, request: Mapping[str, Any]) -> Dict[str, Any]:
    """Submit the user's server, with the answers of the form in `options` and the hub's variables in `environment`."""
    offer = options.read()
    refuse_powerful(who, offer)
    wanted = options.checked(dict(request["options"]), offer)
    argv = ["sbatch", "--parsable", "--job-name=" + JOB_NAME, "--no-requeue", "--chdir=" + who.pw_dir,
            "--output=.slurmfab-jupyter.log", "--open-mode=truncate", *wanted.of_sbatch()]  # fmt: skip
    program = "/usr/bin/python3 -E -s -B %s/run.py server" % JUPYTER_PROGRAM
    script = "#!/bin/bash -l\nexec %s %d %d %d '%s'\n" % (program, *offer.ports, offer.idle, offer.listen)
    done = subprocess.run(
        argv,
        input=script.encode(),
        capture_output=True,
        timeout=SECONDS,
        env={**variables(who), **of_hub(request["environment"])},
        cwd="/",
        user=who.pw_uid,
        group=who.pw_gid,
        extra_groups=os.getgrouplist(who.pw_name, who.pw_gid),
        check=False,
    )
    job = done.stdout.decode(errors="replace").strip().partition(";")[0]
    if done.returncode != 0 or not job.isdecimal():
        said = done.stderr.decode(errors="replace").replace("sbatch: error: ", "").strip()
        raise ValueError("Slurm takes no such job: %s" % said[:MOST_LETTERS])
    return {"job": job}


def variables(who: pwd.struct_passwd) -> Dict[str, str]:
    """The environment of the user's own commands, as a login has it."""
    return {
        "HOME": who.pw_dir,
        "USER": who.pw_name,
        "LOGNAME": who.pw_name,
        "SHELL": who.pw_shell,
        "PATH": SYSTEM_PATH,
        **ENGLISH,
    }


def of_hub(environment: Mapping[str, Any]) -> Dict[str, str]:
    """The hub's variables for a server."""
    return {
        name: str(value)
        for name, value in environment.items()
        if re.fullmatch(ENVIRONMENT, name, re.ASCII) and value is not None and "\0" not in str(value)
    }


def state(who: pwd.struct_passwd, request: Mapping[str, Any]) -> Dict[str, Any]:
    """The state of the user's `job`: whether it is alive, why it waits, its node, and the port that it has told."""
    table = commands.jobs(("UserName", "State", "Reason", "NodeList", "Comment"), "--jobs=" + job_of(request))
    context = Context()
    done = context.run(table.argv, seconds=SECONDS, env=table.env, account=(who.pw_uid, who.pw_gid))
    if done.returncode != 0 and UNKNOWN_JOB not in done.stderr:
        raise ResourceFailed("squeue: %s" % done.stderr.decode(errors="replace").strip()[:MOST_LETTERS])
    rows = table.rows(done.stdout.decode(errors="replace")) if done.returncode == 0 else []
    for user, now, reason, node, comment in rows:
        if user == who.pw_name and now in ALIVE:
            port = port_in(comment) if now == "RUNNING" else 0
            return {"alive": True, "state": now, "reason": reason, "node": node, "port": port}
    return {"alive": False, "state": rows[0][1] if rows else "GONE", "reason": "", "node": "", "port": 0}


def port_in(comment: str) -> int:
    """The port that a job's comment tells; 0 for none, and for one that is not for servers."""
    found = re.fullmatch(MARK + r"(\d{1,5})", comment, re.ASCII)
    first, last = options.read().ports
    return int(found[1]) if found and first <= int(found[1]) <= last else 0


def cancel(who: pwd.struct_passwd, request: Mapping[str, Any]) -> Dict[str, Any]:
    """Cancel the user's `job`; nothing where it is another user's, whom an operator of Slurm could cancel."""
    if not state(who, request)["alive"]:
        return {}
    Context().must(commands.cancel([job_of(request)]), seconds=SECONDS, account=(who.pw_uid, who.pw_gid))
    return {}


def job_of(request: Mapping[str, Any]) -> str:
    """The id of the job that a request is about. Raises ValueError if it is none."""
    job = str(request["job"])
    if not re.fullmatch(r"\d{1,10}", job, re.ASCII):
        raise ValueError("%s is not the id of a job" % ascii(job[:80]))
    return job


DOES: Dict[str, Callable[[pwd.struct_passwd, Mapping[str, Any]], Dict[str, Any]]] = {
    "login": login,
    "submit": submit,
    "state": state,
    "cancel": cancel,
}
"""What the hub can ask for, by the word for it."""
