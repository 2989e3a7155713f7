"""A cluster made by hand as its import has seen it: what the hosts of its twin have to have; pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from slurmfab.base.ip_addresses import is_loopback
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.slurm.conf_text import parse, split_commas
from slurmfab.cluster.slurm.platform import DEBIAN
from slurmfab.commands.import_cluster import database
from slurmfab.commands.import_cluster.found import FoundFile, HostFiles
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.commands.rehearse import playing
from slurmfab.commands.rehearse.twin import Twin
from slurmfab.commands.rehearse.workload import Workload
from slurmfab.core.plan.plan_input import is_numeric
from slurmfab.on_hosts.agent.files.owners import DIRECTORY, Owned, from_the_top
from slurmfab.on_hosts.agent.slurm.found_files import ELSEWHERE

PLACES = (
    "StateSaveLocation", "SlurmdSpoolDir", "SlurmctldLogFile", "SlurmdLogFile", "JobCompLoc", "SlurmSchedLogFile",
)  # fmt: skip
"""Keys of slurm.conf whose value is a file or a directory of daemons; of `PID_FILES` the directory counts."""

PID_FILES = ("SlurmctldPidFile", "SlurmdPidFile", "PidFile")
OF_DATABASE = ("LogFile", "ArchiveDir")
NO_PLACES = ("(null)", "none", "syslog", "/dev/null")
ALWAYS = ("/etc/slurm", "/etc/munge/munge.key", "/var/lib/slurm", "/var/log/slurm", "/run/slurm")
LOGIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")  # names of users and groups that a twin can have
FETCHED = "/run/"  # the directory of files that slurmd has fetched from slurmctld

_COMMENT_LINE, _CONTINUED = re.compile(r"(?m)^[ \t]*#.*$"), re.compile(r"\\\s*\n")
_WRITTEN = re.compile(
    rf"(?i)({'|'.join((*PLACES, *PID_FILES, *OF_DATABASE))})[ \t]*[-+*/]?=[ \t]*(?:\"([^\"\n]*)\"?|([^\s\"#]+))"
)
"""Wherever a key of a place to write to stands in a text, however Slurm divides it into lines."""

_NAMES_NO_FILE = re.compile(r"[\w-]+|https?://\S+")  # in JobCompLoc: a database, a server

_JWT_KEY = re.compile(r"(?i)\bjwt_key=([^\s,\"]+)")


@dataclass(frozen=True)
class Real:
    """A cluster made by hand, as its import has seen it."""

    old: OldCluster
    known: Inventory  # what the import makes of it
    owners: Mapping[str, Sequence[Owned]]  # by host, of `places`
    workload: Workload

    @property
    def cluster(self) -> Cluster:
        """The cluster file of the import."""
        return self.known.cluster

    def files(self, host: str) -> HostFiles:
        """Slurm's own files of a host; those of the controller for a host that did not answer."""
        found = self.old.found
        files = found.hosts.get(host) or replace(found.hosts[found.controller], drop_ins=(), left={})
        return replace(files, files=tuple(one for one in files.files if not one.path.startswith(FETCHED)))

    def files_of(self, hosts: Iterable[str]) -> list[tuple[str, FoundFile]]:
        """Slurm's own files of hosts, and those about its units, each with its host."""
        every = ((host, self.files(host)) for host in hosts)
        return [(host, file) for host, files in every for file in (*files.files, *files.drop_ins)]

    def owned(self, host: str) -> tuple[Owned, ...]:
        """Whose the files and directories of a host are about which it was asked, and those above them."""
        asked = {above for path in places(self.old, host, self.files(host)) for above in from_the_top(path)}
        return tuple(row for row in self.owners.get(host, ()) if row.path in asked)

    @cached_property
    def people(self) -> dict[str, int]:
        """The users of accounts and of last week's jobs, with their UIDs; 0 for an unknown one."""
        uids = {name: uid for uid, name in self.old.found.facts[self.old.found.controller].uids.items()}
        answer = self.old.found.accounts or {"associations": ()}
        named = [user for _, user, _ in answer["associations"] if user not in database.ALWAYS]
        jobs = {shape.user: shape.uid for shape in self.workload.shapes if shape.uid >= playing.FIRST_UID}
        names = sorted(name for name in {*named, *jobs} if LOGIN.fullmatch(name))
        return {name: uids.get(name, jobs.get(name, 0)) for name in names}

    @cached_property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The groups that may use a partition, each with those who ran jobs in these partitions last week."""
        found: dict[str, set[str]] = {}
        for name, partition in self.old.conf.partitions.items():
            users = {one.user for one in self.workload.shapes if name in one.partition.split(",")} & {*self.people}
            for group in filter(LOGIN.fullmatch, split_commas(partition.get("allowgroups", "")) - {"ALL", "root"}):
                found.setdefault(group, set()).update(users)
        return {group: tuple(sorted(users)) for group, users in sorted(found.items())}


def places(old: OldCluster, host: str, files: HostFiles) -> tuple[str, ...]:
    """The paths whose owners and permissions the twin's host has to have."""
    dbd = parse(old.text_of(host, database.FILE)).settings
    values = [old.setting(key) for key in PLACES]
    values += [value.rpartition("/")[0] for key in PID_FILES for value in (old.setting(key), dbd.get(key.lower(), ""))]
    values += [dbd.get("logfile", ""), *(key for key in token_keys(old, host))]
    named = [value.replace("%n", host).replace("%h", old.hostname(host)) for value in values]
    own = [file.path for file in (*files.files, *files.drop_ins)] + [file.link for file in files.files if file.link]
    kept = [path for path in (*own, *files.left) if not path.startswith(FETCHED)]
    return tuple(dict.fromkeys(path for path in (*ALWAYS, *named, *kept) if path.startswith("/")))


def written(old: OldCluster, host: str, files: HostFiles) -> tuple[str, ...]:
    """The paths that daemons of a host write to, by all files that it has itself and by those of the cluster.

    What it keeps under other names counts, too: an option or a variable may name it.
    """
    texts = [old.text, old.text_of(host, database.FILE), *(file.text for file in files.files)]
    values = [old.setting(key) for key in (*PLACES, *PID_FILES) if key != "JobCompLoc"]
    for text in texts:
        lines = _CONTINUED.sub("", _COMMENT_LINE.sub("", text))
        found = [(key.lower(), quoted or plain) for key, quoted, plain in _WRITTEN.findall(lines)]
        values += [one for key, one in found if key != "jobcomploc" or not _NAMES_NO_FILE.fullmatch(one)]
    named = (value.replace("%n", host).replace("%h", old.hostname(host)) for value in values)
    return tuple(dict.fromkeys(value for value in named if value and value.lower() not in NO_PLACES))


def token_keys(old: OldCluster, host: str) -> tuple[str, ...]:
    """The paths of the keys of JSON web tokens that a daemon of a host reads."""
    text = old.text_of(host, "slurm.conf") + old.text_of(host, database.FILE)
    return tuple(dict.fromkeys(_JWT_KEY.findall(text)))


def stand_ins(real: Real, host: str) -> tuple[str, ...]:
    """The programs of the site's on a host that its twin does not get: outside Slurm's directory, or root's alone."""
    programs = {row.path for row in real.owners.get(host, ()) if row.mode & 0o111 and row.kind != DIRECTORY}
    left = real.files(host).left
    return tuple(path for path, why in left.items() if why == ELSEWHERE or path in programs)


def packages(real: Real, twin: Twin) -> tuple[str, ...]:
    """The packages of the twin's hosts, as a lab's specification has them: those of Slurm that the real ones have."""
    database_hosts, entries = real.cluster.database_hosts, []
    needs_tokens = "auth/jwt" in real.old.text.lower()
    for host, inner in twin.hosts.items():
        facts = real.old.found.facts.get(host)
        there = [one for one in DEBIAN.asked if facts and one in facts.packages]
        there += () if facts else [one for role in real.cluster.roles(host) for one in DEBIAN.packages(role)]
        there += DEBIAN.database.packages if host in database_hosts else ()
        there += [DEBIAN.jwt] if needs_tokens else []
        entries += [f"{inner}:{','.join(dict.fromkeys(there))}"] if there else []
    return tuple(entries)


def real_address(old: OldCluster, host: str) -> str:
    """The address that slurm.conf gives a host; empty for none."""
    return old.node_setting(host, "nodeaddr") if host in old.conf.nodes else dict(old.controllers).get(host, "")


def names_of(old: OldCluster, host: str) -> tuple[str, ...]:
    """The names under which files of the cluster, or its hosts, know a host."""
    conf, dbd = old.conf.settings, parse(old.text_of(old.database_host, database.FILE)).settings
    named = [conf.get(key, "") for key in ("accountingstoragehost", "accountingstoragebackuphost")]
    named += [dbd.get(key, "") for key in ("dbdhost", "dbdaddr")]
    named += [one for pair in conf.get("slurmctldhost", "").split(",") for one in re.split(r"[()]", pair)]
    named += [real_address(old, one) for one in (host,)]
    named += [old.node_setting(host, "nodehostname")] if host in old.conf.nodes else []
    others = [one for one in named if one and not is_numeric(one) and not is_loopback(one)]
    return tuple(dict.fromkeys((old.hostname(host), host, *(one for one in others if old.host_named(one) == host))))


def units(real: Real, host: str) -> tuple[str, ...]:
    """The units of Slurm that run on a host."""
    cluster = real.cluster
    has = {"slurmdbd": cluster.database_hosts, "slurmctld": cluster.controllers, "slurmd": cluster.compute_nodes}
    return tuple(unit for unit, hosts in has.items() if host in hosts)
