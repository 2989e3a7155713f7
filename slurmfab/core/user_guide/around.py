"""What the guide tells of logins, files, software and containers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.mounts import BIND, Mount
from slurmfab.cluster.inventory.quota import Quota
from slurmfab.core.user_guide.markdown import code, plain
from slurmfab.core.user_guide.offer import Offer
from slurmfab.core.user_guide.tables import values_of_examples

_ROLES = {"login": "login hosts", "compute": "compute nodes", "controller": "controllers"}
"""Where users find a mount, by its roles; nobody works on the host of the database."""

_GPU_IMAGE, _IMAGE, _OWN_IMAGE = "nvcr.io/nvidia/pytorch:24.10-py3", "docker.io/library/python:3.12", "tool:1"
"""Images of examples, for clusters with GPUs and without, and the name of one in the cluster's own registry."""


def values(found: Offer) -> dict[str, Any]:
    """What the template of the guide names, of what is around Slurm."""
    cluster = found.cluster
    logins = cluster.login or cluster.controllers
    private = cluster.private_tmp.directories if cluster.private_tmp else ()
    use = cluster.container_ways
    return {
        "logins": [{"name": name} for name in logins],
        "has_login": bool(cluster.login),
        "keys": cluster.unix_users and any(user.keys for user in cluster.users),
        "login_limits": login_limits(cluster),
        "closed": cluster.node_logins == "with_job",
        "hostbased": cluster.user_ssh == "hostbased",
        "x11": cluster.x11,
        "places": [*_places(cluster)],
        "quota": {"path": cluster.quota.path, "amount": amount(cluster.quota)} if cluster.quota else None,
        "scratch": cluster.scratch,
        "private": " and ".join(map(code, private)),
        "private_is_one": len(private) == 1,
        "modules": cluster.modules is not None,
        "module_paths": cluster.modules.path if cluster.modules else (),
        "mpi": cluster.mpi is not None and cluster.mpi.kind != "none",
        "openmpi": cluster.mpi is not None and cluster.mpi.packages is not None,
        "containers": [_container(way, found) for way in use],
        "docker": "docker" in use,
        **_registry(cluster),
        "notebooks": f"https://{cluster.jupyter.host}:{cluster.jupyter.port}" if cluster.jupyter else "",
        "power": cluster.power is not None,
        "mail": cluster.mail is not None,
        "help": [plain(line) for line in cluster.motd.splitlines()] if isinstance(cluster.motd, str) else [],
    }


def login_limits(cluster: Cluster) -> str:
    """What a user may use on a login host, in words; empty for no limits."""
    limits = cluster.limits_on(cluster.login[0]) if cluster.login else None
    if limits is None:
        return ""
    memory = f"{limits.memory} of {'the ' if limits.memory.endswith('%') else ''}memory" if limits.memory else ""
    tasks = f"{limits.tasks} processes" if limits.tasks else ""
    cpus = f"{limits.cpus} CPU{'s' if limits.cpus > 1 else ''}" if limits.cpus else ""
    return ", ".join(filter(None, (memory, tasks, cpus)))


def amount(quota: Quota) -> str:
    """What a user may store, in words."""
    if quota.soft and quota.hard:
        return f"{quota.soft}, and up to {quota.hard} for a time"
    return str(quota.soft or quota.hard)


def _places(cluster: Cluster) -> Iterator[dict[str, str]]:
    """Yield the file systems on which users find files; the disk of scratch directories is told apart."""
    homes = cluster.homes or "/home"
    scratch = cluster.scratch.path if cluster.scratch else ""
    mounts = (*cluster.mounts, *(elsewhere for _, _, elsewhere in cluster.served))
    for mount in mounts:
        if mount.path != scratch and (where := _hosts(cluster, mount)):
            what = "homes" if mount.path == homes else "your home is on it" if homes.startswith(mount.path) else ""
            told = (what, _kind(mount), "read only" if mount.is_read_only else "")
            yield {"path": mount.path, "what": ", ".join(filter(None, told)), "hosts": where}


def _kind(mount: Mount) -> str:
    """Whether it is the same on all hosts."""
    if mount.is_network:
        return "the same on all of these hosts"
    return "" if mount.type == BIND else "a disk of each host's own"


def _hosts(cluster: Cluster, mount: Mount) -> str:
    """Where a mount is, in words; empty where no user works."""
    if mount.hosts is not None:
        return code(fold(mount.hosts))
    is_login = not cluster.login or not {*cluster.login}.isdisjoint(cluster.controllers)
    has = {"login": bool(cluster.login), "compute": True, "controller": is_login}
    return ", ".join(words for role, words in _ROLES.items() if role in mount.roles and has[role])


def _registry(cluster: Cluster) -> dict[str, Any]:
    """The cluster's own images."""
    registry = cluster.registry
    place = "" if registry is None else registry.pull_place if registry.anonymous_pull else registry.place
    return {
        "registry": place,
        "registry_login": _login(cluster),
        "registry_send": _sending(cluster),
        "registry_from": (
            "in the directory of its `Dockerfile`"
            if {"podman", "docker"} & set(cluster.container_ways)
            else "from its archive `image.tar`, which `docker save` makes"
        ),
        "registry_only": registry is not None and registry.only,
        "registry_allowed": registry.allowed if registry else (),
    }


def _login(cluster: Cluster) -> str:
    """How users log in to the cluster's own registry; empty where they need not, or have no program for it here."""
    registry, use = cluster.registry, cluster.container_ways
    if registry is None or registry.anonymous_pull:
        return ""
    ways = {
        "podman": f"podman login --authfile ~/.config/containers/auth.json {registry.place}",
        "oci": f"skopeo login --authfile ~/.config/containers/auth.json {registry.place}",
        "apptainer": f"apptainer registry login --username $USER docker://{registry.place}",
        "docker": f"docker login {registry.place}",
    }
    if "podman" in use:
        del ways["oci"]
    return "\n".join(words for way, words in ways.items() if way in use)


def _sending(cluster: Cluster) -> str:
    """How an image of a user's own gets into the cluster's registry; empty where no program here sends images."""
    registry, use = cluster.registry, cluster.container_ways
    if registry is None or not {"podman", "oci", "docker"} & set(use):
        return ""
    image, logins = f"{registry.place}/{_OWN_IMAGE}", "--authfile ~/.config/containers/auth.json"
    login, sent = {
        "podman": (f"podman login {logins}", f"podman build -t {image} .\npodman push {logins} {image}"),
        "oci": (f"skopeo login {logins}", f"skopeo copy {logins} docker-archive:image.tar docker://{image}"),
        "docker": ("docker login", f"docker build -t {image} .\ndocker push {image}"),
    }[next(way for way in ("podman", "oci", "docker") if way in use)]
    return f"{login} {registry.place}\n{sent}" if registry.anonymous_pull else sent


def _container(way: str, found: Offer) -> Mapping[str, str]:
    """A way of running containers, with an example."""
    place, gpu = _registry(found.cluster)["registry"], found.first_with_gpus
    image = f"{place}/{_OWN_IMAGE}" if place else _GPU_IMAGE if gpu else _IMAGE
    elsewhere = gpu is not None and gpu != found.first
    gres = " ".join(
        filter(None, (f"--partition={gpu.name}" if gpu and elsewhere else "", "--gres=gpu:1" if gpu else ""))
    )
    gres += " " if gres else ""
    memory = values_of_examples(gpu or found.first)["much_memory"]
    bundle = image.rpartition("/")[2].replace(":", "-")
    title, text, example = {
        "podman": (
            "Podman",
            "`sdocker` takes the options of `docker run`, and adds the job's GPUs, your home and this directory.",
            f"srun {gres}--mem={memory} --pty bash\nsdocker run -it {image} python train.py",
        ),
        "oci": (
            "Slurm's own containers",
            "`sbundle` unpacks an image into a directory once; `srun` and `sbatch` start programs in it.",
            f"sbundle {image}\nsrun {gres}--container=$HOME/bundles/{bundle} /usr/bin/env python train.py",
        ),
        "enroot": (
            "enroot",
            "`srun` and `sbatch` start programs in an image, which each node unpacks for the job.",
            f"srun {gres}--container-image={image.replace('/', '#', 1)} python train.py",
        ),
        "apptainer": (
            "Apptainer",
            "An image is a file; `apptainer pull` makes one of an image elsewhere.",
            f"apptainer pull image.sif docker://{image}\nsrun {gres}apptainer exec --nv image.sif python train.py",
        ),
        "docker": (
            "Docker",
            "Some users can use Docker. Its containers do not keep to the limits of the job, and do not end with it.",
            f"srun {gres}docker run --rm --init {image} python train.py",
        ),
    }[way]
    return {"title": title, "text": text, "example": example}
