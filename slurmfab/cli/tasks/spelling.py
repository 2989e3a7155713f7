"""What somebody meant whose command line Invoke's parser does not understand."""

from __future__ import annotations

import re
import sys
from difflib import get_close_matches

from invoke.collection import Collection
from invoke.exceptions import ParseError
from invoke.parser.context import ParserContext
from invoke.tasks import Task

from slurmfab.base.program_name import FAB

UNKNOWN = re.compile(r"No idea what '(.*)' is!")  # what Invoke's parser says of a word that it does not know
NO_VALUE = re.compile(r"Flag <Argument: (?:\w \()?([\w-]+).*> needed value")  # and of an option at the end of the line
NEAR = 0.7  # how much alike two words are, from 0 to 1, so that one is taken for the other

DRY_RUN = ("--dry-run", "--dry", "--check", "--diff", "--noop", "-n", "-C", "-D")
IN_OTHER_TOOLS = {
    **dict.fromkeys(DRY_RUN, ("--dry-run", "--plan")),
    **dict.fromkeys(("--inventory", "--inventory-file"), ("--cluster",)),
    **dict.fromkeys(("--limit", "--subset", "--nodelist"), ("--hosts",)),
}
"""Options of Ansible, Puppet, make, apt and pdsh, and what means the same here, where a task has it."""

HELP = ("--help", "-h")
FOR_WORDS = ("--hosts", "--run", "--drills")  # the options for what somebody may type as a bare word


def told(error: ParseError, tasks: Collection) -> str:
    """What Invoke's parser did not understand, with what was meant, and where to look."""
    context = error.context
    name = context.name if context else None
    if context and name and (word := option_for_word(context)):
        return no_option(name, word, [*context.flags])
    see = f" See: {FAB} {name} --help." if name else f" All tasks: {FAB} --list."
    found = UNKNOWN.fullmatch(str(error))
    if without_value := NO_VALUE.search(str(error)):
        return f"--{without_value[1]} needs a value.{see}"
    if not found:
        needed = context.missing_positional_args if context else []
        reason = f"{name} needs {str(needed[0].name).upper()}: {needed[0].help}" if needed else str(error)
        return f"{reason.rstrip('!.')}.{see}"
    word, flags = found[1], [*context.flags] if context else []
    is_command = context and any(one.name == "command" for one in context.positional_args)
    quote = f" A command is one word, in quotes: {FAB} {name} 'df -h /tmp'." if is_command else ""
    if word.startswith("-"):
        return f"{no_option(name or FAB, word, flags)}{quote}"
    near = meant(word, [*tasks.task_names, *(alias for aliases in tasks.task_names.values() for alias in aliases)])
    if isinstance(getattr(sys.modules.get("fabfile"), word.replace("-", "_"), None), Task):
        near = f" The fabfile has it, and does not add it: namespace.add_task({word.replace('-', '_')})."
    if not name or near:
        return f"There is no task {word}.{near} All tasks: {FAB} --list."
    option = quote or next((f" It goes by {one} {word}." for one in FOR_WORDS if one in flags), "")
    option = f" A command stands behind --: {FAB} {name} ... -- {word}." if getattr(tasks[name], "rest", "") else option
    return f"{name} takes no further word, but here is {word}.{option}{see}"


def option_for_word(context: ParserContext) -> str:
    """An option that the parser has taken for a word, as it does with one that the task does not have."""
    given = (str(one.value) for one in context.positional_args if one.value is not None)
    return next((value for value in given if value.startswith("-") and value != "-"), "")


def no_option(task: str, flag: str, flags: list[str]) -> str:
    """That a task has no such option, with what was meant."""
    same = next((one for one in IN_OTHER_TOOLS.get(flag, ()) if one in flags), "")
    advice = f" Here it is {same}." if same else meant(flag, flags)
    if flag in DRY_RUN and (task == "deploy" or not same):
        advice = f" {FAB} plan shows what deploy would do, and changes nothing."
    return f"{task} has no option {flag}.{advice} See: {FAB} {'' if task == FAB else f'{task} '}--help."


def meant(word: str, known: list[str]) -> str:
    """A question with the known word that is most like a misspelt one, behind a space; empty if none is."""
    near = get_close_matches(word, known, n=1, cutoff=NEAR)
    return f" Did you mean {near[0]}?" if near else ""
