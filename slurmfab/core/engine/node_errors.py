"""Why nodes are not ready, in the words of their own slurmd, where slurmctld knows only that they are not."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from slurmfab.base.errors import SlurmfabError
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.nodes.registered import SEE_LOG

MOST = 16  # how many nodes are asked: with many, the first ones tell what is wrong with all


def quote_logs(run: Run, steps: tuple[Step, ...], busy: Container[str]) -> tuple[Step, ...]:
    """The steps of nodes that are not ready, with slurmd's errors in place of its log; busy hosts are not asked."""
    asked = [step.host for step in steps if any(SEE_LOG in one.message for one in step.outcomes)]
    free = [host for host in run.remaining(tuple(asked)) if host not in busy][:MOST]
    found = dict(on_each(free, lambda host: errors_of(run, host))) if free else {}
    said = {host: words for host, words in found.items() if isinstance(words, str) and words}
    return tuple(quoted(step, said[step.host]) if step.host in said else step for step in steps)


def errors_of(run: Run, host: str) -> str:
    """The errors that the slurmd of a host wrote since its start; empty for none, or if the host is silent."""
    try:
        answer = run.transport.call(host, {"op": "daemon-errors", "unit": "slurmd"})
        return " | ".join(answer_value(host, answer, "daemon_errors")["errors"]).rstrip(".")
    except SlurmfabError:
        return ""


def quoted(step: Step, words: str) -> Step:
    """A step whose failures quote slurmd."""
    told = f"The log of its slurmd says: {words}"
    return replace(
        step, outcomes=tuple(replace(one, message=one.message.replace(SEE_LOG, told)) for one in step.outcomes)
    )
