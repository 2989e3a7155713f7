"""`fab explain`: asks the hosts and shows the chain, as text or as JSON."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import ClassVar, TextIO

from slurmfab.base import terminal
from slurmfab.base.errors import HostlistError, InputError, SlurmfabError
from slurmfab.base.exit_codes import DONE, LEFT_OUT
from slurmfab.base.folding import fold_lines
from slurmfab.base.hostlist import expand, fold
from slurmfab.base.json_output import Key, shows
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import BOLD, DIM, RED, YELLOW, Paint
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.explain import ending, gathering, job_chain, node_chain, user_chain
from slurmfab.commands.explain.chain import Link
from slurmfab.commands.explain.evidence import LOG, Attempt, Evidence, Quote, nodes_in
from slurmfab.commands.explain.gathering import Asked
from slurmfab.commands.logs.asking import AHEAD, MARGIN
from slurmfab.commands.logs.showing import notes, utc_or_none
from slurmfab.commands.logs.times import Period
from slurmfab.core.engine import session
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.on_hosts.agent.client.commands import is_job_id, job_ids

DAY = 86400.0
PATIENCE = 4  # seconds for a connection, for a kernel sends a lost packet again after one and after three seconds
MOST_HOMES = 64  # the most hosts on which a user's home directory is looked at
LEADS = {
    ("job", "started"): "started ", ("job", "ended"): "ended ", ("node", "lines"): "logs ",
    ("node", "repair"): "to bring it back: ",
}  # fmt: skip
"""What stands before the text of a link on the screen, by what the chain and the link are about."""
TIMED = ("started ", "ended ")  # that stand before a time alone

shows(Key("at", form=utc_or_none), "host", "place", "line")(Quote)
shows("what", Key("at", form=utc_or_none), "text", "quotes")(Link)


@shows(
    "version", "cluster", "about", "target", "title", "links", "unknown", Key("notes", form=notes),
    Key("unreachable", "lost"), Key("exit_code", text="of the task"),
)  # fmt: skip
@dataclass(frozen=True)
class Explanation:
    """What happened to a job, a node or a user, as one chain of causes."""

    version: ClassVar[int] = 1  # of this format: 1
    cluster: str  # the cluster's name
    about: str  # `job`, `node` or `user`
    target: str  # what was asked for
    title: str  # what it is, for people
    links: tuple[Link, ...] = ()  # the chain
    unknown: tuple[str, ...] = ()  # what could not be found out, and why, for people
    notes: tuple[tuple[str, str], ...] = ()  # what is to be said of hosts' logs
    lost: Mapping[str, str] = field(default_factory=dict)  # hosts that did not answer, each with the reason

    @property
    def exit_code(self) -> int:
        """0 if all that was asked answered, 3 otherwise."""
        return LEFT_OUT if self.lost or self.unknown else DONE


def show(cluster: str, target: str, output: session.Output) -> int:
    """Print the chain of a job, node or user; InputError for a wrong word, SlurmfabError for what is not known."""
    known, target = loading.load_named(cluster), target.strip()
    about = kind_of(known, target)
    run = session.start(known, "", output, RunOptions("explain", patience=PATIENCE))
    with session.ending(run, tells=False):
        makers = {"job": of_job, "node": of_node, "user": of_user}
        found = makers[about](run, target)
    output.write_json(found)
    if output.json != "-":
        write(found, sys.stdout)
    return found.exit_code


def kind_of(known: Inventory, target: str) -> str:
    """Whether a word of the command line is a node, a job or a user; InputError if it is none of them."""
    try:
        hosts = expand(target)
    except HostlistError:
        hosts = ()
    if hosts and all(host in known.cluster.hosts for host in hosts):
        if len(hosts) > 1:
            raise InputError(f"{target}: these are {len(hosts)} hosts. Ask about one: each has a chain of its own.")
        return "node"
    if job_and_step(target):
        return "job"
    if target and target[0].isalpha() and all(one.isalnum() or one in "._-@+$" for one in target):
        return "user"
    raise InputError(f"{target!a} is no job's id, no host of the cluster, and cannot be the name of a user.")


def job_and_step(target: str) -> tuple[str, str] | None:
    """The job that a word names, and its step if any, also as logs write it; `None` if it names none.

    >>> job_and_step("4711"), job_and_step("4711_3.batch"), job_and_step("JobId=4711+1"), job_and_step("47l1")
    (('4711', ''), ('4711_3', 'batch'), ('4711+1', ''), None)
    """
    job, _, step = target.removeprefix("JobId=").removeprefix("StepId=").lstrip("0").partition(".")
    return (job_ids([job])[0], step) if is_job_id(job) and re.fullmatch(r"\w*(?:\+\w+)?", step) else None


def of_job(run: Run, target: str) -> Explanation:
    """The chain of a job. Raises SlurmfabError if neither slurmctld nor slurmdbd knows it."""
    known, transport = run.inventory, run.transport
    job, step = job_and_step(target) or ("", "")
    asked = gathering.ask_controllers(known, transport, {"job": job.partition("_[")[0]}, job)
    if not asked.evidence.jobs:
        asked = gathering.from_log(known, transport, asked, job)
    if not asked.evidence.jobs:
        raise SlurmfabError(unknown_job(job, asked))
    now = asked.evidence.now
    since = min(one.submitted or now for one in asked.evidence.jobs) - MARGIN
    goes_on = any(not one.ended for one in asked.evidence.jobs)
    until = now + AHEAD if goes_on else max(one.ended for one in asked.evidence.jobs) + MARGIN
    nodes = [node for one in reversed(asked.evidence.jobs) for node in one.nodes]
    asked = gathering.with_logs(known, transport, asked, Period(since, until), nodes, jobs=asked.evidence.jobs)
    asked = gathering.with_waits(transport, gathering.with_lost(transport, asked))
    e = asked.evidence
    e = replace(e, jobs=tuple(ending.by_log(e, one) if one.origin == LOG else one for one in e.jobs))
    title = title_of_job(e.jobs) + still_held(e)
    return explanation(run, target, title, (*job_chain.links(e), *job_chain.of_step(e, step)), asked)


def unknown_job(job: str, asked: Asked) -> str:
    """What to say of a job that is nowhere on record."""
    silent = [f"{name} does not tell ({why})" for name, why in asked.evidence.missing]
    told = "; ".join(silent) or "it is not in slurmctld's memory, nor on record in slurmdbd"
    return f"Job {job} is not known: {told}. If it ran long ago, ask for its node: {FAB} logs NODE --around TIME."


def title_of_job(jobs: tuple[Attempt, ...]) -> str:
    """A job in one line."""
    last = jobs[-1]
    places = (("account", last.account), ("QOS", last.qos), ("partition", last.partition))
    where = ", ".join(f"{word} {name}" for word, name in places if name)
    number = len({one.number for one in jobs})
    array = f" ({number} {'parts' if '+' in last.id else 'tasks'})" if number > 1 else ""
    ident = re.split("[_+]", last.id)[0] if array else last.id
    whose = f" of {last.user} ({where})" if last.user else ""
    if last.is_forgotten:
        return f"job {ident}{array}{whose}: lost by a crash (slurmdbd: {last.state})"
    return f"job {ident}{array}{whose}: {last.state or 'how it ended is not on record'}"


def still_held(e: Evidence) -> str:
    """The end of a title: that a job has ended, and its nodes are not free yet; empty for others."""
    own = {one.number for one in e.jobs}
    held = [node for one in e.over if str(one.number) in own for node in nodes_in(one.node_list)]
    return f", and still holds {fold(held)}" if held else ""


def of_node(run: Run, target: str) -> Explanation:
    """The chain of a node. Raises SlurmfabError for a host that is no compute node."""
    known, transport = run.inventory, run.transport
    name = expand(target)[0]
    if name not in known.cluster.compute_nodes:
        raise InputError(f"{name} is no compute node. For the logs of other hosts: {FAB} logs {name}.")
    since = time.time() - gathering.DAYS * DAY
    asked = gathering.ask_controllers(known, transport, {"nodes": [name], "since": since})
    e = asked.evidence
    node = e.nodes.get(name)
    events = [one for one in e.events if one.node == name]
    is_out = node is not None and not node.state.is_in_service
    begun = node_chain.since_of(node, events) if node and is_out else 0.0
    start = begun - 600 if begun else e.now - 3600
    until = begun + 600 if begun else e.now
    asked = gathering.with_logs(known, transport, asked, Period(start, min(until, e.now + AHEAD)), [name])
    asked = gathering.with_waits(transport, asked, name)
    lost = asked.lost
    found = {} if name in lost else gathering.ask_hosts(transport, [name], {"op": "node-health"}, "node_health")[0]
    health = tuple(found[name]["causes"]) if name in found else ()
    links = node_chain.links(asked.evidence, name, lost, health)
    shown = f"node {name}" + (f": {node.state.description}" if node else ": slurmctld does not know it")
    return explanation(run, target, shown, links, asked)


def of_user(run: Run, target: str) -> Explanation:
    """The chain of a user. Raises SlurmfabError for a user of whom no host and no record knows."""
    known, transport = run.inventory, run.transport
    since = time.time() - gathering.USER_DAYS * DAY
    asked = gathering.ask_controllers(known, transport, {"user": target, "since": since})
    e = asked.evidence
    asked = gathering.with_logs(known, transport, asked, Period(e.now - 3600, e.now), [])
    own = [one for one in (*e.jobs, *e.others) if one.user == target]
    hosts, notes = hosts_of_user(run, own, e.controller)
    accounts, lost = gathering.ask_hosts(transport, hosts, {"op": "evidence", "home": target}, "evidence")
    found = {host: value.get("account", {}) for host, value in accounts.items()}
    if not own and not e.associations and found and not any(one.get("home") for one in found.values()):
        near = get_close_matches(
            target.lower(), [*known.cluster.hosts, *(one.name for one in known.cluster.users)], n=1
        )
        raise SlurmfabError(
            f"{target} is no host of the cluster, and not known as a user: no host has such a user, and Slurm has no "
            f"account and no job of that name." + (f" Did you mean {near[0]}?" if near else "")
        )
    asked = Asked(asked.evidence, asked.hosts, {**asked.lost, **lost}, (*asked.notes, *notes))
    links = user_chain.links(asked.evidence, target, found, has_database=bool(known.cluster.database_hosts))
    return explanation(run, target, f"user {target}", links, asked)


def hosts_of_user(run: Run, jobs: Iterable[Attempt], controller: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The hosts where a user's home directory is looked at, those where jobs ran before others; a note if many."""
    cluster = run.inventory.cluster
    ran = (node for job in jobs for node in job.nodes if node in cluster.hosts)
    hosts = list(dict.fromkeys((*cluster.controllers, *cluster.login, *ran, *cluster.hosts)))
    left = len(hosts) - MOST_HOMES
    text = f"the home directory was looked at on {MOST_HOMES} hosts, and not on {left} more."
    return hosts[:MOST_HOMES], [(controller, text)] if left > 0 else []


def explanation(run: Run, target: str, title: str, links: tuple[Link, ...], asked: Asked) -> Explanation:
    """An explanation, with what could not be asked; its title begins with what it is about."""
    known = run.inventory
    unknown = tuple(filter(None, (missing_text(name, why, known) for name, why in asked.evidence.missing)))
    about = title.partition(" ")[0]
    return Explanation(known.cluster.name, about, target, title, links, unknown, asked.notes, asked.lost)


def missing_text(name: str, why: str, known: Inventory) -> str:
    """What is not known without one of Slurm's daemons; empty where the cluster has none."""
    if name == "slurmdbd":
        if not known.cluster.database_hosts:
            return ""
        return (
            f"slurmdbd does not answer ({why}): what slurmctld has forgotten, and who had nodes before, is not known."
        )
    return f"slurmctld does not answer ({why}): present states and waiting jobs are not known."


def write(found: Explanation, out: TextIO) -> None:
    """Write the chain: its title, each link with the lines that it rests on, and what is not known."""
    paint = Paint(out)
    lines = [paint(found.title, BOLD)]
    for link in found.links:
        colour = RED if link.what == "fault" and " at fault" in link.text and " not at fault" not in link.text else ""
        lead = LEADS.get((found.about, link.what), "")
        is_whole = lead in TIMED and not link.text[:1].isdecimal()
        lines.append(paint(f"  {'' if is_whole else lead}{link.text}", colour))
        lines += [paint(f"      {quoted(one)}", DIM) for one in link.quotes]
    missing = [*found.unknown, *fold_lines(found.notes), *fold_lines(sorted(found.lost.items()))]
    lines += ["", *(paint(one, YELLOW) for one in missing)] if missing else []
    terminal.write("\n".join(lines), out)


def quoted(quote: Quote) -> str:
    """A quote with its place: `n1:/var/log/slurmd/slurmd.log: [12.batch] error: …`."""
    return (
        f"{quote.host}:{quote.place}: {quote.line}"
        if quote.place.startswith("/")
        else f"{quote.host}$ {quote.place}: {quote.line}"
    )
