"""What somebody meant who has misspelt a word, or has typed one of another tool."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from slurmfab.base.program_name import FAB

if TYPE_CHECKING:
    from slurmfab.cli.tasks.command import Command

NEAR, NEARER = 0.7, 0.85
"""How much alike two words are, from 0 to 1, so that one is taken for the other; and where there is another reading."""

DRY_RUN = ("--dry-run", "--dry", "--check", "--diff", "--noop", "-n", "-C", "-D", "-R")
"""What other tools call a run that changes nothing: Ansible, Invoke, Puppet, make, apt."""

PLAN_SHOWS = f" {FAB} plan shows what deploy would do, with all differences, and changes nothing."

IN_OTHER_TOOLS = {
    **dict.fromkeys(DRY_RUN, ("--dry-run", "--plan")),
    **dict.fromkeys(("-i", "--inventory", "--inventory-file"), ("--cluster",)),
    **dict.fromkeys(("-l", "--limit", "--subset", "-w", "--nodelist"), ("--hosts",)),
}
"""Options of other tools, and what means the same here, where a task has it."""


def closest(word: str, known: Iterable[str], cutoff: float = NEAR) -> str:
    """The known word that is most like a misspelt one; empty if none is."""
    from difflib import get_close_matches  # only where something is misspelt

    return next(iter(get_close_matches(word, known, n=1, cutoff=cutoff)), "")


def did_you_mean(word: str) -> str:
    """A question, with a space in front; empty without a word."""
    return f" Did you mean {word}?" if word else ""


def meant(flag: str, task: Command | None) -> str:
    """What an option that a task does not have is called here, as a sentence after a space; empty if unknown."""
    if task is None or flag not in IN_OTHER_TOOLS:
        return ""
    if task.name == "deploy" and flag in DRY_RUN:
        return PLAN_SHOWS
    same = next((one for one in IN_OTHER_TOOLS[flag] if one in task.flags), "")
    if same == "--cluster":
        return " The cluster file takes the place of an inventory: --cluster FILE. --hosts @FILE reads hosts from one."
    return f" Here it is {same}." if same else ""
