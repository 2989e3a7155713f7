"""What the hosts of a cluster show of it: the controller and all others are found from slurm.conf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from slurmfab.base.errors import HostError, InputError, SlurmfabError
from slurmfab.base.hostlist import expand_endpoints, fold
from slurmfab.base.ip_addresses import is_loopback
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.connection_options import ConnectionOptions
from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.accounts import export
from slurmfab.commands.import_cluster import asked
from slurmfab.commands.import_cluster.contact import Contact, typed_target
from slurmfab.commands.import_cluster.database import ALWAYS
from slurmfab.commands.import_cluster.members import SLURMDBD, Member, Members, controllers_of, members
from slurmfab.commands.nodes import membership
from slurmfab.commands.nodes.existing_cluster import is_dotted
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.requests import FACT_SELECTION, ask_facts
from slurmfab.core.engine.session import Output
from slurmfab.core.plan.preflight.other_clusters import format_running, is_address, short

FOUND_FILES = "found-files"
MOST_STEPS = 3  # how often one host's slurm.conf may name another host as the controller


def ask(hosts: str, connection: ConnectionOptions, output: Output) -> asked.Asked:
    """Find out what a cluster is, beginning at its controller, or other hosts of it, as the user typed them.

    Raises InputError if the hosts form no cluster, or several, or have unknown SSH host keys; SlurmfabError if the
    controller does not answer.
    """
    ssh, progress = membership.first_ssh(hosts, connection), output.progress()
    asker = output.asker()
    with closing(Contact(ssh, accept_new=connection.accept_new, ask_password=asker)) as contact:
        named = [typed_target(one, ssh) for one in expand_endpoints(hosts)]
        with progress.during("asking", [one.name for one in named]):
            contact.meet(named)
            answers = dict(contact.ask(tuple(contact.facts), FOUND_FILES, with_federation=True))
        if not contact.facts:
            raise SlurmfabError("\n".join(map(str, contact.failed.values())) + "\nNothing was written.")
        start = first_member(contact, hosts, answers)
        controller = find_controller(contact, answers, start, progress)
        known = members(parse(answers[controller]["slurm_conf"]), contact.hostname(controller))
        marks = {name: cluster_of(contact, answers, name) for name in answers}
        own = [name for name, mark in marks.items() if mark == marks[controller]]
        keys = meet_members(contact, known, (controller, own), progress)
        met = [key for key in keys.values() if key not in answers and key in contact.facts]
        with progress.during("reading", met):
            answers |= contact.ask(met, FOUND_FILES)
        if controller in contact.failed:
            raise SlurmfabError(f"{contact.failed[controller]}\nIt is the controller, so nothing was written.")
        accounts = asked_accounts(contact, controller, answers)
        return asked.summed_up(contact, asked.Answers(controller, keys, known, answers, *accounts))


def first_member(contact: Contact, hosts: str, answers: Mapping[str, Any]) -> str:
    """The first host that is a member; InputError if none is, or of several clusters."""
    clusters: dict[str, list[str]] = {}
    for name in answers:
        if mark := cluster_of(contact, answers, name):
            clusters.setdefault(mark, []).append(name)
    if len(clusters) > 1:
        told = "; ".join(f"{fold(names)}: {mark}" for mark, names in clusters.items())
        raise InputError(f"These hosts belong to several clusters: {told}. Import one at a time. Nothing was written.")
    if clusters:
        return next(iter(clusters.values()))[0]
    daemons = sorted({one for answer in answers.values() for one in answer["places"]["running"]})
    running = f" ({format_running(daemons)}, but without one)" if daemons else ""
    raise InputError(
        f"{fold(answers)}: there is no slurm.conf that names a controller, neither in /etc/slurm nor where a daemon "
        f"would read it{running}. Is the controller another host? Then name that one. If there is no cluster yet, make "
        f"one of these hosts: {FAB} deploy --hosts '{hosts}'. Nothing was written."
    )


def cluster_of(contact: Contact, answers: Mapping[str, Any], host: str) -> str:
    """The cluster that a host's slurm.conf is of, as text; empty if it has none that names a controller."""
    conf = parse(answers[host]["slurm_conf"])
    named = controllers_of(conf, contact.hostname(host))
    return f"{conf.settings.get('clustername', 'without a name')} of {short(named[0][0])}" if named else ""


def find_controller(contact: Contact, answers: dict[str, Any], start: str, progress: Progress) -> str:
    """The primary controller, which may be another host than those named; it joins contact and answers.

    Raises SlurmfabError if it is silent, has no slurm.conf, or names another, which names another one.
    """
    for _ in range(MOST_STEPS):
        name, address = controllers_of(parse(answers[start]["slurm_conf"]), contact.hostname(start))[0]
        found = met_as(contact, name, address)
        if found == start or is_itself(contact, answers, start, (name, address)):
            return start
        if not found:
            progress.line(f"{start} is a host of the cluster whose controller is {name}; going on with {name}.")
            found = meet_controller(contact, answers, start, (name, address), progress)
            if found == start:
                return start
        if not cluster_of(contact, answers, found):
            raise SlurmfabError(
                f"{found}: it has no slurm.conf that names a controller, although the one of {start} names {found} as "
                "the controller. Nothing was written."
            )
        start = found
    raise SlurmfabError(
        f"{start}: its slurm.conf names another controller, as those of the hosts before it do. Which one runs "
        "slurmctld? Name that one alone. Nothing was written."
    )


def is_itself(contact: Contact, answers: Mapping[str, Any], host: str, controller: tuple[str, str]) -> bool:
    """Whether a host is the controller that its slurm.conf names, by an address that it does not know as its own."""
    name, address = controller
    is_named = contact.facts[host].hostname.lower() == short(name)
    says_so = is_named and "slurmctld" in answers[host]["places"]["running"]
    return says_so and not (is_address(address) and contact.is_elsewhere(host, address))


def meet_controller(
    contact: Contact, answers: dict[str, Any], start: str, controller: tuple[str, str], progress: Progress
) -> str:
    """Connect to the controller that a slurm.conf names, and return the name under which it was met.

    `start`: the host whose slurm.conf it is, and itself the controller if it finds that at a loopback address. Raises
    SlurmfabError if it does not answer.
    """
    name, place = controller[0], controller[1] or controller[0]
    address = place if is_address(place) else first_of(contact.ask([start], "addresses", names=[place]), place)
    if is_loopback(address):
        return start
    found = short(name)
    with progress.during("asking", [found]):
        contact.meet_named({found: address}, start)
        answers |= contact.ask([found] if found in contact.facts else (), FOUND_FILES, with_federation=True)
    if found in contact.failed:
        raise SlurmfabError(
            f"{contact.failed[found]}\nThe slurm.conf of {start} names {name} as the controller, which has the "
            "cluster's files, so nothing was written. Name it in --hosts as SSH reaches it, such as user@address."
        )
    return found


def met_as(contact: Contact, name: str, address: str) -> str:
    """The host that was met and is the one with this name and address in slurm.conf; empty for none."""
    host = contact.host_of((address,)) if address and address != name else ""
    if host and is_address(address) and contact.is_elsewhere(host, address):
        return ""
    # An address by which SSH cannot tell, such as a name with a domain, leaves the host's own name.
    return host or ("" if is_address(address) and address != name else contact.host_of((name, short(name))))


def first_of(answers: Mapping[str, Mapping[str, Sequence[str]]], name: str) -> str:
    """The first address of a name that a host has resolved, IPv4 before IPv6; empty for none."""
    return next((min(found[name], key=lambda one: ":" in one) for found in answers.values() if found.get(name)), "")


def meet_members(
    contact: Contact, known: Members, met_before: tuple[str, Sequence[str]], progress: Progress
) -> Mapping[str, str]:
    """Connect to all members that have not been met yet; by member, its name in `contact`, if it was asked."""
    controller, own = met_before
    wanted = {name: one for name, one in known.hosts.items() if one.is_asked}
    met = {name: found for name, one in wanted.items() if (found := same_host(contact, one, own))}
    met[known.controller] = controller
    unresolved = sorted(
        {one.address for name, one in wanted.items() if name != known.controller and not is_address(one.address)}
    )
    resolved = contact.ask([controller], "addresses", names=unresolved) if unresolved else {}
    places: dict[str, str] = {}
    for name, one in wanted.items():
        address = one.address if is_address(one.address) else first_of(resolved, one.address)
        met |= {name: controller} if is_loopback(address) else {}
        is_met = name in met and (met[name] == controller or not (address and contact.is_elsewhere(met[name], address)))
        if not is_met:
            places[name] = address
    met = {name: found for name, found in met.items() if name not in places}
    if places:
        with progress.during("asking", places):
            contact.meet_named(places, controller)
    return merged({**met, **{name: name for name in places}}, known, contact)


def same_host(contact: Contact, member: Member, own: Sequence[str]) -> str:
    """The member among the hosts met before; empty for none. Those with a slurm.conf are told apart by names."""
    address = member.address.lower()
    if is_dotted(address) and (found := contact.host_of((address,))):
        return found
    return next((name for name in own if contact.facts[name].hostname.lower() == member.hostname.lower()), "")


def merged(keys: Mapping[str, str], known: Members, contact: Contact) -> Mapping[str, str]:
    """Members by name without those that are another member's host with a second name; a NodeName comes first."""
    nodes = [name for name in known.hosts if name not in (*known.controllers, known.database)]
    there = [name for name in (*known.controllers, *nodes) if keys.get(name) in contact.facts]
    first = {contact.facts[keys[name]].boot: name for name in there}
    own: dict[str, str] = {}
    for name, key in keys.items():
        node = first.get(contact.facts[key].boot, "") if key in contact.facts and name not in nodes else ""
        if node and contact.is_one(key, keys[node]):
            own[node] = key
        else:
            own.setdefault(name, key)  # a controller that computes keeps the name under which it was met
    return own


def asked_accounts(
    contact: Contact, controller: str, answers: Mapping[str, Any]
) -> tuple[Mapping[str, Any] | None, str, frozenset[str] | None]:
    """What slurmdbd has of the cluster, or `None` and why; and which of its users exist."""
    conf, fact = parse(answers[controller]["slurm_conf"]), contact.facts[controller]
    if conf.settings.get("accountingstoragetype", "").lower() != SLURMDBD:
        return None, "", None
    try:
        version = SlurmVersion.parse(fact.slurm_version)
        name = conf.settings.get("clustername", "").lower()
        accounts = export.ask_host(contact.transport, controller, name, version)
        return accounts, "", known_people(contact, controller, accounts)
    except SlurmfabError as error:
        return None, error.reason if isinstance(error, HostError) else str(error), None


def known_people(contact: Contact, controller: str, accounts: Mapping[str, Any]) -> frozenset[str]:
    """The users of accounts whom the controller, by file or directory service, knows; HostError if silent."""
    users = sorted({user for _, user, _ in accounts["associations"] if user not in ALWAYS})
    names = {**FACT_SELECTION, "users": tuple(users)}
    return frozenset(ask_facts(contact.transport, controller, with_secrets=False, names=names).accounts)
