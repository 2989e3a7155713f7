"""A task as it is declared, and what all have in common: shared options, and one line for an error."""

from __future__ import annotations

import atexit
import gc
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from fabric.tasks import Task
from invoke.context import Context
from invoke.exceptions import Exit
from invoke.parser.argument import Argument

from slurmfab.base import atomic_file, interrupts, surroundings
from slurmfab.base.errors import SlurmfabError
from slurmfab.base.exit_codes import INTERRUPTED, WRONG_INPUT
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import fit, guard_output, is_terminal, write
from slurmfab.cli.tasks.options import ALL, TEXTS, Common
from slurmfab.cluster.inventory.file_named import file_named

GARBAGE_THRESHOLD = 500_000
"""How many more objects there have to be before Python looks for garbage; loading modules makes many, and none of it.

Python's own 700 costs a tenth of the time that loading them takes. A run with nothing to change on few hosts makes a
quarter of this number.
"""

HOSTS_ELSEWHERE = re.compile(r"^\s*-\s*$|(^|,)\s*@")  # a value of `hosts` that names a file or standard input
FIRST_CONTACT = ("deploy", "plan")  # the tasks that need no cluster file
SHORT = {"verbose": ("-v",), "exclude": ("-x",)}  # the short flags that there are


class Parameter(NamedTuple):
    """A value that a task takes."""

    name: str  # as it is in Python, such as `drain_first`
    help: str
    default: Any  # a bool for a switch, a list for an option that may be given several times, else a text
    is_word: bool  # whether it is given right behind the task, without its flag
    takes_rest: bool = False  # whether it is what stands behind `--`

    @property
    def flags(self) -> tuple[str, ...]:
        """As they are typed, the long one first."""
        long = f"--{self.name.strip('_').replace('_', '-')}"
        return (long, *SHORT.get(self.name, ()))

    @property
    def takes_value(self) -> bool:
        """Whether a value follows the flag."""
        return not isinstance(self.default, bool)


class Command(Task):  # type: ignore[misc] # Fabric has no types
    """A task of ours, whose words and options are those that `command` declares.

    Args:
        function: gets a `Common`, and the parameters by their names; returns the exit code, or nothing for 0.
        parameters: what it takes, its own in front of the shared ones.
        newcomers: whether its parameter `hosts` names hosts that are no members of the cluster.
    """

    def __init__(self, function: Callable[..., int | None], parameters: tuple[Parameter, ...], newcomers: bool) -> None:
        super().__init__(self.run, name=function.__name__.rstrip("_").replace("_", "-"), positional=())
        self.function, self.parameters, self.newcomers = function, parameters, newcomers
        self.__doc__ = re.sub(r"\bfab (?=[a-z])", f"{FAB} ", inspect.cleandoc(function.__doc__ or ""))

    @property
    def words(self) -> tuple[Parameter, ...]:
        """What is given without a flag."""
        return tuple(one for one in self.parameters if one.is_word)

    @property
    def rest(self) -> str:
        """The parameter that takes what stands behind `--`; empty if none does."""
        return next((one.name for one in self.parameters if one.takes_rest), "")

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        """The task's words, in their order, and its options, as Invoke's parser reads them."""
        del ignore_unknown_help
        others = (one for one in self.parameters if not (one.is_word or one.takes_rest))
        return [
            Argument(
                names=[flag.lstrip("-") for flag in one.flags],
                attr_name=one.name if "_" in one.name else None,
                kind=type(one.default),
                default=None if one.is_word else one.default,  # Invoke asks for no word that has a default
                help=one.help or None,
                positional=one.is_word,
            )
            for one in (*self.words, *others)
        ]

    def run(self, context: Context, **given: Any) -> None:
        """What Invoke calls; what is written meanwhile passes the filter for terminals. Raises Exit if it failed."""
        if context.config.run.dry:  # Invoke's own option, which would keep no task from changing hosts
            raise Exit(f"--dry (-R) has no effect on this task: {FAB} plan shows what deploy would do.", WRONG_INPUT)
        streams, path = (sys.stdout, sys.stderr), [*sys.path]
        guard_output()
        surroundings.shut_out()  # the site's modules are for its own tasks
        try:
            self.call(**given)
            sys.stdout.flush()
        finally:
            (sys.stdout, sys.stderr), sys.path[:] = streams, path

    def call(self, **given: Any) -> None:
        """Carry it out with the values that were given, and the defaults of the others. Raises Exit if it failed."""
        own = inspect.signature(self.function).parameters
        given = {**deepcopy({one.name: one.default for one in self.parameters}), **given}
        values = Common(
            **{one.name: given.pop(one.name) for one in fields(Common) if one.name in given and one.name not in own}
        )
        load_quickly()
        interrupts.raise_again()
        try:
            code = self.carry_out(values, given)
        except SlurmfabError as error:
            raise Exit(fit(str(error), sys.stderr), error.exit_code) from None
        except KeyboardInterrupt:
            from slurmfab.hosts.hidden_input import hidden_input

            hidden_input.show()  # the terminal's echo, which is off while a password is asked for and judged
            print(  # noqa: T201
                f"\nInterrupted. Hosts finish the step that they are at. {interrupts.going_on}.",
                file=sys.stderr,
            )
            os._exit(INTERRUPTED)  # threads may still wait for hosts; their agents go when the connections close
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise Exit(code=0) from None
        if code:
            raise Exit(code=code)

    def carry_out(self, common: Common, given: dict[str, Any]) -> int | None:
        """Do what all tasks do first: `--json` must be writable, `@FILE` and `-` in `hosts` become hosts."""
        if common.json not in ("", "-"):
            atomic_file.require_writable(Path(common.json), "--json")
        self.name_cluster(common, given)
        if HOSTS_ELSEWHERE.search(given.get("hosts") or ""):
            from slurmfab.cli.tasks import host_files

            given["hosts"] = host_files.resolved(common, given["hosts"], newcomers=self.newcomers)
        return self.function(common, **given)

    def name_cluster(self, common: Common, given: dict[str, Any]) -> None:
        """Tell on a terminal which cluster file the task is about, while what does the work is still being loaded."""
        names = {one.name for one in self.parameters}
        if not is_terminal(sys.stderr) or not {"cluster", "ask_sudo_password"} <= names:
            return
        from slurmfab.cluster.inventory import raw_names  # with YAML, which no help needs

        path, hosts = file_named(common.cluster), given.get("hosts", "")
        if path.exists():
            count = len(raw_names.of(path).get(raw_names.HOSTS, ()))
            number = f", {count} host{'s' if count != 1 else ''}" if count else ""
            write(f"{self.name}: {path}{number}{f'; here {hosts}' if hosts else ''}", sys.stderr)
        elif hosts and self.name in FIRST_CONTACT:
            write(f"{self.name}: first contact with {hosts}", sys.stderr)


def command(
    *, common: Iterable[str] = ALL, newcomers: bool = False, rest: str = "", **help: str
) -> Callable[[Callable[..., int | None]], Command]:
    """Make a task of `f(common: Common, word: str, *, option: str = "", ...)`, which returns an exit code or nothing.

    Parameters in front of `*` are words, those behind it options, of which a `list[str]` may be given several times.

    Args:
        common: shared options that the task has as well, whose values are those of `Common`.
        newcomers: whether the parameter `hosts` names hosts that are no members of the cluster.
        rest: parameter that gets what stands behind `--`, as one text; empty if nothing does.
        help: a text for each parameter that has none in `TEXTS`, or means something special here.
    """
    texts = {**TEXTS, **help}

    def decorate(function: Callable[..., int | None]) -> Command:
        parameters = []
        for one in [*inspect.signature(function).parameters.values()][1:]:
            default: Any = "" if one.default is one.empty else one.default
            is_word = one.kind is not one.KEYWORD_ONLY and one.name != rest
            value = [] if str(one.annotation) == "list[str]" else default
            parameters.append(Parameter(one.name, texts.get(one.name, ""), value, is_word, one.name == rest))
        own = {one.name for one in parameters}
        shared = (Parameter(name, texts[name], getattr(Common(), name), False) for name in common if name not in own)
        return Command(function, (*parameters, *shared), newcomers)

    return decorate


def load_quickly() -> None:
    """Set Python up for a program that loads hundreds of modules, does one thing, and ends."""
    # Fabric switches this off, and then each run compiles our modules anew, which takes longer than all the rest.
    # Files that root writes into a user's checkout, however, that user could not remove.
    is_ours = Path(__file__).stat().st_uid == os.geteuid()
    sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode) or not is_ours
    gc.set_threshold(GARBAGE_THRESHOLD)
    # Otherwise pydantic looks through all installed packages for plugins of its own; slurmfab needs none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    atexit.register(gc.freeze)  # what is left at the end goes with the process; to look through it takes 60 ms
