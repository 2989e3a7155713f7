"""Starts a user's notebook server in a job, and tells the hub its port by the job's comment.

The port is told once a socket of the user's own listens on it, so that the hub never sends a user's browser to somebody
else on the same node. Only the job's user and operators can change its comment.
"""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import socket
import subprocess
import sys
import time
from typing import Dict, List

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.programs.jupyter.root import MARK

TRIES = 3  # with another port each
START_SECONDS = 180.0  # for the first start on a slow file server
POLL_SECONDS = 0.3
LEAST_INTERVAL = 30  # seconds between two looks at idle kernels
KERNEL_SECONDS = 5
"""How long a page waits for the first answers of a kernel. With Debian 13's jupyter-client 8, the classic notebook
never sees them all, and each page would wait for its default of 60 s; then it works all the same."""

SERVER = "/usr/bin/jupyterhub-singleuser"
CLASSIC = "notebook.notebookapp.NotebookApp"
LISTENS = "0A"  # the state of a listening socket in /proc/net/tcp (proc(5))


def main(first: str, last: str, idle: str, listen: str) -> int:
    """Run the server until it ends; returns its exit code.

    `first`, `last`: the ports to choose from. `idle`: seconds without use after which it ends. `listen`: its address,
    as in a URL.
    """
    for _ in range(TRIES):
        port = free_port(int(first), int(last))
        child = subprocess.Popen(command(int(idle)), env=environment(listen, port))
        signal.signal(signal.SIGTERM, lambda *_, child=child: child.terminate())
        if is_up(child, port):
            Context().must(commands.update_job(os.environ["SLURM_JOB_ID"], "Comment=%s%d" % (MARK, port)))
            return child.wait()
        if child.poll() is None:
            child.kill()
    print("the server did not start on any of %d ports" % TRIES, file=sys.stderr)  # noqa: T201 - the job's output
    return 1


def free_port(first: int, last: int) -> int:
    """A port on which nobody listens now. Raises OSError if there is none."""
    ports = list(range(first, last + 1))
    random.shuffle(ports)
    for port in ports:
        with socket.socket() as one:
            try:
                one.bind(("", port))
            except OSError:
                continue
            return port
    raise OSError("no port from %d to %d is free" % (first, last))


def environment(listen: str, port: int) -> Dict[str, str]:
    """The server's environment: the job's, and where it listens.

    JupyterLab is used where the site has installed it; the package of the hub brings the classic notebook.
    """
    prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "/")
    own = {"JUPYTERHUB_SERVICE_URL": "http://%s:%d%s" % (listen, port, prefix)}
    if importlib.util.find_spec("jupyterlab") is None:
        own["JUPYTERHUB_SINGLEUSER_APP"] = CLASSIC
    return {**os.environ, **own}


def command(idle: int) -> List[str]:
    """The server with its limits: kernels without work and terminals without use end first, and then the server."""
    interval = max(LEAST_INTERVAL, idle // 4)
    return [
        SERVER,
        "--MappingKernelManager.cull_idle_timeout=%d" % idle,
        "--MappingKernelManager.cull_interval=%d" % interval,
        "--MappingKernelManager.cull_connected=True",
        "--MappingKernelManager.kernel_info_timeout=%d" % KERNEL_SECONDS,
        "--TerminalManager.cull_inactive_timeout=%d" % idle,
        "--TerminalManager.cull_interval=%d" % interval,
        "--NotebookApp.shutdown_no_activity_timeout=%d" % idle,
        "--ServerApp.shutdown_no_activity_timeout=%d" % idle,
    ]


def is_up(child: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until the server listens, or has ended; whether a socket of this user listens on the port."""
    deadline = time.monotonic() + START_SECONDS
    while child.poll() is None and time.monotonic() < deadline:
        if is_own(port):
            return True
        time.sleep(POLL_SECONDS)
    return False


def is_own(port: int) -> bool:
    """Whether a socket of this user listens on a port of this node."""
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(path, encoding="ascii") as file:
            for fields in map(str.split, file.readlines()[1:]):
                is_port = fields[1].rpartition(":")[2] == "%04X" % port
                if is_port and fields[3] == LISTENS and fields[7] == str(os.getuid()):
                    return True
    return False
