"""The commands `fab deploy`, `fab plan` and `fab phases`, from their options to the exit code.

Loading the modules that plan and change takes as long as hosts take to answer, so both are done at once: this module
imports at its top what the first request needs, and the other modules after that request was sent.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from slurmfab.base.errors import InputError
from slurmfab.base.exit_codes import DONE
from slurmfab.base.hostlist import expand_endpoints, fold
from slurmfab.base.ip_addresses import canonical
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.connection_options import ConnectionOptions
from slurmfab.core.engine import record, requests, retry
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output, ending, perform, start
from slurmfab.core.engine.summary import after_new_nodes, after_plan, command_for
from slurmfab.core.impact.approvals import DeployOptions
from slurmfab.hosts import route

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.loading import Inventory
    from slurmfab.core.engine.report import Report
    from slurmfab.core.plan.plan import Choice

SWITCH_INTERVAL = 0.0005
"""Seconds after which a busy thread yields to a waiting one (sys.setswitchinterval) while modules are loaded.

With Python's default of 0.005 s every packet of every host would wait that long for the main thread.
"""


@dataclass(frozen=True)
class PhaseWord:
    """A word for `--only`."""

    word: str  # as it is typed
    about: str  # what it brings about, or what it stands for
    phases: tuple[str, ...]  # the names of its phases, as outputs have them
    also: tuple[str, ...]  # the words of further phases that it cannot be without, in their order


@dataclass(frozen=True)
class PhaseList:
    """The phases of a deployment."""

    version: int  # of this format: 1
    phases: tuple[PhaseWord, ...]  # in the order of a deployment
    words: tuple[PhaseWord, ...]  # further words, for several phases or for a part of one


def is_first_contact(cluster: str, options: DeployOptions) -> bool:
    """Whether a deployment is the first contact: it names hosts, and there is no cluster file yet."""
    return bool(options.hosts) and not options.plan_file and not loading.named_path(cluster).exists()


def deploy(cluster: str, options: DeployOptions, connection_options: ConnectionOptions, output: Output) -> int:
    """Deploy the cluster file; connection options are for the first contact; here they have to be the file's.

    Raises InputError if options contradict, or for a mistake; SlurmfabError if the deployment failed.
    """
    refuse_wrong_options(options)
    if options.plan_file:
        from slurmfab.core.engine import planned

        planned_run = planned.start_run(cluster, options, connection_options, output)
        return perform(planned_run, output, deploy_and_accept) if planned_run else DONE
    only = choice(options)
    path = loading.named_path(cluster)
    known = loading.load(path)
    hosts = met_before(known, options.hosts, connection_options)
    again = retry.hosts_to_retry(known, output.progress().line) if options.retry_failed else hosts
    if again is None:
        return DONE
    run_options = RunOptions("deploy", options.approvals, wakes=options.wake, asks=not options.yes, only=only)
    run = start(known, again, output, run_options, accept_new=connection_options.accept_new)
    code = perform(run, output, deploy_and_accept)
    if code == DONE and record.completes_first(run):
        write(after_new_nodes(path), output.stream)
    return code


def met_before(known: Inventory, hosts: str, given: ConnectionOptions) -> str:
    """The hosts of a first contact's command that is given again, by their names in the cluster file, as a hostlist.

    Raises InputError for options that contradict the file, and for hosts that it does not have.
    """
    given.refuse_unknown_become()
    cluster, path = known.cluster, known.path
    if given.controller_computes and cluster.controller not in cluster.compute_nodes:
        raise InputError(f"{path} says which hosts compute; name the controller in its nodes.")
    told = {
        "--user": (given.user, cluster.ssh.user),
        "--key": (given.key, cluster.ssh.key),
        "--port": (given.port, cluster.ssh.port),
        "--become": (given.become, cluster.ssh.become or "none"),
        "--gateway": (given.gateway, cluster.ssh.gateway),
        "--name": (given.name, cluster.name),
    }
    names = []
    if hosts and not all(host in cluster.hosts for host in hosts.split(",")):
        routes = route.to_hosts(cluster)
        by_place = {canonical(cluster.addresses.get(host, host)): host for host in cluster.hosts}
        by_place |= {canonical(way.address): host for host, way in routes.items()} | {one: one for one in cluster.hosts}
        for one in expand_endpoints(hosts):
            names.append(name := by_place.get(canonical(one.address), one.address))
            if way := routes.get(name):
                told[f"--hosts: user of {name}"] = (one.user, way.user)
                told[f"--hosts: port of {name}"] = (one.port, way.port)
    if wrong := [
        f"{flag} {value}, where it has {there or 'nothing'}"
        for flag, (value, there) in told.items()
        if value not in ("", 0, None, there)
    ]:
        raise InputError(
            f"{path} says how to reach the hosts ({'; '.join(wrong)}); change its ssh section instead of giving "
            f"options. With what the file says: {command_for('deploy', path)}."
        )
    if strange := [name for name in names if name not in cluster.hosts]:
        raise InputError(
            f"{fold(strange)}: not in {path} (known: {fold(cluster.hosts)}). To go on with these: "
            f"{command_for('deploy', path)}. To add new hosts: {FAB} add-node."
        )
    return ",".join(names) or hosts


def refuse_wrong_options(options: DeployOptions) -> None:
    """Refuse options that exclude each other, and unknown names of disruptive changes, by InputError."""
    if options.retry_failed:
        retry.refuse_others(options.hosts, options.plan_file)
    if options.approvals.allowed:
        from slurmfab.core.impact.disruptive_changes import require_known

        require_known(options.approvals)


def choice(options: DeployOptions) -> Choice | None:
    """The phases that `--only` chooses; `None` for all.

    Raises InputError for words that no phase has, and for options that are about phases which are left out.
    """
    if not options.only:
        return None
    from slurmfab.core.plan.plan import PRUNING, as_word, choose

    only = choose(options.only)
    if options.approvals.move_ids:
        raise InputError("--move-ids stops daemons, and phases of all kinds start them again; leave out --only.")
    if options.approvals.prune and not only.phases & {*PRUNING}:
        about = ", ".join(map(as_word, PRUNING))
        raise InputError(f"--prune is about {about}, which --only {','.join(only.words)} leaves out.")
    return only


def show_phases(output: Output) -> None:
    """Print the words for phases, in the order of a deployment; also as JSON."""
    from slurmfab.base.terminal import table
    from slurmfab.core.plan.plan import PARTS, PHASES, with_needs

    def described(word: str, about: str, names: tuple[str, ...]) -> PhaseWord:
        found = with_needs(names).difference(names)
        return PhaseWord(word, about, names, tuple(one.word for one in PHASES if one.name in found))

    phases = tuple(described(one.word, one.about, (one.name,)) for one in PHASES)
    words = tuple(described(word, about, names) for word, (about, names) in PARTS.items())
    output.write_json(PhaseList(1, phases, words))
    rows = table([(one.word, one.about) for one in (*phases, *words)], width=0)
    write("\n".join((*rows[: len(phases)], "", "Further words:", *rows[len(phases) :])), output.stream)


def deploy_and_accept(run: Run) -> None:
    """Deploy, run a test job on each new node and let those that pass into service, and then batch jobs of a user."""
    ask_and_load(run)
    from slurmfab.core.engine import acceptance
    from slurmfab.core.engine import converge as deployment

    deployment.deploy(run)
    if run.takes("new nodes"):
        acceptance.accept_new_nodes(run)
    acceptance.prove_user_jobs(run)


def plan(cluster: str, options: DeployOptions, save: str, connection_options: ConnectionOptions, output: Output) -> int:
    """Show what a deployment would do.

    Args:
        save: file in which the plan is saved for `deploy --plan`; empty for none.
        connection_options: for the preview of a first contact; here they have to be the file's.

    Returns:
        The exit code: 4 when there is something to do, otherwise that of the report.

    Raises:
        SlurmfabError: the controller does not answer, or the cluster file cannot be deployed.
    """
    from slurmfab.core.engine import saved_plan

    only = choice(options)
    path = loading.named_path(cluster)
    if save:
        saved_plan.refuse_other_file(Path(save))
    files = saved_plan.Files.of(path)
    known = loading.load(path)
    options = replace(options, hosts=met_before(known, options.hosts, connection_options))
    digest_key = saved_plan.new_key() if save else ""
    run_options = RunOptions("plan", options.approvals, digest_key=digest_key, only=only)
    run = start(known, options.hosts, output, run_options)
    report = show_plan(run, output)
    if save:
        saved_plan.save(saved_plan.from_run(run, files), Path(save))
        write(f"Saved in {save}.\nNext: {command_for(f'deploy --plan {shlex.quote(save)}', path)}", output.stream)
    elif after := after_plan(report, options, path):
        write(after, output.stream)
    return report.exit_code


def show_plan(run: Run, output: Output) -> Report:
    """Compare all hosts with what is wanted, and print what a deployment would do.

    `run`: a run of the command `plan`. Raises SlurmfabError if the controller does not answer, or the cluster file
    cannot be deployed.
    """
    report = dry_run(run)
    report = replace(report, finds_work=any(step.differs for step in report.steps))
    output.write_json(report)
    from slurmfab.core.engine.plan_text import plan_text

    write(plan_text(report, report.steps), output.stream)
    return report


def dry_run(run: Run) -> Report:
    """Report what a deployment would do, and close the connections.

    Raises SlurmfabError if the controller does not answer, or the cluster file cannot be deployed.
    """
    with ending(run):
        ask_and_load(run)
        from slurmfab.core.engine import converge as deployment

        return deployment.dry_run(run)


def ask_and_load(run: Run) -> None:
    """Ask the hosts for their facts and load the modules for planning while the hosts work."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        requests.ask_ahead(run)
        from slurmfab.cluster import facts
        from slurmfab.cluster.slurm import render
        from slurmfab.core.engine import converge as deploy  # noqa: F401 - loads all modules that plan, compare and change

        facts.adapter()
        render.load_templates()
    finally:
        sys.setswitchinterval(usual)
