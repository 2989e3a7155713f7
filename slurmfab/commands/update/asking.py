"""What hosts say about their updates: one request to each."""

from __future__ import annotations

from collections.abc import Iterable

from slurmfab.base.errors import HostError, SlurmfabError
from slurmfab.commands.update.host_updates import HostUpdates, slurms_own
from slurmfab.core.engine import requests, sleeping
from slurmfab.core.engine.actor import who
from slurmfab.core.engine.run import Run
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value


def ask_hosts(run: Run, hosts: Iterable[str], *, only_security: bool, fetches: bool) -> dict[str, HostUpdates]:
    """What an update would do on each host; hosts that do not answer are excluded from the run.

    `only_security`: whether only security fixes count. `fetches`: whether the hosts fetch their package lists first.
    """
    names = tuple(hosts)
    run.progress.begin("fetching package lists" if fetches else "asking", names)
    found: dict[str, HostUpdates] = {}
    silent: dict[str, HostError] = {}
    for host, answer in on_each(names, lambda host: ask(run, host, only_security=only_security, fetches=fetches)):
        if isinstance(answer, HostError) and requests.may_be_asleep(run, host, answer):
            silent[host] = answer
        elif isinstance(answer, SlurmfabError):
            run.exclude(host, answer)
        else:
            found[host] = answer
            run.progress.host_done(host)
    for host, error in {**silent, **(sleeping.among(run, silent) if silent else {})}.items():
        run.exclude(host, error)
    run.progress.end()
    return {host: found[host] for host in names if host in found}


def ask(run: Run, host: str, *, only_security: bool, fetches: bool) -> HostUpdates:
    """What an update would do on one host; arguments as of `ask_hosts`, HostError if it does not answer."""
    request = {
        "op": "updates",
        "slurm": slurms_own(),
        "security": only_security,
        "fetch": fetches,
        "who": f"{who()}, fab {run.options.command}",
    }
    return HostUpdates.from_answer(answer_value(host, run.transport.call(host, request), "updates"))
