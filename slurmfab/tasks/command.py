"""What every task has in common: no letters for flags, one line for an error, and one call for all hosts."""

from __future__ import annotations

import atexit
import functools
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from invoke.context import Context
from invoke.exceptions import Exit
from invoke.tasks import Task, task

from slurmfab.errors import InputError, SlurmfabError

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells count it: 128 and the signal's number."""

SELDOM = 50_000
"""How many more objects there have to be before Python looks for garbage; loading modules makes many, and none of it.

Python's own 700 costs a tenth of the time that loading them takes.
"""


class Command(Task):  # type: ignore[type-arg]
    """A task whose only short flag is `-v`; Invoke's own way with letters takes `-h` from help."""

    def arg_opts(self, name: str, default: Any, taken_names: set[str]) -> dict[str, Any]:
        """How one of the function's parameters becomes a flag."""
        options: dict[str, Any] = super().arg_opts(name, default, taken_names)
        if options["positional"]:
            options.pop("default", None)  # Invoke leaves a parameter that has a value alone
        return {**options, "names": (*options["names"], "v")} if name == "verbose" else options


def command(**options: Any) -> Callable[[Callable[..., int | None]], Any]:
    """A task of slurmfab's; the function returns an exit code, or nothing for 0.

    Args:
        options: of Invoke's `task`: `help`, `positional`, `iterable` and so on.
    """

    def decorate(function: Callable[..., int | None]) -> Any:
        @functools.wraps(function)
        def run(context: Context, *args: Any, **kwargs: Any) -> None:
            refuse_core_hosts(context)
            refuse_core_dry(context)
            code = told(function, context, *args, **kwargs)
            if code:
                raise Exit(code=code)

        return task(klass=Command, auto_shortflags=False, **options)(run)

    return decorate


def word_after(task_name: str, parameter: str) -> list[str]:
    """The positional parameters of a task that takes one word or none: `fab history` and `fab history last`.

    Invoke has no positional parameter that may be left out, so it is one only where a word comes right after the task.

    Args:
        task_name: as on the command line.
        parameter: the function's parameter for the word; it is a flag as well.
    """
    words = sys.argv[1:]
    after = words[words.index(task_name) + 1 :] if task_name in words else []
    return [parameter] if after and not after[0].startswith("-") else []


def refuse_core_hosts(context: Context) -> None:
    """Refuse Fabric's own `--hosts`, which would call the task once for each host.

    Raises:
        Exit: it was used.
    """
    if type(context).__name__ == "Connection":
        raise Exit("Give the hosts after the task's name: fab deploy --hosts n1,n[2-5].", code=2)


def refuse_core_dry(context: Context) -> None:
    """Refuse Invoke's own `--dry`, which people take for a dry run and which would keep no task from changing hosts.

    Raises:
        Exit: it was used.
    """
    if context.config.run.dry:
        raise Exit("--dry (-R) is not for these tasks: fab plan shows what deploy would do.", code=2)


def told(function: Callable[..., int | None], *args: Any, **kwargs: Any) -> int | None:
    """Call a task's function; its errors that are meant for people end as text and an exit code.

    Raises:
        Exit: with the error's text.
    """
    load_quickly()
    try:
        return function(*args, **kwargs)
    except SlurmfabError as error:
        raise Exit(str(error), code=error.exit_code) from None
    except KeyboardInterrupt:
        say_interrupted()
        os._exit(INTERRUPTED)  # threads may still wait for hosts; their agents go when the connections close
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Exit(code=0) from None


def load_quickly() -> None:
    """Set Python up for a program that loads hundreds of modules, does one thing, and ends."""
    # Invoke switches this off, and then each run compiles our modules anew, which takes longer than all the rest.
    # What root would write into somebody's checkout, however, they could not remove.
    is_ours = Path(__file__).stat().st_uid == os.geteuid()
    sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode) or not is_ours
    gc.set_threshold(SELDOM)
    atexit.register(gc.freeze)  # what is left at the end goes with the process; to look through it takes 60 ms


def say_interrupted() -> None:
    """Tell what an interruption means."""
    print("\nInterrupted. Hosts finish what they were at; run the same command again to go on.", file=sys.stderr)  # noqa: T201


def number(text: str, flag: str) -> int | None:
    """A number that was given as text, `None` when it was not given.

    Raises:
        InputError: it is none.
    """
    if not text:
        return None
    if not text.isdecimal():
        raise InputError(f"{flag} {text}: this is no number.")
    return int(text)
