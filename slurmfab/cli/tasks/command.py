"""A task as it is declared, and what all have in common: shared options, and one line for an error.

Invoke is loaded only where a task is carried out (`slurmfab.cli.tasks.invoke_tasks`): help, lists, completion and
misspelt words need nothing but the declarations.
"""

from __future__ import annotations

import atexit
import gc
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from slurmfab.base import atomic_file, interrupts
from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.exit_codes import INTERRUPTED, WRONG_INPUT
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import fit
from slurmfab.cli.tasks.options import COMMON, Common

if TYPE_CHECKING:
    from invoke.context import Context

GARBAGE_THRESHOLD = 50_000
"""How many more objects there have to be before Python looks for garbage; loading modules makes many, and none of it.

Python's own 700 costs a tenth of the time that loading them takes.
"""

HOSTS_ELSEWHERE = re.compile(r"^\s*-\s*$|(^|,)\s*@")  # a value of `hosts` that names a file or standard input
ALL = tuple(COMMON)  # the names of all shared options


class Parameter(NamedTuple):
    """A value that a task takes."""

    name: str  # as it is in Python, such as `drain_first`
    help: str
    default: Any  # a bool for a switch, a list for an option that may be given several times, else a text
    is_word: bool  # whether it may be given without its flag, right behind the task
    is_required: bool

    @property
    def flags(self) -> tuple[str, ...]:
        """As they are typed, the long one first."""
        long = f"--{self.name.strip('_').replace('_', '-')}"
        return (long, "-v") if self.name == "verbose" else (long,)

    @property
    def takes_value(self) -> bool:
        """Whether a value follows the flag."""
        return not isinstance(self.default, bool)


@dataclass(frozen=True, eq=False)
class Command:
    """A task: its function, and what the function takes from the command line."""

    # gets a `Common`, and the parameters by their names; returns the exit code, or nothing for 0
    function: Callable[..., int | None]
    name: str  # as it is typed, such as `add-node`
    doc: str  # its help, as text with paragraphs
    parameters: tuple[Parameter, ...]  # what it takes, its own in front of the shared ones
    newcomers: bool  # whether its parameter `hosts` names hosts that are no members of the cluster

    @property
    def words(self) -> tuple[Parameter, ...]:
        """What may be given without a flag: what is required, and then what may be left out."""
        return tuple(sorted((one for one in self.parameters if one.is_word), key=lambda one: not one.is_required))

    @property
    def flags(self) -> dict[str, Parameter]:
        """The parameters by their flags; a word that has to be given has one, too."""
        return {flag: one for one in self.parameters for flag in one.flags}

    def __call__(self, context: Context, **given: Any) -> None:
        """Carry it out as Invoke calls it.

        Raises:
            Exit: it failed, or was called in a way that means something else to Fabric or Invoke.
        """
        refuse_core_hosts(context)
        refuse_core_dry(context)
        own = inspect.signature(self.function).parameters
        values = Common(**{name: given.pop(name) for name in ALL if name in given and name not in own})
        code = run_task(checked(self.function, newcomers=self.newcomers), values, **given)
        if code:
            end(code)


def command(
    *,
    common: Iterable[str] = ALL,
    help: Mapping[str, str] = {},
    positional: Iterable[str] = (),
    iterable: Iterable[str] = (),
    newcomers: bool = False,
) -> Callable[[Callable[..., int | None]], Command]:
    """Make a task of a function `f(common: Common, ...)` that returns an exit code, or nothing for 0.

    The function's other parameters become options, and the shared ones that `common` names are added to them.

    Args:
        common: the shared options that the task has, of `COMMON`.
        help: a text for each of the function's parameters, and for shared options that mean something special here.
        positional: parameters that are given as words, without a flag; the last may be left out: `[run]`.
        iterable: parameters that may be given several times, and become a list.
        newcomers: whether the parameter `hosts` names hosts that are no members of the cluster.

    Returns:
        A decorator that makes a `Command` of the function.
    """
    texts, words, lists = {**COMMON, **help}, tuple(positional), frozenset(iterable)
    shared = {name: getattr(Common(), name) for name in common}

    def parameter(name: str, default: Any) -> Parameter:
        text = texts.get(name.rstrip("_"), "")
        may_be_word, is_required = f"[{name}]" in words, name in words
        return Parameter(name, text, [] if name in lists else default, may_be_word or is_required, is_required)

    def decorate(function: Callable[..., int | None]) -> Command:
        _, *own = inspect.signature(function).parameters.values()
        given = {one.name: "" if one.default is inspect.Parameter.empty else one.default for one in own}
        name = function.__name__.rstrip("_").replace("_", "-")  # import_ is fab import
        doc = re.sub(r"\bfab (?=[a-z])", f"{FAB} ", inspect.cleandoc(function.__doc__ or ""))
        parameters = tuple(parameter(*one) for one in (given | shared).items())
        return Command(function, name, doc, parameters, newcomers)

    return decorate


def checked(function: Callable[..., int | None], *, newcomers: bool = False) -> Callable[..., int | None]:
    """The function of a task, behind what all tasks do first.

    It refuses a file for `--json` that cannot be written, and replaces `@FILE` and `-` in `hosts` by hosts.

    Args:
        newcomers: as for `command`.
    """

    def call(common: Common, **given: Any) -> int | None:
        if common.json not in ("", "-"):
            atomic_file.require_writable(Path(common.json), "--json")
        if HOSTS_ELSEWHERE.search(given.get("hosts") or ""):
            from slurmfab.cli.tasks import host_files

            given["hosts"] = host_files.resolved(common, given["hosts"], newcomers=newcomers)
        return function(common, **given)

    return call


def end(code: int, message: str = "") -> NoReturn:
    """End the program as Invoke does.

    Raises:
        Exit: always.
    """
    from invoke.exceptions import Exit

    raise Exit(message or None, code=code) from None


def refuse_core_hosts(context: Context) -> None:
    """Refuse Fabric's own `--hosts`, which would call the task once for each host.

    Raises:
        Exit: it was used.
    """
    if type(context).__name__ == "Connection":
        end(WRONG_INPUT, f"Give the hosts after the task's name: {FAB} deploy --hosts 'n1,n[2-5]'.")


def refuse_core_dry(context: Context) -> None:
    """Refuse Invoke's own `--dry`, which looks like a dry run and would keep no task from changing hosts.

    Raises:
        Exit: it was used.
    """
    if context.config.run.dry:
        end(WRONG_INPUT, f"--dry (-R) has no effect on these tasks: {FAB} plan shows what deploy would do.")


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
        end(error.exit_code, fit(str(error), sys.stderr))
    except KeyboardInterrupt:
        show_what_is_typed()
        say_interrupted()
        os._exit(INTERRUPTED)  # threads may still wait for hosts; their agents go when the connections close
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        end(0)


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
    from slurmfab.hosts.hidden_input import hidden_input

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
