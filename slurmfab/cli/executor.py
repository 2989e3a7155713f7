"""How tasks are carried out, by `fab` and `slurmfab`: ours once each, those of a site as Fabric does."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from fabric.exceptions import GroupException, NothingToDo
from invoke.exceptions import Exit, ParseError, UnexpectedExit
from invoke.tasks import Call, Task

from slurmfab.base import interrupts, surroundings
from slurmfab.base.errors import SlurmfabError
from slurmfab.base.exit_codes import DONE, FAILURE, WRONG_INPUT
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import fit
from slurmfab.cli.tasks import namespace, overview
from slurmfab.cli.tasks.command import Command
from slurmfab.cli.tasks.spelling import HELP, no_option
from slurmfab.hosts import executor

WITHOUT_EFFECT = {
    "identity": "--key, where the task has it, or ssh_config",
    "ssh-config": "~/.ssh/config",
    "connect-timeout": "ssh_config",
    "command-timeout": "--timeout, where the task has it",
    "prompt-for-login-password": "a key",
    "prompt-for-passphrase": "an SSH agent",
    "prompt-for-sudo-password": "--ask-sudo-password",
}
"""Options of Fabric's that are for its own connections, and what our tasks have in their place."""


class Executor(executor.Executor):
    """Carries out tasks for `fab` and `slurmfab`: those of a site as Fabric does, and ours once, whatever the hosts."""

    def execute(self, *tasks: Any) -> Any:
        """Carry out tasks. Raises Exit with one message for what went wrong, behind a traceback of site code."""
        interrupts.raise_again()
        try:
            return super().execute(*tasks)
        except (Exit, UnexpectedExit, ParseError):
            raise
        except BrokenPipeError:  # a reader of the output who leaves early is no error
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise Exit(code=DONE) from None
        except SlurmfabError as error:
            raise Exit(fit(str(error), sys.stderr), error.exit_code) from None
        except NothingToDo as error:
            raise Exit(str(error), WRONG_INPUT) from None
        except GroupException as error:
            failed = (f"{one.host}: {why}" for one, why in error.result.failed.items())
            raise Exit(fit("\n".join(failed), sys.stderr), FAILURE) from None
        except Exception as error:
            if not show_of_site(error):
                raise
            text = f"A task of the fabfile failed: {type(error).__name__}: {error}"
            raise Exit(fit(text, sys.stderr), WRONG_INPUT) from None

    def expand_calls(self, calls: list[Any], apply_hosts: bool = True) -> list[Any]:
        """The calls in their order; a task of the site is called for each host of -H, and one of ours once."""
        calls = [Call(one) if isinstance(one, Task) else one for one in calls]
        ours = [call for call in calls if isinstance(call.task, Command)]
        if not ours:
            return super().expand_calls(calls, apply_hosts)  # type: ignore[no-any-return]
        rest, self.core.remainder = self.core.remainder, ""
        for call in ours:
            words = (str(call.kwargs.get(one.name, "")) for one in call.task.words)
            if flag := next((word for word in words if word.startswith("-") and word != "-"), ""):
                self.refuse_option(call.task, flag)
            if why := self.why_wrong(call.task, rest, apply_hosts):
                raise Exit(why, WRONG_INPUT)
            if len(calls) > 1 and (call.task.name == "help" or call.task.rest):
                text = f"{call.task.name} stands alone. Nothing was done. The help of a task: {FAB} TASK --help."
                raise Exit(text, WRONG_INPUT)
            if call.task.name == "help":
                print(overview(self.collection), flush=True)  # noqa: T201 - the answer
                raise Exit
            if apply_hosts and (hosts := self.core[0].args.hosts.value):
                call.kwargs["hosts"] = call.kwargs.get("hosts") or hosts
            call.kwargs.update({call.task.rest: rest} if call.task.rest else {})
        expanded: list[Any] = []
        for call in calls:
            expanded += [call] if call in ours else super().expand_calls([call], apply_hosts)
        return expanded

    def refuse_option(self, task: Command, flag: str) -> NoReturn:
        """Show the help, or end: Invoke takes what stands behind a task that needs a word for this word."""
        if flag in HELP:
            namespace.program.print_task_help(task.name)
            raise Exit
        known = [flag for one in task.parameters for flag in one.flags]
        raise Exit(fit(no_option(task.name, flag, known), sys.stderr), WRONG_INPUT)

    def why_wrong(self, task: Command, rest: str, apply_hosts: bool) -> str:
        """What in front of a task of ours, or behind `--`, is nothing for it; empty if all is right."""
        core = self.core[0].args
        if rest and not task.rest:
            return f"{task.name} reads no words behind --, and here is {rest}."
        if apply_hosts and core.hosts.value and "hosts" not in {one.name for one in task.parameters}:
            return f"{task.name} takes no hosts, and here is {core.hosts.value}."
        for option, other in WITHOUT_EFFECT.items():
            if core[option].value:
                return f"--{option} has no effect on {task.name}, which takes {other}."
        return ""


def show_of_site(error: Exception) -> bool:
    """Print an error with its traceback from the site's own code on; not, and False, if it comes from ours."""
    whole = traceback.TracebackException.from_exception(error)
    ours = str(Path(surroundings.__file__).parents[1])
    libraries = (str(Path(sys.modules[name].__file__ or "").parent) for name in ("fabric", "invoke"))
    passing = (str(Path(__file__).parent), executor.__file__, "<frozen", *libraries)
    while whole.stack and whole.stack[0].filename.startswith(passing):
        whole.stack.pop(0)
    if whole.stack and whole.stack[0].filename.startswith(ours):
        return False
    print(fit("".join(whole.format()).rstrip(), sys.stderr), file=sys.stderr)  # noqa: T201
    return True
