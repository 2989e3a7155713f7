"""The options of the command that submitted a job, as far as they say why it waits."""

from __future__ import annotations

import re

from slurmfab.commands.explain.evidence import Attempt, nodes_in

_OPTION = {
    "begin": re.compile(r"(?:^|\s)(?:--begin[= ]|-b ?)(now\S*|\d\S*[:T+-]\S*|[a-z]{4,}|\d{6,})"),
    "hold": re.compile(r"(?:^|\s)(?:--hold|-H)(?=\s|$)"),
    "dependency": re.compile(r"(?:^|\s)(?:--dependency[= ]|-d ?)(\S+)"),
    "nodes": re.compile(r"(?:^|\s)(?:--nodelist[= ]|-w ?)(\S+)"),
    "licenses": re.compile(r"(?:^|\s)(?:--licenses[= ]|-L ?)(\S+)"),
}


def option(job: Attempt, name: str) -> str:
    """The value of an option of the command that submitted a job; its name for one without value, else empty."""
    found = _OPTION[name].search(job.submit_line.partition(" --wrap")[0])
    return (found[1] if found.groups() else name) if found else ""


def wants_nodes(job: Attempt) -> tuple[str, ...]:
    """The nodes that a job asks for by name."""
    return job.wanted_nodes or nodes_in(option(job, "nodes"))
