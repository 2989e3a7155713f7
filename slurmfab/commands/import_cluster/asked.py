"""What the hosts of a cluster have answered, by the names that they have there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slurmfab.base.errors import HostFailed, SlurmfabError
from slurmfab.cluster.inventory.hostnames import unfit
from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.commands.import_cluster.contact import Contact
from slurmfab.commands.import_cluster.found import FoundCluster, FoundFile, HostFiles
from slurmfab.commands.import_cluster.members import Members, controllers_of
from slurmfab.commands.nodes.discovery import DiscoveredHost
from slurmfab.core.plan.preflight.other_clusters import is_address
from slurmfab.on_hosts.agent.slurm.found_files import HIDDEN

HIDDEN_SETTING = re.compile(rf"(?<!\w)\w+[ \t]*=[ \t]*{re.escape(HIDDEN)}")
"""A setting of slurm.conf whose value stayed on the host."""

NOT_ASKED = "slurm.conf says that it may not exist yet (State=CLOUD), so it was not asked"
NOTHING = "it has nothing of Slurm's"


@dataclass(frozen=True)
class Answers:
    """What hosts have answered, by the names under which they were met."""

    controller: str
    keys: Mapping[str, str]  # by member of the cluster, the name under which it was met
    members: Members  # the members, as slurm.conf names them
    files: Mapping[str, Any]  # Slurm's files, by host
    accounts: Mapping[str, Any] | None  # what slurmdbd has; `None` without slurmdbd, or if it has not answered
    trouble: str  # why slurmdbd has not answered
    # the users of these accounts that the controller knows; `None` if it was not asked
    people: frozenset[str] | None = None


@dataclass(frozen=True)
class Asked:
    """What was found out about a cluster."""

    cluster: FoundCluster
    discovered: Mapping[str, DiscoveredHost]  # the hosts that answered, by name, with their SSH host keys
    hidden: Mapping[str, tuple[tuple[str, str], ...]]  # by host, path and key of each password that stayed there
    running: Mapping[str, tuple[str, ...]]  # by host, names of the daemons that run
    strangers: Mapping[str, str]  # hosts that the user named and that slurm.conf does not, with what they are
    unpinned: tuple[str, ...]
    trouble: str  # why slurmdbd has not answered; empty if it has, or if there is none
    password: str = field(default="", repr=False)  # the sudo password that the user typed

    def only(self, cluster: FoundCluster) -> Asked:
        """The same of a cluster without some of its hosts."""
        return replace(
            self,
            cluster=cluster,
            discovered={name: one for name, one in self.discovered.items() if name in cluster.hosts},
            hidden={name: one for name, one in self.hidden.items() if name in cluster.hosts},
            unpinned=tuple(name for name in self.unpinned if name in cluster.hosts),
        )


def summed_up(contact: Contact, answers: Answers) -> Asked:
    """What was found out, by the names of the members, over the contact's open connections."""
    keys, files = answers.keys, answers.files
    met = {name: key for name, key in keys.items() if key in contact.facts and key in files}
    claims = Counter(contact.facts[key].hostname for key in met.values())
    taken = {*keys, *(name for name, count in claims.items() if count > 1 or unfit(name))}
    there = {host_name(name, contact.facts[key].hostname, taken): key for name, key in met.items()}
    discovered = {}
    for name, key in tuple(there.items()):
        try:
            discovered[name] = contact.as_discovered(key, name)
        except SlurmfabError as error:
            if key == answers.controller:
                raise
            contact.failed[key] = HostFailed(key, str(error).removeprefix(f"{name}: "))
            del there[name]
    endpoints = {name: one.endpoint for name, one in discovered.items() if one.endpoint}
    tried = {name: contact.targets[key].route.address for name, key in keys.items() if key not in there.values()}
    section = contact.ssh.model_dump(exclude_defaults=True, exclude={"endpoints"})
    found = FoundCluster(
        controller=next(name for name, key in there.items() if key == answers.controller),
        hosts={name: host_files(files[key]) for name, key in there.items()},
        facts={
            name: replace(contact.facts[key], name=name, slurm_conf=HIDDEN_SETTING.sub("", files[key]["slurm_conf"]))
            for name, key in there.items()
        },
        addresses={**tried, **{name: one.address for name, one in discovered.items()}},
        accounts=answers.accounts,
        unreachable=dict(unreachable(contact, answers)),
        federation=files[answers.controller]["federation"],
        people=answers.people,
        ssh={**section, **({"endpoints": endpoints} if endpoints else {})},
    )
    return Asked(
        cluster=found,
        discovered=discovered,
        hidden={name: tuple((path, word) for path, word in files[key]["hidden"]) for name, key in there.items()},
        running={name: tuple(files[key]["places"]["running"]) for name, key in there.items()},
        strangers=dict(strangers(contact, answers)),
        unpinned=tuple(name for name, key in there.items() if key in contact.unpinned),
        trouble=answers.trouble,
        password=contact.transport.sudo.known,
    )


def host_name(member: str, hostname: str, taken: Container[str]) -> str:
    """A host's name in the cluster file: that of slurm.conf or, where it has an address alone, its own."""
    return hostname if is_address(member) and hostname not in taken else member


def unreachable(contact: Contact, answers: Answers) -> Iterator[tuple[str, str]]:
    """The members that did not answer, each with the reason."""
    for name, key in answers.keys.items():
        if key in contact.failed:
            yield name, contact.failed[key].reason
    for name, member in answers.members.hosts.items():
        if not member.is_asked:
            yield name, NOT_ASKED


def host_files(answer: Mapping[str, Any]) -> HostFiles:
    """What Slurm has on a host, from the agent's answer."""
    places = answer["places"]
    return HostFiles(
        files=tuple(
            FoundFile(path, text if path.endswith("/slurmdbd.conf") else HIDDEN_SETTING.sub("", text), mode, link)
            for path, text, mode, link in answer["files"]
        ),
        program=places["program"],
        version=places["version"],
        configless=places["configless"],
        drop_ins=tuple(FoundFile(*one) for one in answer["drop_ins"]),
        slurm_conf=HIDDEN_SETTING.sub("", answer["slurm_conf"]),
        left=dict(answer["left"]),
        mark=answer["mark"],
    )


def strangers(contact: Contact, answers: Answers) -> Iterator[tuple[str, str]]:
    """The hosts that answered and that slurm.conf does not name, each with what it is."""
    members = {contact.facts[key].boot for key in answers.keys.values() if key in contact.facts}
    for key, answer in answers.files.items():
        if key in contact.facts and contact.facts[key].boot not in members:
            named = controllers_of(parse(answer["slurm_conf"]), contact.hostname(key))
            yield key, f"it has a slurm.conf of the controller {named[0][0]}" if named else NOTHING
