"""What all tasks have in common: shared options, one line for an error, and one call for all hosts."""

from __future__ import annotations

import atexit
import gc
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from invoke.context import Context
from invoke.exceptions import Exit
from invoke.parser.argument import Argument
from invoke.tasks import Task

from slurmfab import atomic_file, interrupts
from slurmfab.errors import InputError, SlurmfabError
from slurmfab.exit_codes import INTERRUPTED, WRONG_INPUT
from slurmfab.program_name import FAB
from slurmfab.tasks.options import COMMON, Common
from slurmfab.terminal import fit

GARBAGE_THRESHOLD = 50_000
"""How many more objects there have to be before Python looks for garbage; loading modules makes many, and none of it.

Python's own 700 costs a tenth of the time that loading them takes.
"""

HOSTS_ELSEWHERE = re.compile(r"^\s*-\s*$|(^|,)\s*@")
"""A value of `hosts` that names a file or standard input."""

ALL = tuple(COMMON)
"""The names of all shared options."""


class Command(Task):  # type: ignore[type-arg]
    """A task whose only short flag is `-v`; Invoke would otherwise give `-h` to the first option with that letter."""

    def __init__(self, body: Callable[..., None], *, positional: Iterable[str], **options: Any) -> None:
        words = tuple(positional)
        self.optional_word = next((word.strip("[]") for word in words if word.startswith("[")), "")
        required = [word for word in words if not word.startswith("[")]
        name = body.__name__.replace("_", "-")
        super().__init__(body, positional=words_after(name, required, self.optional_word), **options)

    def arg_opts(self, name: str, default: Any, taken_names: set[str]) -> dict[str, Any]:
        """How one of the function's parameters becomes a flag."""
        options: dict[str, Any] = super().arg_opts(name, default, taken_names)
        if options["positional"]:
            options.pop("default", None)  # Invoke asks for no word where a positional parameter has a default
        return {**options, "names": (*options["names"], "v")} if name == "verbose" else options

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        """The task's flags; Invoke's own method uses up the help texts, so that they could be read only once."""
        texts = dict(self.help)
        arguments: list[Argument] = super().get_arguments(ignore_unknown_help)
        self.help = texts
        return arguments


def command(
    *,
    common: Iterable[str] = ALL,
    help: Mapping[str, str] = {},
    positional: Iterable[str] = (),
    iterable: Iterable[str] = (),
    newcomers: bool = False,
) -> Callable[[Callable[..., int | None]], Any]:
    """Make a task of a function `f(common: Common, ...)` that returns an exit code, or nothing for 0.

    The function's other parameters become options, and the shared ones that `common` names are added to them.

    Args:
        common: the shared options that the task has, of `COMMON`.
        help: a text for each of the function's parameters, and for shared options that mean something special here.
        positional: parameters that are given as words, without a flag; the last may be left out: `[run]`.
        iterable: parameters that may be given several times, and become a list.
        newcomers: whether the parameter `hosts` names hosts that are no members of the cluster.

    Returns:
        A decorator that makes Invoke's task of the function.
    """
    shared = tuple(common)
    texts = {**{name: COMMON[name] for name in shared}, **help}

    def decorate(function: Callable[..., int | None]) -> Any:
        def run(context: Context, **given: Any) -> None:
            refuse_core_hosts(context)
            refuse_core_dry(context)
            values = Common(**{name: given.pop(name) for name in shared if name in given})
            code = run_task(checked(function, newcomers=newcomers), values, **given)
            if code:
                raise Exit(code=code)

        run.__name__, run.__module__ = function.__name__.rstrip("_"), function.__module__  # import_ is fab import
        run.__doc__ = with_program_name(function.__doc__ or "")
        run.__signature__ = with_shared_options(inspect.signature(function), shared)  # type: ignore[attr-defined]
        return Command(run, help=texts, positional=positional, iterable=iterable, auto_shortflags=False)

    return decorate


def checked(function: Callable[..., int | None], *, newcomers: bool = False) -> Callable[..., int | None]:
    """The function of a task, behind what all tasks do first.

    It refuses a file for `--json` that cannot be written, and replaces `@FILE` and `-` in `hosts` by hosts.

    Args:
        function: the task's function.
        newcomers: as for `command`.
    """

    def call(common: Common, **given: Any) -> int | None:
        if common.json not in ("", "-"):
            atomic_file.require_writable(Path(common.json), "--json")
        if HOSTS_ELSEWHERE.search(given.get("hosts") or ""):
            from slurmfab.tasks import host_files

            given["hosts"] = host_files.resolved(common, given["hosts"], newcomers=newcomers)
        return function(common, **given)

    return call


def with_shared_options(signature: inspect.Signature, shared: Iterable[str]) -> inspect.Signature:
    """A function's signature with the shared options behind its own, as Invoke reads flags from signatures."""
    defaults = Common()
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=getattr(defaults, name)) for name in shared
    ]
    return signature.replace(parameters=[*signature.parameters.values(), *options])


def with_program_name(doc: str) -> str:
    """A task's help, with the program's name as it was called in the examples, which are written for `fab`."""
    return re.sub(r"\bfab (?=[a-z])", f"{FAB} ", doc)


def optional_word_of(task: Task[Any]) -> str:
    """The parameter of a task that may be given as a last word; empty for none."""
    return task.optional_word if isinstance(task, Command) else ""


def words_after(task_name: str, required: Sequence[str], optional: str = "") -> list[str]:
    """The positional parameters of a task that takes one word more or not: `fab history` and `fab history last`.

    Invoke has no optional positional parameters, so the parameter is positional only where enough words come right
    after the task.

    Args:
        task_name: as on the command line.
        required: the function's parameters for words that have to be there.
        optional: the one for the word that may follow; empty for none.
    """
    arguments = sys.argv[1:]
    after = arguments[arguments.index(task_name) + 1 :] if task_name in arguments else []
    words = list(takewhile(lambda word: not word.startswith("-"), after))
    return [*required, optional] if optional and len(words) > len(required) else [*required]


def refuse_core_hosts(context: Context) -> None:
    """Refuse Fabric's own `--hosts`, which would call the task once for each host.

    Raises:
        Exit: it was used.
    """
    if type(context).__name__ == "Connection":
        raise Exit(f"Give the hosts after the task's name: {FAB} deploy --hosts 'n1,n[2-5]'.", code=WRONG_INPUT)


def refuse_core_dry(context: Context) -> None:
    """Refuse Invoke's own `--dry`, which looks like a dry run and would keep no task from changing hosts.

    Raises:
        Exit: it was used.
    """
    if context.config.run.dry:
        raise Exit(f"--dry (-R) has no effect on these tasks: {FAB} plan shows what deploy would do.", code=WRONG_INPUT)


def run_task(function: Callable[..., int | None], *args: Any, **kwargs: Any) -> int | None:
    """Call a task's function; errors that are meant for people end as text and an exit code.

    Raises:
        Exit: with the error's text.
    """
    load_quickly()
    interrupts.raise_again()
    try:
        return function(*args, **kwargs)
    except SlurmfabError as error:
        raise Exit(fit(str(error), sys.stderr), code=error.exit_code) from None
    except KeyboardInterrupt:
        show_what_is_typed()
        say_interrupted()
        os._exit(INTERRUPTED)  # threads may still wait for hosts; their agents go when the connections close
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Exit(code=0) from None


def load_quickly() -> None:
    """Set Python up for a program that loads hundreds of modules, does one thing, and ends."""
    # Invoke switches this off, and then each run compiles our modules anew, which takes longer than all the rest.
    # Files that root writes into a user's checkout, however, that user could not remove.
    is_ours = Path(__file__).stat().st_uid == os.geteuid()
    sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode) or not is_ours
    gc.set_threshold(GARBAGE_THRESHOLD)
    atexit.register(gc.freeze)  # what is left at the end goes with the process; to look through it takes 60 ms


def show_what_is_typed() -> None:
    """Switch the terminal's echo on again, which is off while a password is asked for and judged."""
    from slurmfab.ssh.hidden_input import hidden_input

    hidden_input.show()


def say_interrupted() -> None:
    """Tell what an interruption means."""
    print(  # noqa: T201
        "\nInterrupted. Hosts finish the step that they are at. Run the same command again to go on.", file=sys.stderr
    )


def number(text: str, flag: str) -> int | None:
    """A number that was given as text, `None` when it was not given.

    Raises:
        InputError: it is not a number.
    """
    if not text:
        return None
    if not text.isdecimal():
        raise InputError(f"{flag} {text}: this is no number.")
    return int(text)


def names(given: Iterable[str]) -> tuple[str, ...]:
    """Names that were given with commas between them, or by giving an option several times.

    >>> names(["gpu,long", "short"])
    ('gpu', 'long', 'short')
    """
    return tuple(name.strip() for text in given for name in text.split(",") if name.strip())
