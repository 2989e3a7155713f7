"""What the hosts of a cluster have for a support bundle: all are asked at the same time, and some stay silent."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import as_completed
from dataclasses import dataclass, field, replace
from typing import Any

from slurmfab.base.answers import ADVICE
from slurmfab.base.errors import AgentFailed, HostError, SlurmfabError
from slurmfab.cluster.facts import HostFacts
from slurmfab.core.engine.requests import ask_facts, fact_selection
from slurmfab.core.engine.run import Run
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value

DEADLINE = 900.0  # seconds for all hosts together
MOST_CHARACTERS = 192 << 20  # the most characters of all files of all hosts
MOST_OF_HOST = 16 << 20  # the most characters of all files of one host; its agent sends less
MOST_SECRETS = 1 << 20  # the most bytes of all secrets of one host
LEAST = 3  # bytes of the shortest one
HOST, STATE = "host", "cluster"  # parts of the request: files, programs and logs of the host; the state of Slurm


@dataclass(frozen=True)
class HostAnswer:
    """What a host has answered."""

    files: Mapping[str, str]  # texts by name
    left: Mapping[str, str]  # reason by name, of what is not there or not whole
    secrets: tuple[bytes, ...] = field(repr=False)  # values that no text may have
    public: tuple[str, ...] = ()
    facts: HostFacts | None = None  # its facts; `None` if it was not asked, or they were refused


@dataclass
class Gathered:
    """The answers of all hosts that were asked."""

    answers: dict[str, HostAnswer] = field(default_factory=dict)  # by host
    missing: dict[str, str] = field(default_factory=dict)  # the reason, by host, of those that did not answer


def gather(run: Run, hosts: Iterable[str]) -> Gathered:
    """Ask the hosts that are wanted in a bundle, and those whose secrets may be in their texts."""
    cluster, wanted = run.inventory.cluster, frozenset(hosts)
    needed = {*wanted, *cluster.controllers, *cluster.database_hosts}
    asked = tuple(host for host in cluster.hosts if host in needed)
    parts = {host: ([HOST] if host in wanted else []) + ([STATE] if host == run.controller else []) for host in asked}
    run.progress.begin("asking", asked)
    found, size, end = Gathered(), 0, time.monotonic() + DEADLINE
    pending = on_each(asked, lambda host: ask(run, host, parts[host]))
    futures = dict(pending.futures)
    try:
        for future in as_completed(futures, timeout=DEADLINE):
            host = futures[future]
            try:
                answer = bounded(future.result(), MOST_CHARACTERS - size)
            except SlurmfabError as error:
                found.missing[host] = str(error)
                continue
            size += sum(map(len, answer.files.values()))
            found.answers[host] = answer
            run.progress.host_done(host)
    except TimeoutError:
        silent = [host for host in asked if host not in found.answers and host not in found.missing]
        found.missing.update(dict.fromkeys(silent, f"did not answer within {DEADLINE / 60:.0f} minutes"))
    finally:
        pending.close()
    if run.controller in found.missing and time.monotonic() < end:
        ask_another_controller(run, found)
    return found


def ask_another_controller(run: Run, found: Gathered) -> None:
    """Ask the backup controllers for the state of Slurm, as the primary controller is silent."""
    for host in run.inventory.cluster.controllers[1:]:
        if host not in found.answers:
            continue
        try:
            state, answer = ask(run, host, [STATE]), found.answers[host]
        except SlurmfabError:
            continue
        files, left = {**answer.files, **state.files}, {**answer.left, **state.left}
        found.answers[host] = replace(answer, files=files, left=left)
        return


def ask(run: Run, host: str, parts: list[str]) -> HostAnswer:
    """Ask a host; without parts for its secrets alone; HostError if it, or a valid answer, is missing."""
    cluster = run.inventory.cluster
    private = [path for path, one in cluster.files.items() if one.is_secret and one.is_on(host, cluster.roles(host))]
    request = {"op": "support", "parts": parts, "private": private}
    value: dict[str, Any] = answer_value(host, run.transport.call(host, request), "support")
    left, facts = dict(value["left"]), None
    secrets = tuple(one for one in map(base64.b64decode, value["secrets"]) if len(one) >= LEAST)
    if sum(map(len, secrets)) > MOST_SECRETS or sum(len(text) for _, text in value["files"]) > MOST_OF_HOST:
        raise AgentFailed(host, f"its answer is larger than the agent makes it. {ADVICE}")
    if HOST in parts:
        try:
            facts = ask_facts(run.transport, host, with_secrets=False, names=fact_selection(run.inventory, host))
        except HostError as error:
            left["facts.json"] = str(error)
    return HostAnswer(
        dict(value["files"]),
        left,
        secrets,
        tuple(value["public"]),
        facts,
    )


def bounded(answer: HostAnswer, most: int) -> HostAnswer:
    """An answer without its files if these have too many characters; its secrets stay."""
    if sum(map(len, answer.files.values())) <= most:
        return answer
    return replace(answer, files={}, left={**answer.left, "all files": "the bundle is full; see --hosts"})
