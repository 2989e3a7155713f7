"""`fab rotate-jwt-key`: a new key for tokens on the hosts that prove them, and none of the earlier tokens counts.

slurmctld and slurmdbd read the key when they start, and munge's credentials, by which hosts and jobs are known, have
nothing to do with it. So the key is replaced first, and then each daemon is restarted.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from slurmfab.base.errors import HostError, InputError, SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.base.paths import JWT_KEY
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import loading
from slurmfab.commands.munge.key_rotation import failure, sentence, slurm_as_before, state_before
from slurmfab.core.engine import session
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.requests import apply_step, gather, require_claim, without_foreign
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.plan.phases.rest import proving
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.core.resource import FAILED, OK, Outcome, Resource
from slurmfab.on_hosts.agent.files.file import File
from slurmfab.on_hosts.agent.munge.key import NEW_SIZE
from slurmfab.on_hosts.agent.services.service import Service

COMMAND = "rotate-jwt-key"
NO_CHANGE = "The key of tokens was not changed on any host."
PROOF_SECONDS = 60.0  # how long daemons may take, after their restart, to take tokens made with the new key
POLL_SECONDS = 0.5


def rotate_jwt_key(cluster: str, output: session.Output) -> int:
    """Give the daemons that prove tokens a new key; 3 if one keeps the old, otherwise as `rotate`."""
    known = loading.load_named(cluster)
    if not known.cluster.rest:
        raise InputError(f"{known.path} has no key rest, so the cluster has no tokens. Nothing was changed.")
    return session.perform(session.start(known, "", output, RunOptions(COMMAND)), output, rotate)


def rotate(run: Run) -> None:
    """Replace the key on all hosts that have it, restart their daemons, and prove both.

    The primary controller gets it last: until then, a deployment gives the others the old one again. Raises
    SlurmfabError if a host that proves tokens cannot take the key; then all have the old one.
    """
    facts = gather(run, run.hosts, may_prepare=False)
    facts = without_foreign(run, facts)
    plan_input = PlanInput(run.inventory.cluster, run.inventory.lock, facts)
    proving_hosts = [host for host in reversed(proving(plan_input)) if host in facts]
    old = facts[run.controller].jwt_key
    if not old:
        raise SlurmfabError(f"{run.controller}: there is no key of tokens yet. First: {FAB} deploy. {NO_CHANGE}")
    missing = [host for host in proving(plan_input) if host not in facts]
    require_claim(run)
    before = state_before(run, plan_input)
    if not before.snapshot.is_up:
        raise SlurmfabError(f"{run.controller}: slurmctld does not answer, so nothing could be proved. {NO_CHANGE}")
    earlier = ask(run, make=True)["made"]
    replace_key(run, plan_input, proving_hosts, old, base64.b64encode(os.urandom(NEW_SIZE)).decode())
    for host in proving_hosts:
        units = ["slurmdbd"] if plan_input.cluster.database and host == plan_input.cluster.database.host else []
        units += ["slurmctld"] if host in plan_input.cluster.controllers else []
        carry_out(run, "daemons", host, [Service(unit, watches=(JWT_KEY,)) for unit in units])
    prove(run, [earlier] if earlier else [])
    for host, outcomes in slurm_as_before(run, before).items():
        run.record_steps(Step("proof", host, tuple(outcomes)))
    if missing:
        run.progress.line(
            f"{fold(missing)}: did not answer, and still takes tokens made with the old key. When it is back: "
            f"{FAB} deploy gives it the new one."
        )


def replace_key(run: Run, plan_input: PlanInput, hosts: Iterable[str], old: str, new: str) -> None:
    """Put the new key (base64) on hosts, one after the other; SlurmfabError, with the old one back, if one fails."""
    owner, group = plan_input.slurm_owner(plan_input.cluster.controller)
    done: list[str] = []
    for host in hosts:
        done.append(host)
        try:
            key = File(JWT_KEY, new, owner=owner, group=group, mode=0o400, secret=True, encoding="base64")
            carry_out(run, "token key", host, [key])
        except SlurmfabError as error:
            back = File(JWT_KEY, old, owner=owner, group=group, mode=0o400, secret=True, encoding="base64")
            left = []
            for one in done:
                try:
                    carry_out(run, "token key", one, [back])
                except SlurmfabError:
                    left.append(one)
            others = f" {fold(left)} may have the new one until {FAB} deploy." if left else ""
            reason = getattr(error, "reason", str(error))
            raise SlurmfabError(f"{host}: {sentence(reason)} No daemon uses a new key of tokens.{others}") from error


def carry_out(run: Run, phase: str, host: str, resources: list[Resource]) -> None:
    """Converge resources on a host, and record it. Raises HostError if one failed, or the host cannot be reached."""
    step = apply_step(run, phase, host, resources)
    run.record_steps(step)
    run.progress.host_done(host, step)
    if step.has_failed:
        raise failure(host, step)


def ask(run: Run, *, make: bool, tokens: Iterable[str] = ()) -> dict[str, Any]:
    """Have the controller make a token, or try others; HostError if it does not answer."""
    database = run.inventory.cluster.database is not None
    request = {"op": "tokens", "make": make, "try": [*tokens], "with_database": database}
    answer: dict[str, Any] = answer_value(run.controller, run.transport.call(run.controller, request), "tokens")
    return answer


def prove(run: Run, earlier: list[str], pause: Callable[[float], None] = time.sleep) -> None:
    """Prove that tokens made now count, and those of before do not. `earlier`: tokens made with the old key."""
    deadline = time.monotonic() + PROOF_SECONDS
    while True:
        try:
            made = ask(run, make=True)
            new = made["made"]
            taken = ask(run, make=False, tokens=[new, *earlier])["taken"] if new else [[made["trouble"]]]
        except HostError as error:
            run.exclude(run.controller, error)
            raise
        if not taken[0] or time.monotonic() > deadline:
            break
        pause(POLL_SECONDS)
    daemons = 2 if run.inventory.cluster.database else 1
    outcomes = [Outcome("tokens:new", FAILED if taken[0] else OK, message="; ".join(taken[0]))]
    outcomes += [
        Outcome("tokens:old", OK)
        if len(refused) == daemons
        else Outcome("tokens:old", FAILED, message=f"a token made with the old key still counts. Then: {FAB} deploy.")
        for refused in taken[1:]
    ]
    step = Step("proof", run.controller, tuple(outcomes))
    run.record_steps(step)
    run.progress.host_done(run.controller, step)
    if not step.has_failed:
        run.progress.line(f"Proved on {run.controller}: a new token counts, and one of before is refused.")
