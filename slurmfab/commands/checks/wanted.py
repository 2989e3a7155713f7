"""The wanted state of hosts, by the cluster file and its lock."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from slurmfab.base.paths import SLURM_LOGS, SLURMD_LOGS
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import Hardware, HostFacts
from slurmfab.cluster.inventory import job_scripts, slurm_files
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.slurm_settings import setting
from slurmfab.cluster.slurm import accounting, places
from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.core.plan.phases import scripts
from slurmfab.core.plan.phases import site_files as phase
from slurmfab.core.plan.plan_input import PlanInput, digest
from slurmfab.on_hosts.agent.client.amounts import gpus_of as gpus_by_type
from slurmfab.on_hosts.agent.files.file import File
from slurmfab.on_hosts.agent.files.scripts import Scripts

FILES = ("slurm.conf", "gres.conf", "cgroup.conf")  # Slurm's configuration files that slurmd reads
NO_MAIL = "/bin/true"  # MailProg that sends no mail

LOGS = {
    "slurmctld": f"{SLURM_LOGS}/slurmctld.log",
    "slurmd": f"{SLURMD_LOGS}/slurmd.log",
    "slurmdbd": f"{SLURM_LOGS}/slurmdbd.log",
}
"""The logs of Slurm's daemons where slurmfab has them."""

_LAYOUT = {"boards", "sockets", "socketsperboard", "corespersocket", "threadspercore"}


class Wanted(NamedTuple):
    """What a cluster file and its lock alone say of Slurm's files."""

    cluster: Cluster
    lock: Lock
    files: Mapping[str, str]  # texts by file name; empty before the first deployment
    conf: Mapping[str, str]  # the settings of slurm.conf, by key in lower case


_making = threading.Lock()
_last: list[Wanted] = []
_around: list[PlanInput] = []


def by(cluster: Cluster, lock: Lock) -> Wanted:
    """What these two say; kept for the next checks, since to render files for all nodes on each node is quadratic."""
    with _making:
        if not _last or _last[0].cluster is not cluster or _last[0].lock is not lock:
            facts = HostFacts(cluster.controller, "", "", "", slurm_versions={"slurmctld": lock.slurm})
            texts = dict(PlanInput(cluster, lock, {cluster.controller: facts}).files) if lock.slurm else {}
            _last[:] = [Wanted(cluster, lock, texts, parse(texts.get("slurm.conf", "")).settings)]
        return _last[0]


def files(cluster: Cluster, lock: Lock) -> Mapping[str, str]:
    """The wanted texts of Slurm's files, by file name; empty before the first deployment."""
    return by(cluster, lock).files


def input_of(
    cluster: Cluster,
    lock: Lock,
    present: Mapping[str, Mapping[str, str]],
    uids: Mapping[int, str] | None = None,
) -> PlanInput:
    """The plan's input for Slurm's files; hand-made ones stay where they say the same to Slurm.

    Args:
        present: the texts of some hosts, the controller's among them, by host and file name, with what they include.
        uids: names of users by their UIDs on the controller, as far as they matter.
    """
    facts = {name: with_texts(HostFacts(name, "", "", ""), texts) for name, texts in present.items()}
    own = facts[cluster.controller]
    facts[cluster.controller] = replace(own, slurm_versions={"slurmctld": lock.slurm}, uids=uids or {})
    return PlanInput(cluster, lock, facts)


def with_texts(facts: HostFacts, texts: Mapping[str, str]) -> HostFacts:
    """Facts with the texts of a host's files."""
    return replace(
        facts,
        slurm_conf=texts.get("slurm.conf", ""),
        gres_conf=texts.get("gres.conf", ""),
        cgroup_conf=texts.get("cgroup.conf", ""),
        job_container_conf=texts.get("job_container.conf", ""),
    )


def site_files(inventory: Inventory, host: str) -> dict[str, str]:
    """SHA-256 in hexadecimal by name of the site's files in a host's Slurm directory; InputError if unreadable here."""
    cluster, lock = inventory.cluster, inventory.lock
    if not cluster.site_file_names or not lock.slurm:
        return {}
    files = slurm_files.read(cluster.slurm_files, inventory.path.parent)
    facts = HostFacts(cluster.controller, "", "", "", slurm_versions={"slurmctld": lock.slurm})
    plan_input = PlanInput(cluster, lock, {cluster.controller: facts}, slurm_files=files)
    there = phase.wanted(plan_input, not cluster.fetches(host), "controller" in cluster.roles(host))
    return {file.name: digest(file.text) for file in there}


def scripts_around_jobs(inventory: Inventory, node: str) -> dict[str, str]:
    """SHA-256 in hexadecimal by path of what runs before and after jobs on a node; InputError if unreadable here."""
    cluster, lock = inventory.cluster, inventory.lock
    with _making:
        if not _around or _around[0].cluster is not cluster or _around[0].lock is not lock:
            facts = HostFacts(cluster.controller, "", "", "", slurm_versions={"slurmctld": lock.slurm})
            texts = job_scripts.read(cluster, inventory.path.parent)
            _around[:] = [PlanInput(cluster, lock, {cluster.controller: facts}, scripts=texts)]
    found: dict[str, str] = {}
    for kind in scripts.wanted(_around[0], node)[0]:
        for one in scripts.around_jobs(_around[0], node, kind):
            if isinstance(one, Scripts):
                found.update((f"{one.path}/{name}", digest(text)) for name, text in one.files)
            elif isinstance(one, File):
                found[one.path] = digest(one.content)
    return found


def submit_script(inventory: Inventory) -> str:
    """The text of slurmfab's job submit script with the site's own behind it; InputError if that is unreadable."""
    files = slurm_files.read(inventory.cluster.slurm_files, inventory.path.parent)
    return PlanInput(inventory.cluster, inventory.lock, {}, slurm_files=files).submit_script


def sends_mail(cluster: Cluster, lock: Lock) -> bool:
    """Whether slurm.conf sets a program that sends mail, other than `NO_MAIL`."""
    return conf(cluster, lock).get("mailprog", NO_MAIL) != NO_MAIL


def explains_refusals(cluster: Cluster, lock: Lock) -> bool:
    """Whether slurm.conf uses slurmfab's job_submit script, which tells users without an account what to do."""
    is_ours = not setting(cluster.slurm_conf, "JobSubmitPlugins")
    return is_ours and conf(cluster, lock).get("jobsubmitplugins") == "lua"


def conf(cluster: Cluster, lock: Lock) -> Mapping[str, str]:
    """The wanted settings of slurm.conf, by key in lower case; empty before the first deployment."""
    return by(cluster, lock).conf


def spool_directory(cluster: Cluster, lock: Lock, node: str) -> str:
    """SlurmdSpoolDir of a compute node; slurmfab's own before the first deployment."""
    known = lock.hosts.get(node)
    settings = {"slurmdspooldir": lock.spool_directory} if not lock.slurm else conf(cluster, lock)
    return places.spool_directory(settings, node, known.hostname if known else "")


def root_places(cluster: Cluster, lock: Lock, node: str) -> dict[str, str]:
    """What slurmd has on a compute node, which it writes as root, by path; the site's places count as well."""
    private = cluster.private_tmp
    found = {
        spool_directory(cluster, lock, node): "SlurmdSpoolDir",
        log_of(cluster, lock, node, "slurmd"): "SlurmdLogFile",
        conf(cluster, lock).get("slurmdpidfile", ""): "SlurmdPidFile",
        **({private.base: "private_tmp"} if private else {}),
    }
    return {path: what for path, what in found.items() if path.startswith("/")}


def log_of(cluster: Cluster, lock: Lock, host: str, daemon: str) -> str:
    """The path of the log of a daemon on a host; empty if it writes to syslog alone."""
    if daemon == "slurmdbd":
        return accounting.log_file(cluster.slurmdbd_conf)
    known = lock.hosts.get(host)
    return places.log_file(conf(cluster, lock), daemon, host, known.hostname if known else "")


def with_logs(text: str, cluster: Cluster, lock: Lock, host: str = "") -> str:
    """A message that names the logs of Slurm's daemons where slurm_conf and slurmdbd_conf have them.

    Args:
        text: the message, with the logs where slurmfab has them; what follows `LogFile: ` stays.
        host: the host that the message is about; empty for several.
    """
    if not any(log in text for log in LOGS.values()) or not lock.slurm:
        return text
    settings, known = conf(cluster, lock), lock.hosts.get(host)
    hostname = known.hostname if known else ""
    logs = {name: places.log_file(settings, name, host or "NODE", hostname) for name in places.LOGS}
    for daemon, log in {**logs, "slurmdbd": accounting.log_file(cluster.slurmdbd_conf)}.items():
        here = log or f"`journalctl -u {daemon}`"
        # A repair that gives a log its usual place names that, and not the place where it is.
        text = re.sub(rf"(?<!LogFile: ){re.escape(LOGS[daemon])}", lambda _: here, text)  # noqa: B023 - called at once
    return text


def deploy(*hosts: str) -> str:
    """The command that deploys to these hosts."""
    return f"{FAB} deploy --hosts {','.join(hosts)}"


def units_of(cluster: Cluster, host: str) -> tuple[str, ...]:
    """The systemd units of a host's daemons."""
    roles = cluster.roles(host)
    database = cluster.database
    return (
        "munge",
        *(("mariadb",) if "database" in roles and database and not database.external else ()),
        *(("slurmdbd",) if "database" in roles else ()),
        *(("slurmctld",) if "controller" in roles else ()),
        *(("slurmd",) if "compute" in roles else ()),
    )


def has_gres(cluster: Cluster, node: str, name: str) -> bool:
    """Whether the cluster file has a kind of resource in the `Gres` of a node, such as `shard`."""
    entries = setting(cluster.settings_of(node), "Gres").split(",")
    return any(entry.strip().split(":")[0] == name for entry in entries)


def gpu_count(gres: str) -> int:
    """The number of GPUs in a list of generic resources, as in the cluster file or in Slurm's record of a node.

    >>> gpu_count("gpu:a100:4(S:0-1),gpu:2,shard:8")
    6
    """
    return sum(gpus_by_type(gres).values())


def counts(cluster: Cluster, node: str, hardware: Hardware) -> dict[str, int]:
    """The wanted values of a node's record by scontrol's fields; empty if the file sets CPUs or their layout."""
    if {key.lower() for key in cluster.settings_of(node)} & {*_LAYOUT, "cpus", "procs"}:
        return {}
    return {
        "CPUTot": hardware.CPUs,
        "Boards": hardware.Boards,
        "Sockets": hardware.Boards * hardware.SocketsPerBoard,
        "CoresPerSocket": hardware.CoresPerSocket,
        "ThreadsPerCore": hardware.ThreadsPerCore,
    }
