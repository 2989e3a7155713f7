"""`fab add-user` and `fab remove-user`: users of the cluster file, on the hosts and in the accounts."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.base.objections import outweighs
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.edits import people
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.people_ids import former
from slurmfab.cluster.inventory.public_keys import in_text, key_of, mistake
from slurmfab.core.engine import converge as deployment
from slurmfab.core.engine import drain_first, file_writing, notices, planning, requests, session
from slurmfab.core.engine.converge import compare_hosts
from slurmfab.core.engine.node_changes import change_each
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.plan.phases.people import associations_gone
from slurmfab.core.plan.plan import PHASES, RESTART, Phase, make_plan
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.status import snapshot
from slurmfab.on_hosts.agent.client.commands import cancel_all_of
from slurmfab.on_hosts.agent.core.listing import listed
from slurmfab.on_hosts.agent.people.removed_person import RemovedPerson

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.accounting import User
    from slurmfab.cluster.inventory.cluster import Cluster


ON_HOSTS = ("people",)
AFTERWARDS = ("container users", "sudo", "accounts", "former people")
"""Names of phases; the second ones are planned from facts that are gathered after the first."""


def survey(run: Run, names: Iterable[str] = (*ON_HOSTS, *AFTERWARDS)) -> tuple[PlanInput, list[Step]]:
    """Gather facts, plan named phases and compare hosts with them; nothing is changed, silent hosts excluded.

    Raises IdConflict between hosts; DeployFailed if the controller does not answer.
    """
    plan_input = planning.exclude_unfit_hosts(run, requests.gather(run, run.remaining(run.hosts), may_prepare=False))
    return plan_input, deployment.compare_hosts(run, make_plan(plan_input, run.remaining(run.hosts), phases_of(names)))


def phases_of(names: Iterable[str]) -> list[Phase]:
    """The phases with these names, in the order of a deployment."""
    wanted = set(names)
    return [phase for phase in PHASES if phase.name in wanted]


def write(run: Run, text: str) -> None:
    """Write cluster file and lock; SlurmfabError, with nothing written, while another run changes the cluster."""
    requests.require_claim(run)
    file_writing.write(run, text)


def deploy_users(run: Run, before: Cluster) -> PlanInput:
    """Deploy the users of the cluster file, and what else these users change; facts of the hosts afterwards.

    `before`: the cluster without the change. Raises SlurmfabError if a step failed on the controller, or another run
    changes the cluster.
    """
    for names in (ON_HOSTS, AFTERWARDS):
        plan_input, _ = survey(run, ())
        hosts = run.remaining(run.hosts)
        phases = phases_of((*names, *(concerned(plan_input, before, hosts) if names is AFTERWARDS else ())))
        steps = compare_hosts(run, make_plan(plan_input, hosts, phases))
        notices.tell_of_resources(run, steps)
        drain_first.drain_strangers(run, plan_input.conf_before.nodes)
        differing = {step.phase for step in steps if step.differs}
        deployment.converge(run, plan_input, phases_of(differing))
    plan_input, _ = survey(run, ())
    file_writing.save_lock(run)
    return plan_input


def concerned(plan_input: PlanInput, before: Cluster, hosts: Sequence[str]) -> list[str]:
    """The phases that a plan for the users of before has otherwise, such as quotas, and the guide that names accounts.

    Those that replace Slurm's files and restart its daemons are not among them: users change nothing there.
    """
    earlier = replace(plan_input, cluster=before)
    return [
        phase.name
        for phase in PHASES
        if phase.name not in ("slurmctld stop", "slurm.conf", *RESTART)
        and any(phase.resources(plan_input, host) != phase.resources(earlier, host) for host in hosts)
    ]


STDIN = "-"
MAX_KEY_FILE_CHARACTERS = 1 << 20  # at most this many characters are read from a file of public keys


@dataclass(frozen=True)
class AddUserOptions:
    """The options of `fab add-user`."""

    key_files: tuple[str, ...] = ()  # files of public SSH keys, `-` for standard input
    accounts: tuple[str, ...] = ()  # names of accounts, the default account first
    groups: tuple[str, ...] = ()  # names of supplementary groups
    uid: int | None = None  # the UID; `None` if slurmfab chooses it
    comment: str = ""
    sudo: bool = False  # whether the user may become root on controllers and login hosts


def add_user(cluster: str, name: str, options: AddUserOptions, output: Output) -> int:
    """Add a user, or new options, to the cluster file, and deploy its users to hosts and accounts.

    Nothing is written before all hosts have told whether name and UID are free (else IdConflict). Returns 3 if a host
    could not be reached. Raises InputError without public keys, or if the file would be invalid.
    """
    known = loading.load_named(cluster)
    if STDIN in options.key_files and output.ask_password:
        raise InputError("--key - and --ask-sudo-password both read standard input; give the keys in a file.")
    keys = read_keys(options.key_files, sys.stdin)
    text = grown_text(known, name, options, keys)
    if text == loading.read_text(known.path):
        print(f"{known.path} has all of this for {name} already.", file=sys.stderr)  # noqa: T201
    grown = replace(known, cluster=loading.parse(text, str(known.path)))
    run = session.start(grown, "", output, RunOptions("add-user"))
    return session.perform(run, output, lambda begun: carry_out_addition(begun, name, text, known.cluster))


def carry_out_addition(run: Run, name: str, text: str, before: Cluster) -> None:
    """Ask for conflicts, write the files, deploy the users; SlurmfabError, unwritten, for conflicts or silence."""
    plan_input, _ = survey(run, ON_HOSTS)
    write(run, text)
    if not plan_input.controller_facts.slurm_conf:
        run.progress.line(f"{run.inventory.path}: added {name}. The cluster is not deployed yet: {FAB} deploy.")
        return
    deploy_users(run, before)
    uid = run.inventory.lock.ids.get(f"{name}.uid")
    run.progress.line(f"{run.inventory.path}: added {name}{f', with UID {uid}' if uid else ''}.")


def grown_text(known: Inventory, name: str, options: AddUserOptions, keys: Sequence[str]) -> str:
    """The file's text with the user; InputError for missing accounts, or another UID, comment or sudo."""
    refuse_unknown_accounts(known, options.accounts)
    text = loading.read_text(known.path)
    old = next((user for user in known.cluster.users if user.name == name), None)
    if old is None:
        properties = {
            "uid": str(options.uid or ""),
            "comment": options.comment,
            "groups": options.groups,
            "accounts": options.accounts,
            "sudo": "yes" if options.sudo else "",
            "keys": tuple(dict.fromkeys(keys)),
        }
        return people.with_user(text, name, {key: value for key, value in properties.items() if value})
    refuse_other_properties(known, old, options)
    more = {
        "comment": options.comment if not old.comment else "",
        "groups": new_in(options.groups, old.groups),
        "accounts": new_in(options.accounts, old.accounts),
        "sudo": "yes" if options.sudo and not old.sudo else "",
        "keys": new_keys(keys, old.keys),
        "uid": str(options.uid or "") if old.uid is None else "",
    }
    added = {key: value for key, value in more.items() if value}
    return people.with_more(text, name, added) if added else text


def new_in(wanted: Sequence[str], present: Sequence[str]) -> tuple[str, ...]:
    """The wanted names that are not present yet, each once."""
    return tuple(dict.fromkeys(one for one in wanted if one not in present))


def new_keys(keys: Sequence[str], present: Sequence[str]) -> tuple[str, ...]:
    """The public keys that are not present yet, each once; comments of keys do not count."""
    known = {key_of(key) for key in present}
    return tuple({key_of(key): key for key in keys if key_of(key) not in known}.values())


def refuse_other_properties(known: Inventory, old: User, options: AddUserOptions) -> None:
    """Refuse, by one InputError, all options that would change the user in the file, and not only add to it."""
    pinned = known.lock.ids.get(f"{old.name}.uid")
    found = [
        f"--{key} {new}: {known.path} has {before}."
        for key, new, before in (("uid", options.uid, old.uid or pinned), ("comment", options.comment, old.comment))
        if new and before and new != before
    ]
    if old.sudo is False and options.sudo and "sudo" in old.model_fields_set:
        found.append(f"--sudo: {known.path} has sudo: no.")
    if found:
        raise InputError("\n".join((*found, f"{old.name} exists already; change that by hand. Nothing was changed.")))


def refuse_unknown_accounts(known: Inventory, accounts: Sequence[str]) -> None:
    """Refuse, by InputError with the known ones, accounts that the cluster file does not have."""
    names = [account.name for account in known.cluster.accounts]
    unknown = [account for account in accounts if account not in names]
    if unknown:
        raise InputError(
            f"--account {','.join(unknown)}: no such account in {known.path} (known: {', '.join(names) or 'none'}). "
            "Nothing was changed."
        )


def read_keys(files: Sequence[str], stdin: TextIO) -> tuple[str, ...]:
    """Read public keys in files (`-`: input); InputError shows no content, which may be a private key."""
    keys: list[str] = []
    for file in files:
        lines = in_text(read_text(file, stdin))
        reasons = [reason for line in lines if (reason := mistake(line))]
        if reasons:
            raise InputError(f"--key {file}: {reasons[0]}. Nothing was changed.")
        if not lines:
            raise InputError(f"--key {file}: it has no key. Nothing was changed.")
        keys += lines
    return tuple(keys)


def read_text(file: str, stdin: TextIO) -> str:
    """The text of a file, or of standard input for `-`; InputError if it is unreadable or not UTF-8."""
    try:
        if file == STDIN:
            return stdin.read(MAX_KEY_FILE_CHARACTERS)
        with Path(file).expanduser().open(encoding="utf-8") as opened:
            return opened.read(MAX_KEY_FILE_CHARACTERS)
    except OSError as error:
        raise InputError(f"--key {file}: it cannot be read: {error.strerror}. Nothing was changed.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"--key {file}: this is not text, so not a public key. Nothing was changed.") from error


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
    return session.perform(run, output, lambda begun: carry_out_removal(begun, name, text, known.cluster))


def carry_out_removal(run: Run, name: str, text: str, before: Cluster) -> None:
    """Check that no job or process of the user runs, write the files, and remove the user.

    `run`: a run over the cluster without the user; the file is not written yet. Raises SlurmfabError if a job or
    process runs, or the controller does not answer; the files are unchanged.
    """
    plan_input, _ = survey(run, ())
    is_deployed = bool(plan_input.controller_facts.slurm_conf)
    if is_deployed:
        refuse_jobs(run, name)
    refuse_processes(run, plan_input, name)
    write(run, text)
    if is_deployed:
        hosts = run.remaining(plan_input.cluster.database_hosts)
        change_each(run, "former people", hosts, associations_gone(plan_input, name))
    now = deploy_users(run, before)
    run.progress.line(f"{run.inventory.path}: removed {name}. The user's files stay where they are.")
    if now.cluster.rest:
        until = datetime.fromtimestamp(time.time() + now.cluster.rest.token_lifetime).astimezone()
        run.progress.line(
            f"Tokens (JWT) that {name} has made may count until {until:%Y-%m-%d %H:%M %Z}; those that root made "
            f"for {name}, as long as they say. To end all tokens now: {FAB} rotate-jwt-key."
        )
    still = [host for host, fact in now.facts.items() if name in fact.accounts and name in now.lock.leaving]
    if still:
        run.progress.line(
            f"{fold(still)}: {name} is still a user there, because a process of {name} runs again; the account is "
            f"locked and expired. Later: {FAB} deploy."
        )


def refuse_jobs(run: Run, name: str) -> None:
    """Stop, by SlurmfabError, if the user has running or pending jobs, or slurmctld does not answer."""
    jobs = [job for job in snapshot.ask_up(run.transport, run.controller, ("jobs",)).jobs if job.user == name]
    if jobs:
        told = listed((f"{job.id} ({job.state.lower()})" for job in jobs), SHOWN_JOBS)
        raise SlurmfabError(
            f"{name} has jobs: {told}. Wait for them, or cancel them: {shlex.join(cancel_all_of(name))}. "
            "Nothing was changed."
        )


def refuse_processes(run: Run, plan_input: PlanInput, name: str) -> None:
    """Stop, by SlurmfabError with the hosts, if processes of the user run on the controller or on most hosts.

    Those that fewer hosts tell of keep the account there alone, locked and expired.
    """

    def gone(now: PlanInput, host: str) -> tuple[RemovedPerson, ...]:
        account, uid = now.facts[host].accounts.get(name), now.lock.ids.get(f"{name}.uid")
        is_ours = account is not None and account.uid == uid and now.cluster.unix_users
        return (RemovedPerson(name, account.uid, account.home, must=True),) if account and is_ours else ()

    steps = compare_hosts(run, make_plan(plan_input, run.remaining(run.hosts), [Phase("people", gone)]))
    busy = {
        step.host: outcome
        for step in steps
        for outcome in step.with_status("failed")
        if outcome.id.startswith(f"{RemovedPerson.kind}:")
    }
    if outweighs(busy, run.controller, len(run.hosts)):
        raise SlurmfabError(
            "\n".join((
                *(f"{host}: {outcome.message}." for host, outcome in busy.items()),
                f"End them first; on {fold(busy)}: loginctl terminate-user {name}. If {name} logs in again meanwhile, "
                f"expire the account there before: usermod --expiredate 1 {name}. Nothing was changed.",
            ))
        )  # fmt: skip
