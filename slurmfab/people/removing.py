"""`fab remove-user`: a person goes out of the cluster file, off all hosts, and out of the accounts; files stay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from slurmfab import inventory, operations
from slurmfab.agent.person_gone import PersonGone
from slurmfab.clusterfile import people_edits
from slurmfab.deploy import look_at
from slurmfab.errors import InputError, SlurmfabError
from slurmfab.hostlist import fold
from slurmfab.inventory import Inventory
from slurmfab.nodes.changes import change_each
from slurmfab.operations import Output
from slurmfab.people import changing
from slurmfab.people.numbers import former
from slurmfab.phases.people import associations_gone
from slurmfab.plan import Phase, make_plan
from slurmfab.run import Run
from slurmfab.situation import Situation
from slurmfab.status import snapshot

SHOWN_JOBS = 5


def remove_user(cluster: str, name: str, output: Output) -> int:
    """Take somebody out of the cluster file, and off the hosts, unless something of theirs runs.

    Returns:
        The exit code: 3 when a host could not be reached; the next deployment sees to it.

    Raises:
        InputError: nobody knows such a user, or somebody else does.
        SlurmfabError: jobs or processes of the user run; nothing was changed.
    """
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    names = [user.name for user in known.cluster.users]
    text = inventory.read_text(known.path)
    if name in names:
        text = people_edits.without_user(text, name)
    elif name not in former(known.cluster, known.lock.ids):
        raise InputError(f"{name}: no user in {known.path} (known: {', '.join(names) or 'none'}). Nothing was changed.")
    leaving = (*known.lock.leaving, name) if known.cluster.unix_users else known.lock.leaving
    lock = replace(known.lock, leaving=tuple(dict.fromkeys(leaving)))
    run = operations.start(
        Inventory(inventory.parse(text, str(known.path)), lock, known.path), "", output, command="remove-user"
    )
    return operations.perform(run, output, lambda begun: carry_out(begun, name, text))


def carry_out(run: Run, name: str, text: str) -> None:
    """See that nothing of the user's runs, write the files, and make it so.

    Raises:
        SlurmfabError: something runs, or the controller does not answer; the files are as before.
    """
    situation, _ = changing.survey(run, ())
    is_deployed = bool(situation.controller_facts.slurm_conf)
    if is_deployed:
        refuse_jobs(run, name)
    refuse_processes(run, situation, name)
    changing.write(run, text)
    if is_deployed:
        hosts = run.well(situation.cluster.database_hosts)
        change_each(run, "former people", hosts, associations_gone(situation, name))
    now = changing.settle(run)
    run.progress.line(f"{run.inventory.path}: {name} is out of it. Files stay where they are.")
    still = [host for host, fact in now.facts.items() if name in fact.accounts and name in now.lock.leaving]
    if still:
        run.progress.line(
            f"{fold(still)}: {name} is a user still, since something of theirs runs again. Later: fab deploy."
        )


def refuse_jobs(run: Run, name: str) -> None:
    """Stop if the user has jobs, running or waiting.

    Raises:
        SlurmfabError: there are some, or slurmctld does not answer.
    """
    jobs = [job for job in snapshot.ask_up(run.transport, run.controller, ("jobs",)).jobs if job.user == name]
    if jobs:
        told = ", ".join(f"{job.id} ({job.state.lower()})" for job in jobs[:SHOWN_JOBS])
        more = f" and {len(jobs) - SHOWN_JOBS} more" if len(jobs) > SHOWN_JOBS else ""
        raise SlurmfabError(
            f"{name} has jobs: {told}{more}. Wait for them, or cancel them: scancel --user {name}. Nothing was changed."
        )


def refuse_processes(run: Run, situation: Situation, name: str) -> None:
    """Stop if processes of the user run on any host.

    Raises:
        SlurmfabError: some do.
    """

    def gone(now: Situation, host: str) -> tuple[PersonGone, ...]:
        account, uid = now.facts[host].accounts.get(name), now.lock.ids.get(f"{name}.uid")
        is_ours = account is not None and account.uid == uid and now.cluster.unix_users
        return (PersonGone(name, account.uid, account.home, must=True),) if account and is_ours else ()

    steps = look_at(run, make_plan(situation, run.well(run.hosts), [Phase("people", gone)]))
    busy = changing.failed(steps, PersonGone.kind)
    if busy:
        raise SlurmfabError(
            "\n".join((
                *(f"{host}: {outcome.message}." for host, outcome in busy.items()),
                f"End them first, as on {fold(busy)}: loginctl terminate-user {name}. Nothing was changed.",
            ))
        )  # fmt: skip
