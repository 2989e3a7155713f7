"""The runtime that oci.conf names: it starts a container in its job's own control groups, with the job's GPUs.

slurmstepd runs `run` as the user, and waits for it; `query`, `kill` and `delete` as root, at the end of a step. crun's
record of a container belongs to the user, so root does not let crun read it: the processes are ended by slurmstepd,
which knows all of a step's.
"""

from __future__ import annotations

import glob
import json
import os
import pwd
import stat
import sys
from typing import Any

from slurmfab.on_hosts.programs.containers import driver, gpus, pmi
from slurmfab.on_hosts.programs.oci import config, records

CRUN = "/usr/bin/crun"
FAILED = 125  # exit code of a container that was not started, as podman has it

CLEAN = {"PATH": config.DEFAULT_PATH, "LANG": "C.UTF-8"}
"""The environment of crun: of slurmd's own, a container shall see nothing."""


def run(bundle: str, task: str, names: str) -> int:
    """Become crun, which runs a container.

    Args:
        bundle: the directory with the configuration that slurmstepd has made (%b).
        task: numbers of job, step and task, as 12.0.3.
        names: variables that name directories of the job, separated by commas.

    Returns:
        The exit code if that failed; the reason is on standard error.
    """
    try:
        made = read(os.path.join(bundle, "config.json"))
        variables = config.variables_of(made.get("process", {}).get("env", ()))
        has_socket = pmi.keep_socket(variables)
        text = json.dumps(whole(made, variables, names.split(","), has_socket))
        record = records.make(task)
        # It is passed on as an open file: slurmstepd would leave its directory behind with another file in it.
        file = os.memfd_create("config.json", 0)
        with open(file, "wb", closefd=False) as out:
            out.write(text.encode())
        kept = ["--preserve-fds=1"] if has_socket else []
        words = ["--root", record, "--cgroup-manager=disabled", "run", "--bundle", bundle, *kept]
        os.execve(CRUN, ["crun", *words, "--config", "/proc/self/fd/%d" % file, "slurm-" + task], CLEAN)  # noqa: S606
    except (OSError, ValueError, AttributeError, TypeError) as error:
        print("slurmfab: the container was not started: %s" % error, file=sys.stderr)  # noqa: T201
    return FAILED


def whole(made: dict[str, Any], variables: dict[str, str], names: list[str], has_socket: bool = False) -> config.Config:
    """The configuration of a container of this process's job.

    Args:
        made: the configuration that slurmstepd has made.
        names: variables that name directories of the job.
        has_socket: whether the first file that is passed on leads to Slurm's server of PMI-2.

    Raises:
        OSError: the bundle's own configuration cannot be read.
        ValueError: it is no JSON, or Slurm tells the tasks of an MPI program nothing of each other.
    """
    has_mpi = pmi.PMIX_RANK in variables
    tasks = variables.get("SLURM_STEP_NUM_TASKS", "1")
    if not (has_mpi or has_socket) and variables.get("SLURM_MPI_TYPE", "").startswith("pmi") and tasks != "1":
        raise ValueError(config.NO_MPI)
    bundle = variables.get("SLURM_CONTAINER") or os.path.dirname(made.get("root", {}).get("path", ""))
    own = read(os.path.join(bundle, "config.json"))
    cards, others = devices()
    job = config.Job(
        os.getuid(),
        os.getgid(),
        cards,
        others,
        driver.files() if cards else (),
        home_of(own),
        directories(variables, names),
        has_mpi,
        has_socket,
    )
    # Slurm 22.05 takes the root to be `rootfs`, whatever the bundle says.
    root = {**own.get("root", {}), "path": os.path.join(bundle, own.get("root", {}).get("path", "rootfs"))}
    return config.of_job({**made, "root": root}, config.variables_of(own.get("process", {}).get("env", ())), job)


def devices(dev: str = gpus.DEV) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The device files of a job's GPUs, and others that go with them, by what Slurm lets it open; or none."""
    cards = ["%s/nvidia%d" % (dev, number) for number in sorted(gpus.present(dev))]
    mine = tuple(path for path in cards if gpus.is_allowed(path))
    parts = tuple(path for path in sorted(glob.glob("%s/%s" % (dev, gpus.CAPABILITIES))) if gpus.is_allowed(path))
    return mine, (*gpus.control_files(dev), *parts) if mine else ()


def home_of(own: dict[str, Any]) -> str:
    """The user's home; empty if this host does not have it, or the bundle's configuration leaves it out."""
    home = pwd.getpwuid(os.getuid()).pw_dir
    is_wanted = config.annotation(own, config.NO_HOME) != "no" and os.path.normpath(home) != "/"
    return home if is_wanted and os.path.isdir(home) else ""


def directories(variables: dict[str, str], names: list[str]) -> tuple[str, ...]:
    """Host directories in a container besides home: /tmp, and the job's own by `names`, if the user's."""
    mine = [path for path in (variables.get(name, "") for name in names) if is_mine(path)]
    return tuple(dict.fromkeys(("/tmp", *mine)))  # noqa: S108 - the job's own


def is_mine(path: str) -> bool:
    """Whether a path is that of a directory of this process's user, without detours."""
    if not path.startswith("/") or os.path.normpath(path) != path:
        return False
    try:
        about = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()


def read(path: str) -> dict[str, Any]:
    """The configuration in a file. Raises OSError if it cannot be read. Raises ValueError if it is no JSON object."""
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    if not isinstance(found, dict):
        raise ValueError("%s is no JSON object" % path)
    return found
