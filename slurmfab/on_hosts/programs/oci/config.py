"""The configuration of a container in a job: that of its bundle, as slurmstepd has filled it in, with the job's own.

Sources: config.json in the runtime specification of the Open Container Initiative; oci.conf(5).
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, Mapping, NamedTuple, Optional, Sequence

from slurmfab.on_hosts.programs.containers import pmi
from slurmfab.on_hosts.programs.containers.driver import PLACE, Pairs

NO_HOME = "slurmfab.home"  # an annotation of a bundle; with the value `no`, its containers do not have the user's home

OTHER_PLACE = "/dev/nvidia-driver"
KEPT = ("HOME", "TERM")  # variables that an image does not set: they are those of the job

SLURMS, BATCH = "/tmp/slurm/", "/dev/slurm-batch/"  # noqa: S108 - the first is Slurm's choice
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MEMORY = "/dev/shm"  # noqa: S108 - the job's own shared memory

NO_MPI = (
    "this Slurm gives a container nothing of its server for MPI, so its tasks would not find each other: run an MPI "
    "program in a container by `srun sdocker run` or `srun apptainer exec`; one without MPI runs with srun --mpi=none"
)
DEVICE, PLAIN, READ_ONLY = ("bind", "rw", "nosuid", "noexec"), ("rbind", "rw", "nosuid", "nodev"), ("bind", "ro")

Config = Dict[str, Any]


class Job(NamedTuple):
    """What a container gets from its job."""

    uid: int  # the user, who is root in the container and nobody else outside
    gid: int
    gpus: Sequence[str] = ()
    others: Sequence[str] = ()  # device files that go with them
    driver: Pairs = ()  # files of the driver: the path of each on the host, and in the container
    home: str = ""  # the user's home; empty if the container does not have it
    directories: Sequence[str] = ()  # further directories of the host that the container sees, at the same paths
    has_mpi: bool = False  # whether its tasks find each other by PMIx
    has_socket: bool = False  # whether the first file that is passed on leads to Slurm's server of PMI-2


def of_job(config: Mapping[str, Any], image: Mapping[str, str], job: Job) -> Config:
    """The configuration with what the job has.

    Limits of the bundle's own are left out, because the job's hold: those of its control groups, and of setrlimit.
    `config`: the configuration that slurmstepd has made of the bundle's. `image`: variables that the image sets.
    """
    process = {key: value for key, value in config.get("process", {}).items() if key != "rlimits"}
    linux = {key: value for key, value in config.get("linux", {}).items() if key not in ("resources", "cgroupsPath")}
    words, root = list(process.get("args", ())), config.get("root", {}).get("path", "")
    # PMIx's server compares the number that a process says it has with that of the job's user.
    uid, gid = (job.uid, job.gid) if job.has_mpi else (0, 0)
    dropped = ("user", *(("pid",) if job.has_mpi else ()))
    return {
        **config,
        "process": {
            **process,
            "args": [*map(moved, words[:1]), *words[1:]],
            "user": {"uid": uid, "gid": gid},
            "env": environment(process.get("env", ()), image, job, driver_place(root)),
        },
        "mounts": mounts(config, job),
        "linux": {
            **linux,
            "namespaces": [
                *(one for one in linux.get("namespaces", ()) if one.get("type") not in dropped),
                {"type": "user"},
            ],
            "uidMappings": [{"containerID": uid, "hostID": job.uid, "size": 1}],
            "gidMappings": [{"containerID": gid, "hostID": job.gid, "size": 1}],
        },
    }


def mounts(config: Mapping[str, Any], job: Job) -> list[Config]:
    """The mounts of a container: the directories of the job, those of the configuration, and the GPUs.

    The directories come first: a bundle is usually in the home, which then does not show what is mounted in the bundle.
    `config`: the configuration that slurmstepd has made.
    """
    root = config.get("root", {}).get("path", "")
    given = [{**one, "destination": moved(one.get("destination", ""))} for one in config.get("mounts", ())]
    taken = ("", *(one["destination"].rstrip("/") for one in given if one.get("type") in ("bind", "none")))
    wanted = [path for path in (job.home, *job.directories) if path not in taken and has_room(root, path)]
    # Processes of one program share memory, and tell each other by their numbers.
    has_dev = any(one["destination"].rstrip("/") == "/dev" for one in given)
    shared = (*((MEMORY,) if has_dev else ()), *(("/proc",) if job.has_mpi else ()))
    return [
        *(_mount(path, path, PLAIN) for path in wanted),
        *(one for one in given if one["destination"] not in shared),
        *(_mount(path, path, ("rbind",)) for path in shared),
        *(_mount(path, path, DEVICE) for path in (*job.gpus, *job.others)),
        *(_mount(path, driver_place(root) + inside[len(PLACE) :], READ_ONLY) for path, inside in job.driver),
    ]


def moved(path: str) -> str:
    """The path in a container of a batch job's script and output, which Slurm mounts in /tmp."""
    return BATCH + path[len(SLURMS) :] if path.startswith(SLURMS) else path


def environment(pairs: Iterable[str], image: Mapping[str, str], job: Job, place: str = PLACE) -> list[str]:
    """A container's variables: the image's own stay, else the job's, the last of each, and the driver's place."""
    found = variables_of(pairs)
    found.update({name: value for name, value in image.items() if name not in KEPT})
    if "PATH" not in image:
        found["PATH"] = DEFAULT_PATH
    if job.home:
        found["HOME"] = job.home
    if job.gpus:
        found.setdefault("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(len(job.gpus)))))
    if job.has_mpi:
        # Its other ways are files of the server's, in a directory for which an image need have no room.
        found.setdefault("PMIX_MCA_gds", "hash")
    if job.has_socket:
        found[pmi.PMI2] = str(pmi.PASSED_ON)
    if job.driver:
        found["PATH"] = _joined(found["PATH"], place + "/bin")
        # The host's own says where libraries are on the host.
        found["LD_LIBRARY_PATH"] = _joined(image.get("LD_LIBRARY_PATH", ""), place + "/lib64")
    return ["%s=%s" % pair for pair in found.items()]


def variables_of(pairs: Iterable[str]) -> dict[str, str]:
    """Names and values of variables in the form NAME=VALUE."""
    split = (pair.partition("=") for pair in pairs)
    return {name: value for name, _, value in split if name}


def driver_place(root: str) -> str:
    """Where a container has the driver: below /dev if the bundle has no room elsewhere, as somebody else's."""
    return PLACE if has_room(root, PLACE + "/lib64") else OTHER_PLACE


def has_room(root: str, path: str) -> bool:
    """Whether a mount point is, or can be made, in a bundle's file system; always below /dev."""
    place = root + path
    while place != root and not os.path.lexists(place):
        place = os.path.dirname(place)
    return path.startswith("/dev/") or place == root + path or os.access(place, os.W_OK)


def _mount(source: str, destination: str, options: Sequence[str]) -> Config:
    return {"destination": destination, "type": "bind", "source": source, "options": list(options)}


def _joined(paths: str, path: str) -> str:
    """A list of directories with one more, unless it is there."""
    there = [one for one in paths.split(":") if one]
    return ":".join(there if path in there else [*there, path])


def annotation(config: Optional[Mapping[str, Any]], name: str) -> str:
    """An annotation of a bundle; empty if it has none."""
    return str(((config or {}).get("annotations") or {}).get(name, ""))
