"""The command `sdocker`: Podman with the habits of `docker run`, and with the GPUs, home and scratch of a job."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from typing import Any, Iterator, List, Mapping, NamedTuple, Sequence, Set, Tuple

from slurmfab.on_hosts.programs.containers import driver, gpus, pmi

PODMAN = "/usr/bin/podman"
LABEL = "slurmfab.job"
"""A label of containers that go at their end: what is left of them when a job was ended may be removed."""

RUNTIME = "/run/user/%d"
OF_PODMAN = ("libpod", "containers", "crun", "runc")
"""What Podman and its runtimes keep until the next boot, in the user's directory in /run."""

AT_WORK = frozenset(("podman", "conmon", "catatonit", "crun", "runc"))
"""Programs of a container, by which Podman finds it."""

FLAGS = frozenset(
    f"--{name}"
    for name in (
        "detach", "disable-content-trust", "env-host", "help", "http-proxy", "init", "interactive", "no-healthcheck",
        "no-hosts", "no-hostname", "oom-kill-disable", "passwd", "privileged", "publish-all", "quiet", "read-only",
        "read-only-tmpfs", "replace", "rm", "rmi", "rootfs", "sig-proxy", "tls-verify", "tty",
    )
)  # fmt: skip
"""Options of `podman run` without a value; all others have one."""

SHORT_FLAGS = frozenset("diqtP")  # letters of options without a value, which may follow each other as in `-it`

VOLUMES = frozenset({"-v", "--volume", "--mount"})
CLOSED = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var")
"""Directories of the system, which an image has itself: a working directory there is not mounted."""

QUIET: Mapping[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

OF_MPI = ("--env=PMIX_MCA_gds=hash", "--env=OMPI_MCA_btl=^sm,vader")
"""What a container of an MPI program lacks: the files of PMIx's server, and numbers of processes that differ from those
of the program's other containers, by which Open MPI (5: sm, 4: vader) tells who shares its memory."""

OF_PMI2 = ("--preserve-fds=1", "--env=%s=%d" % (pmi.PMI2, pmi.PASSED_ON))

TOLD = ("SLURM", "CUDA_VISIBLE_DEVICES", "PMIX_", "PMI_", "OMPI_MCA_", "PRTE_MCA_")
"""How the names of variables begin that a container gets: those of Slurm, of CUDA and of MPI."""

NO_JOB = "sdocker: this is not in a job: the container has no GPU, and only the limits of this session."


class Call(NamedTuple):
    """A call of `run` or `create` as it was written."""

    options: Tuple[str, ...]  # the user's options, without those about GPUs
    names: Set[str]  # their names, such as `--volume`; letters such as `-v`
    targets: Set[str]  # the directories in the container that they mount something at
    rest: Tuple[str, ...]
    has_gpus: bool  # whether all GPUs were asked for, as by `--gpus all`


def command(
    words: Sequence[str], environment: Mapping[str, str], scratch: str = "", *, has_socket: bool = False
) -> List[str]:
    """The call of Podman for a call of sdocker.

    `scratch`: the variable with a job's directory, if any. `has_socket`: whether the first file that is passed on leads
    to Slurm's server of PMI-2.
    """
    if not words or words[0] not in ("run", "create"):
        return [PODMAN, *words]
    call = parsed(words[1:])
    devices = gpus.of_job(environment)
    return [
        PODMAN,
        words[0],
        *habits(call, environment),
        *mounts(call, environment, of_job(environment, scratch)),
        *variables(environment, of_job(environment, scratch)),
        *(OF_PMI2 if has_socket else ()),
        *of_gpus(devices),
        *call.options,
        *call.rest,
    ]


def parsed(words: Sequence[str]) -> Call:
    """Tell the options of a call from the image and the command."""
    options: List[str] = []
    names: Set[str] = set()
    targets: Set[str] = set()
    place, has_gpus = 0, False
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        word = words[place]
        name, mark, value = word.partition("=")
        size = 1 if mark or is_flag(name) or (not name.startswith("--") and len(name) > len("-v")) else 2
        if size > 1:
            value = words[place + 1] if place + 1 < len(words) else ""
        elif not mark and not name.startswith("--") and not is_flag(name):
            name, value = name[:2], name[2:]
        if name == "--gpus" or (name == "--runtime" and value == "nvidia"):
            has_gpus = True
        else:
            options += words[place : place + size]
            names.add(name)
            targets |= {target_of(name, value)} if name in VOLUMES else set()
        place += size
    return Call(tuple(options), names, targets, tuple(words[place:]), has_gpus)


def is_flag(name: str) -> bool:
    """Whether an option has no value."""
    return name in FLAGS or (not name.startswith("--") and set(name[1:]) <= SHORT_FLAGS)


def target_of(name: str, value: str) -> str:
    """The directory in the container of an option that mounts something."""
    if name == "--mount":
        fields = dict(field.partition("=")[::2] for field in value.split(","))
        found = next((fields[key] for key in ("target", "dst", "destination") if key in fields), "")
    else:
        found = value.split(":")[1 if ":" in value else 0]
    return os.path.normpath(found) if found else ""


def habits(call: Call, environment: Mapping[str, str]) -> List[str]:
    """What every container gets: an init, its user's own UID, shared memory as large as the host's, no remains."""
    found = []
    if not call.names & {"--init", "--systemd"}:
        found.append("--init")
    if pmi.PMIX_RANK in environment:
        found += OF_MPI
    if not call.names & {"--rm", "--restart"}:
        found += ["--rm", "--label=" + LABEL]
    if not call.names & {"--userns", "--uidmap", "--pod"}:
        found.append("--userns=keep-id")
    if not call.names & {"--ipc", "--shm-size", "--pod"}:
        found.append("--ipc=host")
    return found


def of_job(environment: Mapping[str, str], scratch: str) -> List[str]:
    """The variables that tell directories of the job.

    Tasks of an MPI program have directories for temporary files of their own, in which they keep themselves apart by
    numbers of processes; these are the same in each container.
    """
    names = (scratch, "" if pmi.PMIX_RANK in environment else "TMPDIR")
    return [name for name in dict.fromkeys(names) if name and environment.get(name)]


def mounts(call: Call, environment: Mapping[str, str], names: Sequence[str]) -> List[str]:
    """The home, the working directory and the job's own directories, unless the user mounts something there."""
    home, here = environment.get("HOME", ""), working_directory()
    wanted = [home, here if is_open(here) else "", *(environment[name] for name in names)]
    found: List[str] = []
    seen: List[str] = []
    for path in wanted:
        inside = any((path + "/").startswith(one + "/") for one in seen)
        if path in ("", "/") or inside or path in call.targets or ":" in path or not os.path.isdir(path):
            continue
        seen.append(path)
        found.append("--volume=%s:%s" % (path, path))
    if is_open(here) and not call.names & {"-w", "--workdir"} and os.path.isdir(here):
        found.append("--workdir=%s" % here)
    return found


def working_directory() -> str:
    """The working directory; empty if it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def is_open(path: str) -> bool:
    """Whether a directory can be mounted where an image has directories of its own."""
    return path not in ("", "/") and not any((path + "/").startswith(one + "/") for one in CLOSED)


def variables(environment: Mapping[str, str], names: Sequence[str]) -> List[str]:
    """What Slurm tells jobs, CUDA and MPI, and the job's directories."""
    return ["--env=%s" % name for name in (*(one for one in sorted(environment) if one.startswith(TOLD)), *names)]


def of_gpus(devices: Sequence[str]) -> List[str]:
    """Options for device files of a job: by the host's list (CDI), or else each file and the driver's libraries."""
    if not devices:
        return []
    named = gpus.named_devices(devices)
    if named:
        return ["--device=%s" % name for name in named]
    return [*("--device=%s" % path for path in devices), *driver_files()]


def driver_files() -> List[str]:
    """Mounts of the driver's libraries, and of programs where each image finds them, which images do not have."""
    pairs = [*driver.files(tools=()), *((path, path) for path in driver.TOOLS if os.path.isfile(path))]
    return ["--volume=%s:%s:ro" % (os.path.realpath(path), inside) for path, inside in pairs]


def forget_ended(uid: int, runtime: str = RUNTIME, proc: str = "/proc") -> bool:
    """Have Podman forget containers that ended with another job; whether there were any.

    Slurm ends all processes of a job, also the one by which Podman finds its containers. Podman then refuses to work,
    until it takes the loss of its files in /run for a boot. `runtime`: the user's directory in /run, with a place for
    the UID.
    """
    directory = runtime % uid
    if not os.path.isdir(directory + "/libpod"):
        return False
    with open(directory + "/slurmfab-podman.lock", "w", encoding="utf-8") as lock:
        # Another task of the job may do the same; once its Podman has begun, that is at work.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if any(name in AT_WORK for name in processes(uid, proc)):
            return False
        for name in OF_PODMAN:
            shutil.rmtree("%s/%s" % (directory, name), ignore_errors=True)
    return True


def processes(uid: int, proc: str) -> Iterator[str]:
    """Yield the names of a user's processes."""
    for number in os.listdir(proc):
        try:
            if number.isdecimal() and os.stat("%s/%s" % (proc, number)).st_uid == uid:
                with open("%s/%s/comm" % (proc, number), encoding="utf-8", errors="replace") as file:
                    yield file.read().strip()
        except OSError:
            continue


def run(words: Sequence[str], scratch: str = "") -> int:
    """Become Podman; the exit code if that fails. `scratch`: as for `command`."""
    environment = dict(os.environ)
    runtime = RUNTIME % os.getuid()
    if os.path.isdir(runtime) and os.stat(runtime).st_uid == os.getuid():
        environment["XDG_RUNTIME_DIR"] = runtime
    else:
        # That of the session from which the job was submitted, on another host; without any, Podman takes one in /tmp.
        environment.pop("XDG_RUNTIME_DIR", None)
    # Podman 5 warns about control groups of version 1 at each call; their limits hold for containers as for other jobs.
    environment.setdefault("PODMAN_IGNORE_CGROUPSV1_WARNING", "1")
    if forget_ended(os.getuid()):
        filters = ("--filter", "label=" + LABEL)
        subprocess.run([PODMAN, "container", "prune", "--force", *filters], env=environment, check=False, **QUIET)
    is_run = bool(words) and words[0] in ("run", "create")
    if is_run and not gpus.in_job(environment):
        print(NO_JOB, file=sys.stderr)  # noqa: T201 - this is a command
    elif is_run and parsed(words[1:]).has_gpus and not gpus.of_job(environment):
        print("sdocker: the job has no GPU; ask for one with --gres=gpu:1.", file=sys.stderr)  # noqa: T201
    try:
        has_socket = is_run and pmi.keep_socket(environment)
        call = command(words, environment, scratch, has_socket=has_socket)
        os.execve(PODMAN, call, environment)  # noqa: S606 - no shell is needed
    except OSError as error:
        print("sdocker: %s: %s" % (PODMAN, error.strerror), file=sys.stderr)  # noqa: T201
    return 127
