"""`slurmfab`: Fabric's program with our tasks, and with what Invoke lacks: tasks in groups, and words that were meant.

`fab` is Fabric's own program. A fabfile that imports `namespace` gives it the `Executor` below, and no more.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NoReturn

import fabric
from fabric.exceptions import GroupException, NothingToDo
from fabric.main import Fab
from invoke.collection import Collection
from invoke.exceptions import CollectionNotFound, Exit, ParseError, UnexpectedExit
from invoke.loader import FilesystemLoader
from invoke.tasks import Call, Task
from paramiko import ConfigParseError, SSHException

from slurmfab import __version__, connections
from slurmfab.base import interrupts, surroundings
from slurmfab.base.errors import SlurmfabError
from slurmfab.base.exit_codes import DONE, FAILURE, WRONG_INPUT
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import fit
from slurmfab.cli.tasks import TASKS, namespace, overview
from slurmfab.cli.tasks.command import Command
from slurmfab.cli.tasks.spelling import no_option, option_for_word, told
from slurmfab.cluster.inventory.file_named import file_named

EXECUTOR = f"{__name__}.Executor"  # by Invoke's own setting; no file has another one for our tasks
HELP = ("--help", "-h")
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


class Program(Fab):  # type: ignore[misc] # Fabric has no types
    """Fabric's program, with our tasks beside those of a fabfile."""

    def __init__(self) -> None:
        Executor.program = self
        super().__init__(__version__, name="slurmfab", binary="slurmfab", loader_class=Fabfiles, config_class=Config)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """A context in which a wrong word, or a task that is declared wrongly, ends the program with one message."""
        try:
            yield
        except ParseError as error:
            if error.context and option_for_word(error.context) in HELP:
                self.print_task_help(str(error.context.name))
                raise Exit from None
            raise Exit(fit(told(error, getattr(self, "collection", namespace)), sys.stderr), WRONG_INPUT) from None
        except (ValueError, TypeError) as error:
            raise Exit(fit(f"The fabfile: {error}", sys.stderr), WRONG_INPUT) from None

    def parse_core(self, argv: list[str] | None) -> None:
        """Read the options in front of the tasks."""
        with self.telling():
            super().parse_core(argv)

    def load_collection(self) -> None:
        """Take the tasks of the fabfile, and ours."""
        self.config.tasks.executor_class = EXECUTOR
        loader = Fabfiles(config=self.config, start=self.args["search-root"].value)
        if self._remainder_only or not (self.args.collection.value or loader.is_there()):
            self.collection = Collection() if self._remainder_only else namespace
            return
        with self.telling():
            super().load_collection()
            for name, task in TASKS.items():
                if not isinstance(self.collection.tasks.get(name, task), Command):
                    raise ValueError(f"its task {name} has the name of a task of slurmfab; give it another one")
                self.collection.add_task(task)
        self.collection.default = self.collection.default or "help"

    def parse_collection(self) -> None:
        """Load the tasks, and answer a shell that asks what fits."""
        super().parse_collection()
        if "_ARGCOMPLETE" in os.environ:
            is_fab = Path(os.environ["COMP_LINE"].split(" ")[0]).name == "fab"
            if is_fab and self.collection is namespace:  # the fabfile is of another kind, or there is none
                raise Exit
            import argcomplete

            from slurmfab.cli import completion

            parser = completion.parser_of(self.collection, self.initial_context)
            argcomplete.autocomplete(parser, always_complete_options=False)

    def parse_tasks(self) -> None:
        """Read the tasks and their options."""
        with self.telling():
            super().parse_tasks()

    def parse_cleanup(self) -> None:
        """Show what the options in front of the tasks ask for."""
        with self.telling():
            super().parse_cleanup()

    def update_config(self) -> None:
        """Load what the options name, and ssh_config."""
        try:
            super().update_config()
        except (ConfigParseError, OSError, UnicodeDecodeError) as error:
            place = self.args["ssh-config"].value or "~/.ssh/config or /etc/ssh/ssh_config"
            raise Exit(fit(f"{place}: {error}", sys.stderr), WRONG_INPUT) from None

    def print_help(self) -> None:
        """Show all tasks, and the options in front of them."""
        print(f"{overview(getattr(self, 'collection', namespace))}\n\nOptions in front of a task:\n")  # noqa: T201
        self.print_columns(self.initial_context.help_tuples())


class Config(fabric.Config):  # type: ignore[misc]
    """Fabric's settings, of which those beside a fabfile are data: YAML and JSON, and no `fabric.py`."""

    SUFFIXES = ("yaml", "yml", "json")

    def load_project(self, merge: bool = True) -> None:
        """Load those beside the fabfile."""
        self._set(_file_suffixes=self.SUFFIXES)
        try:
            super().load_project(merge)
        except Exception as error:  # of the library for YAML, or of the one for JSON
            text = f"{self._project_prefix}fabric.yaml, .yml or .json: {error}"
            raise Exit(fit(text, sys.stderr), WRONG_INPUT) from None


class Fabfiles(FilesystemLoader):
    """Finds the fabfile as Fabric does, where it speaks of slurmfab and nobody else could write it."""

    def is_there(self) -> bool:
        """Whether there is one to load; tells of one that others could write."""
        if os.environ.get("SLURMFAB_FABFILE") == "no":
            return False
        try:
            found = self.find(self.config.tasks.collection_name)
        except CollectionNotFound:
            return False
        if not found or b"slurmfab" not in Path(str(found.origin)).read_bytes():
            return False
        strange = surroundings.why_unsafe(str(found.origin), str(file_named("")))
        if strange:
            text = f"{found.origin} is not loaded: {strange}, and what is in it would run as you."
            print(fit(text, sys.stderr), file=sys.stderr)  # noqa: T201
        return not strange

    @staticmethod
    def let_in(directory: str) -> None:
        """Have modules beside a fabfile found, where no other directory has them and nobody else wrote them."""
        there = [one for name in ("fabfile.py", "__init__.py") if (one := Path(directory, name)).is_file()]
        if there and not surroundings.why_unsafe(str(there[0]), str(file_named(""))):
            sys.path[:] = [*(entry for entry in sys.path if entry != directory), directory]

    def load(self, name: str | None = None) -> tuple[ModuleType, str]:
        """Load it; what is wrong with it ends the program with one message, after its own traceback if it has one."""
        found = self.find(name or self.config.tasks.collection_name)
        path = str(found.origin) if found else str(name)
        self.let_in(str(Path(path).parent))
        try:
            return super().load(name)
        except (Exit, CollectionNotFound):
            raise
        except SlurmfabError as error:
            raise Exit(fit(str(error), sys.stderr), error.exit_code) from None
        except SyntaxError as error:
            text = f"{error.filename}:{error.lineno}: {error.msg}: {(error.text or '').strip()}"
            raise Exit(fit(text, sys.stderr), WRONG_INPUT) from None
        except Exception as error:
            show_of_site(error)
            raise Exit(f"{path} cannot be loaded: see above.", WRONG_INPUT) from None


class OnKnownHosts(connections.Executor):
    """Connections that accept no unknown SSH key; a host that is down, of the cluster or not, keeps no other back."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.unreached: list[str] = []

    def execute(self, *tasks: Any) -> Any:
        """Carry out tasks. Raises Exit if a host could not be reached."""
        results = super().execute(*tasks)
        if self.unreached:
            raise Exit(code=FAILURE)
        return results

    def parameterize(self, call: Any, connection_init_kwargs: dict[str, Any]) -> Any:
        """The call for one host."""
        made = super().parameterize(call, connection_init_kwargs)
        made.task = OnHost(made.task, self.unreached)
        return made


class OnHost(fabric.Task):  # type: ignore[misc]
    """A task on one of several hosts."""

    def __init__(self, task: Any, unreached: list[str]) -> None:
        self.task, self.unreached = task, unreached
        super().__init__(task.body, name=task.name)

    def __call__(self, context: fabric.Connection, *words: Any, **given: Any) -> Any:
        """Carry it out; a host that cannot be reached is told."""
        try:
            return self.task(context, *words, **given)
        except (OSError, EOFError, SSHException) as error:
            opening = fabric.Connection.open.__code__
            way = (frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__))
            if isinstance(error, OSError) and opening not in way:  # it is about something else, such as a file here
                raise
            self.unreached.append(context.host)
            print(fit(f"{context.host}: {error}", sys.stderr), file=sys.stderr)  # noqa: T201
            return None


class Executor(OnKnownHosts):
    """Carries out tasks for `fab` and `slurmfab`: those of a site as Fabric does, and ours once, whatever the hosts."""

    program: ClassVar[Any]  # the program that runs

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
            self.program.print_task_help(task.name)
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
    passing = (__file__, "<frozen", *libraries)
    while whole.stack and whole.stack[0].filename.startswith(passing):
        whole.stack.pop(0)
    if whole.stack and whole.stack[0].filename.startswith(ours):
        return False
    print(fit("".join(whole.format()).rstrip(), sys.stderr), file=sys.stderr)  # noqa: T201
    return True
