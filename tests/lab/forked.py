"""Runs slurmfab as forks of a server process that has already imported most of its modules.

Loading Python and the libraries takes a third of the processor time of a short run, and lab tests make about a thousand
runs. Runs that tests interrupt or kill, and all runs of unit tests, start a new Python, as users do.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import slurmfab
from slurmfab.cluster.slurm import render
from slurmfab.lab.command import TIED

LARGEST = 1 << 20
"""Bytes to read from the socket at once; a request is a command line with its environment."""

START = """
import sys
sys.path.insert(0, sys.argv[1])
sys.argv = [sys.argv[2], sys.argv[3]]
from slurmfab.base import program_name
program_name.FAB = "slurmfab"
import forked
forked.serve(int(sys.argv.pop()))
"""
"""Program of the server. It sets the program's name before the imports, because modules read it when imported."""


@cache
def server() -> str:
    """Path of the server's socket; starts the server on first use. The server ends with this process."""
    place = tempfile.mkdtemp(prefix="slurmfab-tests-")
    path = f"{place}/socket"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)
        program = str(Path(slurmfab.__path__[0], "__main__.py"))
        argv = [*TIED, sys.executable, "-c", START, str(Path(__file__).parent), program, str(listening.fileno())]
        started = subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=[listening.fileno()])
    atexit.register(end, started, Path(path))
    return path


def end(started: subprocess.Popen[bytes], path: Path) -> None:
    """End the server and remove its socket."""
    started.kill()
    started.wait()
    path.unlink()
    path.parent.rmdir()


def run(
    words: tuple[str, ...], *, stdin: str, cwd: Path | None, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `python -m slurmfab`, like `subprocess.run` with captured output.

    Args:
        words: command-line arguments.
        stdin: text for standard input.
        cwd: working directory; `None` for the current one.
        env: the complete environment.
        timeout: seconds until the run is killed.

    Raises:
        TimeoutError: the run took longer than `timeout`.
    """
    with (
        tempfile.TemporaryFile("w+") as given,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        given.write(stdin)
        given.seek(0)
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(timeout)
            asking.connect(server())
            request = {"argv": words, "cwd": str(cwd or Path.cwd()), "env": dict(env)}
            socket.send_fds(asking, [json.dumps(request).encode()], [given.fileno(), out.fileno(), err.fileno()])
            asking.shutdown(socket.SHUT_WR)
            code = int(asking.recv(16))
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), err.read())


def serve(descriptor: int) -> None:
    """Fork a process for each request to the listening socket with this file descriptor; never returns."""
    load()
    listening = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        asking, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            attend(asking)
            os._exit(0)
        asking.close()


NOT_THE_DEPLOYERS = ("slurmfab.on_hosts.agent", "slurmfab.on_hosts.programs", "slurmfab.__main__", "slurmfab.fabfile")
"""Modules that run on hosts, or only as programs or in `fab`; the server does not import them."""


def load() -> None:
    """Import the modules and templates that runs need."""
    for module in pkgutil.walk_packages(slurmfab.__path__, "slurmfab."):
        if not module.name.startswith(NOT_THE_DEPLOYERS):
            importlib.import_module(module.name)
    render.load_templates()
    gc.collect()
    gc.freeze()


def attend(asking: socket.socket) -> None:
    """Run slurmfab in a child process and send its exit code; kill the child if the client disconnects."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, files, _, _ = socket.recv_fds(asking, LARGEST, 3)
    while more := asking.recv(LARGEST):
        message += more
    child = os.fork()
    if child == 0:
        asking.close()
        become(json.loads(message), files)
    ended = os.pidfd_open(child)
    waiting = select.poll()
    waiting.register(ended, select.POLLIN)
    waiting.register(asking, select.POLLHUP)
    if ended not in dict(waiting.poll()):
        signal.pidfd_send_signal(ended, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(BrokenPipeError):
        asking.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def become(request: dict[str, Any], files: list[int]) -> NoReturn:
    """Turn this process into a run of `python -m slurmfab` and exit with its code.

    Args:
        request: `argv` (arguments), `cwd` and `env`.
        files: file descriptors for standard input, output and error.
    """
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[1:] = request["argv"]
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - open as long as the process lives
    code: object = 1
    try:
        runpy.run_module("slurmfab", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as error:
        code = error.code
    except BaseException:
        traceback.print_exc()
    if not isinstance(code, int):
        sys.stderr.write(f"{code}\n" if code else "")
        code = 1 if code else 0
    # As Python does at exit: wait for threads, run atexit functions, flush the output.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
