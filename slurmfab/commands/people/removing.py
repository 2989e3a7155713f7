"""`fab remove-user`: removes a user from the cluster file, from all hosts and from accounts; the user's files stay."""

from __future__ import annotations

import shlex
from dataclasses import replace

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.edits import people
from slurmfab.cluster.inventory.people_ids import former
from slurmfab.commands.people import changing
from slurmfab.core.engine import session
from slurmfab.core.engine.converge import compare_hosts
from slurmfab.core.engine.node_changes import change_each
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.plan.phases.people import associations_gone
from slurmfab.core.plan.plan import Phase, make_plan
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.status import snapshot
from slurmfab.on_hosts.agent.client.commands import cancel_all_of
from slurmfab.on_hosts.agent.people.removed_person import RemovedPerson

SHOWN_JOBS = 5


def remove_user(cluster: str, name: str, output: Output) -> int:
    """Remove a user from the cluster file, the hosts and accounts, unless jobs or processes of the user run.

    Returns 3 if a host could not be reached: the next deployment removes the user there. Raises InputError if the file
    has no such user; SlurmfabError, nothing changed, if something runs.
    """
    known = loading.load_named(cluster)
    names = [user.name for user in known.cluster.users]
    text = loading.read_text(known.path)
    if name in names:
        text = people.without_user(text, name)
    elif name not in former(known.cluster, known.lock.ids):
        raise InputError(
            f"{name}: not a user in {known.path} (known: {', '.join(names) or 'none'}). Nothing was changed."
        )
    leaving = (*known.lock.leaving, name) if known.cluster.unix_users else known.lock.leaving
    lock = replace(known.lock, leaving=tuple(dict.fromkeys(leaving)))
    run = session.start(
        replace(known, cluster=loading.parse(text, str(known.path)), lock=lock), "", output, RunOptions("remove-user")
    )
    return session.perform(run, output, lambda begun: carry_out(begun, name, text))


def carry_out(run: Run, name: str, text: str) -> None:
    """Check that no job or process of the user runs, write the files, and remove the user.

    `run`: a run over the cluster without the user; the file is not written yet. Raises SlurmfabError if a job or
    process runs, or the controller does not answer; the files are unchanged.
    """
    plan_input, _ = changing.survey(run, ())
    is_deployed = bool(plan_input.controller_facts.slurm_conf)
    if is_deployed:
        refuse_jobs(run, name)
    refuse_processes(run, plan_input, name)
    changing.write(run, text)
    if is_deployed:
        hosts = run.remaining(plan_input.cluster.database_hosts)
        change_each(run, "former people", hosts, associations_gone(plan_input, name))
    now = changing.deploy_users(run)
    run.progress.line(f"{run.inventory.path}: removed {name}. The user's files stay where they are.")
    still = [host for host, fact in now.facts.items() if name in fact.accounts and name in now.lock.leaving]
    if still:
        run.progress.line(
            f"{fold(still)}: {name} is still a user there, because a process of {name} runs again; the account is "
            f"locked and expired. Later: {FAB} deploy."
        )


def refuse_jobs(run: Run, name: str) -> None:
    """Stop if the user has running or pending jobs.

    Raises SlurmfabError if the user has jobs, or slurmctld does not answer.
    """
    jobs = [job for job in snapshot.ask_up(run.transport, run.controller, ("jobs",)).jobs if job.user == name]
    if jobs:
        listed = ", ".join(f"{job.id} ({job.state.lower()})" for job in jobs[:SHOWN_JOBS])
        more = f" and {len(jobs) - SHOWN_JOBS} more" if len(jobs) > SHOWN_JOBS else ""
        raise SlurmfabError(
            f"{name} has jobs: {listed}{more}. Wait for them, or cancel them: {shlex.join(cancel_all_of(name))}. "
            "Nothing was changed."
        )


def refuse_processes(run: Run, plan_input: PlanInput, name: str) -> None:
    """Stop if processes of the user run on any host.

    Raises SlurmfabError if processes of the user run; the message has the hosts.
    """

    def gone(now: PlanInput, host: str) -> tuple[RemovedPerson, ...]:
        account, uid = now.facts[host].accounts.get(name), now.lock.ids.get(f"{name}.uid")
        is_ours = account is not None and account.uid == uid and now.cluster.unix_users
        return (RemovedPerson(name, account.uid, account.home, must=True),) if account and is_ours else ()

    steps = compare_hosts(run, make_plan(plan_input, run.remaining(run.hosts), [Phase("people", gone)]))
    busy = changing.failed(steps, RemovedPerson.kind)
    if busy:
        raise SlurmfabError(
            "\n".join((
                *(f"{host}: {outcome.message}." for host, outcome in busy.items()),
                f"End them first; on {fold(busy)}: loginctl terminate-user {name}. If {name} logs in again meanwhile, "
                f"expire the account there before: usermod --expiredate 1 {name}. Nothing was changed.",
            ))
        )  # fmt: skip
