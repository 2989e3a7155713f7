"""A task as it is declared, and what all have in common: shared options, and one line for an error."""

from __future__ import annotations

import atexit
import gc
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from slurmfab.base import atomic_file, interrupts
from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.exit_codes import INTERRUPTED
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import fit
from slurmfab.cli.tasks.options import COMMON, Common

GARBAGE_THRESHOLD = 500_000
"""How many more objects there have to be before Python looks for garbage; loading modules makes many, and none of it.

Python's own 700 costs a tenth of the time that loading them takes. A run with nothing to change on few hosts makes a
quarter of this number.
"""

HOSTS_ELSEWHERE = re.compile(r"^\s*-\s*$|(^|,)\s*@")  # a value of `hosts` that names a file or standard input
ALL = tuple(COMMON)  # the names of all shared options
SHORT = {"verbose": ("-v",), "exclude": ("-x",)}  # the short flags that there are


class Parameter(NamedTuple):
    """A value that a task takes."""

    name: str  # as it is in Python, such as `drain_first`
    help: str
    default: Any  # a bool for a switch, a list for an option that may be given several times, else a text
    is_word: bool  # whether it may be given without its flag, right behind the task
    is_required: bool
    takes_rest: bool = False  # whether it is the command in all words that are left

    @property
    def flags(self) -> tuple[str, ...]:
        """As they are typed, the long one first."""
        long = f"--{self.name.strip('_').replace('_', '-')}"
        return (long, *SHORT.get(self.name, ()))

    @property
    def takes_value(self) -> bool:
        """Whether a value follows the flag."""
        return not isinstance(self.default, bool)


class Inside(NamedTuple):
    """A command in the words of another task."""

    name: str  # as it is typed, such as `deploy`
    given: Mapping[str, Any]  # the values on the command line, by the names of its parameters
    words: tuple[str, ...]  # its command line, without the options that most tasks share


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
        return {flag: one for one in self.parameters if not one.takes_rest for flag in one.flags}

    def __call__(self, **given: Any) -> None:
        """Carry it out with the values that were given, and the defaults of the others. Raises Exit if it failed."""
        own = inspect.signature(self.function).parameters
        defaults = {one.name: one.default for one in self.parameters if not one.is_required}
        given = {**deepcopy(defaults), **given}
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
    rest: str = "",
) -> Callable[[Callable[..., int | None]], Command]:
    """Make a task of a function `f(common: Common, ...)` that returns an exit code, or nothing for 0.

    The function's other parameters become options, and the shared ones that `common` names are added to them.

    Args:
        common: the shared options that the task has, of `COMMON`.
        help: a text for each of the function's parameters, and for shared options that mean something special here.
        positional: parameters that are given as words, without a flag; the last may be left out: `[run]`.
        iterable: parameters that may be given several times, and become a list.
        newcomers: whether the parameter `hosts` names hosts that are no members of the cluster.
        rest: parameter that gets the command in all words that are left, as an `Inside`.

    Returns:
        A decorator that makes a `Command` of the function.
    """
    texts, words, lists = {**COMMON, **help}, (*positional, *filter(None, [rest])), frozenset(iterable)
    shared = {name: getattr(Common(), name) for name in common}

    def parameter(name: str, default: Any) -> Parameter:
        text, is_required = texts.get(name.rstrip("_"), ""), name in words
        is_word = is_required or f"[{name}]" in words
        return Parameter(name, text, [] if name in lists else default, is_word, is_required, name == rest)

    def decorate(function: Callable[..., int | None]) -> Command:
        _, *own = inspect.signature(function).parameters.values()
        given = {one.name: "" if one.default is inspect.Parameter.empty else one.default for one in own}
        name = function.__name__.rstrip("_").replace("_", "-")  # import_ is fab import
        doc = re.sub(r"\bfab (?=[a-z])", f"{FAB} ", inspect.cleandoc(function.__doc__ or ""))
        return Command(function, name, doc, tuple(parameter(*one) for one in (given | shared).items()), newcomers)

    return decorate


def checked(function: Callable[..., int | None], *, newcomers: bool = False) -> Callable[..., int | None]:
    """A task behind what all do first: `--json` must be writable, `@FILE` and `-` in `hosts` become hosts."""

    def call(common: Common, **given: Any) -> int | None:
        if common.json not in ("", "-"):
            atomic_file.require_writable(Path(common.json), "--json")
        if HOSTS_ELSEWHERE.search(given.get("hosts") or ""):
            from slurmfab.cli.tasks import host_files

            given["hosts"] = host_files.resolved(common, given["hosts"], newcomers=newcomers)
        return function(common, **given)

    return call


class Exit(SystemExit):
    """The end of the program, whose message has been printed."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(code)
        self.message = message

    def __str__(self) -> str:
        return self.message


def end(code: int, message: str = "") -> NoReturn:
    """End the program, as Invoke does. Raises Exit: always."""
    if message:
        print(message, file=sys.stderr)  # noqa: T201 - the error
    raise Exit(code, message) from None


def run_task(function: Callable[..., int | None], *args: Any, **kwargs: Any) -> int | None:
    """Call a task's function; errors that are meant for people end as the text of an `Exit` with its exit code."""
    load_quickly()
    interrupts.raise_again()
    try:
        return function(*args, **kwargs)
    except SlurmfabError as error:
        end(error.exit_code, fit(str(error), sys.stderr))
    except KeyboardInterrupt:
        from slurmfab.hosts.hidden_input import hidden_input

        hidden_input.show()  # the terminal's echo, which is off while a password is asked for and judged
        print(  # noqa: T201
            "\nInterrupted. Hosts finish the step that they are at. Run the same command again to go on.",
            file=sys.stderr,
        )
        os._exit(INTERRUPTED)  # threads may still wait for hosts; their agents go when the connections close
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        end(0)


def load_quickly() -> None:
    """Set Python up for a program that loads hundreds of modules, does one thing, and ends."""
    # Fabric switches this off, and then each run compiles our modules anew, which takes longer than all the rest.
    # Files that root writes into a user's checkout, however, that user could not remove.
    is_ours = Path(__file__).stat().st_uid == os.geteuid()
    sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode) or not is_ours
    gc.set_threshold(GARBAGE_THRESHOLD)
    # Otherwise pydantic looks through all installed packages for plugins of its own; slurmfab needs none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # paramiko imports it for one option in ssh_config(5), Match exec.
    sys.meta_path.insert(0, LoadedWhenUsed("invoke"))
    atexit.register(gc.freeze)  # what is left at the end goes with the process; to look through it takes 60 ms


class LoadedWhenUsed:
    """Finds one module (importlib) that is loaded by its first use, not by its import."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        """The spec of this module; `None` leaves others to other finders."""
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


def number(text: str, flag: str) -> int | None:
    """A number that was given as text, `None` when it was not given. Raises InputError if it is not a number."""
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
