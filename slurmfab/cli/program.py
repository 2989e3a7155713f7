"""`slurmfab`: Fabric's program with our tasks, and with what Invoke lacks: groups in the list, and words that were meant.

`fab` is Fabric's own program. A fabfile that imports `slurmfab.namespace` gives it the `Executor` below, no more.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import fabric
from fabric.exceptions import GroupException, NothingToDo
from fabric.main import Fab
from fabric.tasks import ConnectionCall
from invoke.collection import Collection
from invoke.exceptions import CollectionNotFound, Exit, ParseError, UnexpectedExit
from invoke.loader import FilesystemLoader
from invoke.parser import ParserContext
from invoke.util import helpline
from paramiko import RejectPolicy, SSHException

from slurmfab import __version__
from slurmfab.base import interrupts, surroundings
from slurmfab.base.errors import SlurmfabError
from slurmfab.base.exit_codes import FAILURE, WRONG_INPUT
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import fit
from slurmfab.cli.tasks import GROUPS, TASKS, namespace
from slurmfab.cli.tasks.command import Command
from slurmfab.cluster.inventory.file_named import file_named

SUMMARY = "slurmfab turns bare machines into a working Slurm cluster over SSH, and keeps it working."
NO_CORE = ParserContext()  # no options in front of a task

UNKNOWN = re.compile(r"No idea what '(.*)' is!")  # what Invoke's parser says of a word that it does not know
NEAR = 0.7  # how much alike two words are, from 0 to 1, so that one is taken for the other

DRY_RUN = ("--dry-run", "--dry", "--check", "--diff", "--noop", "-n", "-C", "-D")
IN_OTHER_TOOLS = {
    **dict.fromkeys(DRY_RUN, ("--dry-run", "--plan")),
    **dict.fromkeys(("--inventory", "--inventory-file"), ("--cluster",)),
    **dict.fromkeys(("--limit", "--subset", "--nodelist"), ("--hosts",)),
}
"""Options of Ansible, Puppet, make, apt and pdsh, and what means the same here, where a task has it."""

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

FOR_WORDS = ("--hosts", "--run", "--drills", "--command")  # the options for what somebody may type as a bare word


def told(error: ParseError, tasks: Collection) -> str:
    """What Invoke's parser did not understand, with what was meant, and where to look."""
    name = error.context.name if error.context else None
    flags = [*error.context.flags] if error.context else []
    see = f" See: {FAB} {name} --help." if name else f" All tasks: {FAB} --list."
    found = UNKNOWN.fullmatch(str(error))
    if not found:
        needed = error.context.missing_positional_args if error.context else []
        told = f"{name} needs {needed[0].name.upper()}: {needed[0].help}" if needed else str(error)
        return f"{told.rstrip('!.')}.{see}"
    word = found[1]
    if word.startswith("-"):
        same = next((one for one in IN_OTHER_TOOLS.get(word, ()) if one in flags), "")
        advice = f" Here it is {same}." if same else meant(word, flags)
        if word in DRY_RUN and (name == "deploy" or not same):
            advice = f" {FAB} plan shows what deploy would do, and changes nothing."
        return f"{name or FAB} has no option {word}.{advice}{see}"
    near = meant(word, [*tasks.task_names, *(alias for aliases in tasks.task_names.values() for alias in aliases)])
    if not name or near:
        return f"There is no task {word}.{near} All tasks: {FAB} --list."
    option = next((one for one in FOR_WORDS if one in flags), "")
    return f"{name} takes no further word, but here is {word}.{f' It goes by {option} {word}.' if option else ''}{see}"


def meant(word: str, known: list[str]) -> str:
    """A question with the known word that is most like a misspelt one, behind a space; empty if none is."""
    near = get_close_matches(word, known, n=1, cutoff=NEAR)
    return f" Did you mean {near[0]}?" if near else ""


def overview(tasks: Collection) -> str:
    """All tasks in their groups, one line each, and those of the site below them, under a sentence about the program."""
    site = [(name, helpline(tasks[name]) or "") for name in tasks.task_names if name.replace("_", "-") not in TASKS]
    groups = [(title, [(one.name, helpline(one) or "") for one in members]) for title, members in GROUPS]
    if site:
        groups.append(("Tasks of the fabfile", site))
    width = max(len(name) for _, members in groups for name, _ in members)
    parts = [f"{title}:\n" + "\n".join(f"  {name:{width}}   {text}" for name, text in members) for title, members in groups]
    return "\n\n".join([SUMMARY, *parts, f"Help for one task: {FAB} TASK --help. Options in front of a task: {FAB} --help."])


class Program(Fab):
    """Fabric's program, with our tasks beside those of a fabfile."""

    def __init__(self) -> None:
        super().__init__(
            __version__, name="slurmfab", binary="slurmfab", loader_class=Fabfiles, executor_class=Executor,
            config_class=Config,
        )  # fmt: skip

    def load_collection(self) -> None:
        """Take the tasks of the fabfile, and ours."""
        loader = Fabfiles(config=self.config, start=self.args["search-root"].value)
        if self._remainder_only or not (self.args.collection.value or loader.is_there()):
            self.collection = Collection() if self._remainder_only else namespace
            return
        try:
            super().load_collection()
            for name, task in TASKS.items():
                if not isinstance(self.collection.tasks.get(name, task), Command):
                    raise ValueError(f"the task {name} has the name of a task of slurmfab; give it another one")
                self.collection.add_task(task)
        except (ValueError, TypeError) as error:
            raise Exit(f"{loader.path}: {error}", WRONG_INPUT) from None
        if not self.collection.default:
            self.collection.default = "help"

    def parse_collection(self) -> None:
        super().parse_collection()
        if "_ARGCOMPLETE" in os.environ:
            if Path(os.environ["COMP_LINE"].split(" ")[0]).name == "fab" and self.collection is namespace:
                raise Exit  # the fabfile is of another kind, or there is none
            from slurmfab.cli import completion

            completion.complete(self.collection, self.initial_context)

    def parse_tasks(self) -> None:
        try:
            super().parse_tasks()
        except ParseError as error:
            raise Exit(fit(told(error, self.collection), sys.stderr), WRONG_INPUT) from None
        except (ValueError, TypeError) as error:  # of a task that is declared wrongly
            raise Exit(fit(f"The fabfile: {error}", sys.stderr), WRONG_INPUT) from None

    def parse_cleanup(self) -> None:
        try:
            super().parse_cleanup()
        except ParseError as error:
            raise Exit(fit(told(error, self.collection), sys.stderr), WRONG_INPUT) from None

    def print_help(self) -> None:
        print(f"{overview(getattr(self, 'collection', namespace))}\n\nOptions in front of a task:\n")  # noqa: T201
        self.print_columns(self.initial_context.help_tuples())


class Config(fabric.Config):
    """Fabric's settings, of which those beside a fabfile are data: YAML and JSON, and no `fabric.py`."""

    SUFFIXES = ("yaml", "yml", "json")

    def load_project(self, merge: bool = True) -> None:
        self._set(_file_suffixes=self.SUFFIXES)
        super().load_project(merge)


class Fabfiles(FilesystemLoader):
    """Finds the fabfile as Fabric does, where it speaks of slurmfab and nobody else could write it."""

    path = ""

    def is_there(self) -> bool:
        """Whether there is one to load."""
        try:
            found = self.find(self.config.tasks.collection_name)
        except CollectionNotFound:
            return False
        self.path = str(found.origin) if found else ""
        if not found or b"slurmfab" not in Path(self.path).read_bytes():
            return False
        if strange := surroundings.why_unsafe(self.path, str(file_named(""))):
            print(f"{self.path} is not loaded: {strange}, and what is in it would run as you.", file=sys.stderr)  # noqa: T201
        return not strange

    @staticmethod
    def let_in(directory: str) -> None:
        """Have the site's modules beside a fabfile found, as the last on the search path, if nobody else wrote them."""
        path = Path(directory)
        there = [one for one in (path / "fabfile.py", path / "__init__.py", path / "fabfile" / "__init__.py") if one.is_file()]
        if there and not surroundings.why_unsafe(str(there[0]), str(file_named(""))):
            sys.path[:] = [*(entry for entry in sys.path if entry != directory), directory]

    def load(self, name: str | None = None) -> tuple[ModuleType, str]:
        """Load it, with its directory last on the search path: nothing there stands in for a library."""
        found = self.find(name or self.config.tasks.collection_name)
        if found and found.origin:
            self.let_in(str(Path(found.origin).parent))
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
            raise Exit(f"{found.origin if found else name} cannot be loaded: see above.", WRONG_INPUT) from None


class Executor(fabric.Executor):  # type: ignore[misc]
    """Carries out tasks as Fabric does, on hosts whose keys are known; and ours once, whatever the hosts."""

    def execute(self, *tasks: Any) -> Any:
        interrupts.raise_again()
        self.unreached: list[str] = []
        try:
            results = super().execute(*tasks)
        except (Exit, UnexpectedExit, ParseError):
            raise
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
        if self.unreached:
            raise Exit(code=FAILURE)
        return results

    def expand_calls(self, calls: list[Any], apply_hosts: bool = True) -> list[Any]:
        """Give our tasks the hosts of -H and what stands behind --; Fabric would call them for each host."""
        ours = [call for call in calls if isinstance(getattr(call, "task", call), Command)]
        if not ours:
            return super().expand_calls(calls, apply_hosts)  # type: ignore[no-any-return]
        rest, self.core.remainder = self.core.remainder, ""
        hosts = self.core[0].args.hosts.value
        for call in ours:
            name, takes_rest = call.task.name, [one.name for one in call.task.parameters if one.takes_rest]
            if rest and not takes_rest:
                raise Exit(f"{name} reads no words behind --, and here is {rest}.", WRONG_INPUT)
            if len(calls) > 1 and takes_rest:
                raise Exit(f"{name} stands alone: a command for it stands behind --. Nothing was done.", WRONG_INPUT)
            if len(calls) > 1 and name == "help":
                raise Exit(f"The help of one task: {FAB} TASK --help. Nothing was done.", WRONG_INPUT)
            for option, other in WITHOUT_EFFECT.items():
                if self.core[0].args[option].value:
                    raise Exit(f"--{option} has no effect on {name}, which takes {other}.", WRONG_INPUT)
            if hosts and "hosts" not in {one.name for one in call.task.parameters}:
                raise Exit(f"{name} takes no hosts, and here is {hosts}.", WRONG_INPUT)
            if hosts:
                call.kwargs["hosts"] = call.kwargs.get("hosts") or hosts
            call.kwargs.update(dict.fromkeys(takes_rest, rest))
            if name == "help":
                print(overview(self.collection))  # noqa: T201 - the answer
                raise Exit
        expanded: list[Any] = []
        for call in calls:
            expanded += [call] if call in ours else super().expand_calls([call], apply_hosts)
        return expanded

    def parameterize(self, call: Any, connection_init_kwargs: dict[str, Any]) -> Any:
        made = call.clone(into=KnownHostCall, with_={"init_kwargs": connection_init_kwargs})
        made.task = OnHost(call.task, self.unreached)
        return made


class KnownHostCall(ConnectionCall):  # type: ignore[misc]
    """A call on a host whose SSH key is known."""

    def make_context(self, config: fabric.Config) -> fabric.Connection:
        if isinstance(self.init_kwargs["host"], fabric.Connection):
            return self.init_kwargs["host"]
        connection = super().make_context(config)
        connection.client.load_system_host_keys()
        connection.client.set_missing_host_key_policy(RejectPolicy())
        return connection


class OnHost(fabric.Task):  # type: ignore[misc]
    """A task on one of several hosts: one that cannot be reached is told, and the others are done."""

    def __init__(self, task: Any, unreached: list[str]) -> None:
        self.task, self.unreached = task, unreached
        super().__init__(task.body, name=task.name)

    def __call__(self, context: fabric.Connection, *words: Any, **given: Any) -> Any:
        try:
            return self.task(context, *words, **given)
        except (OSError, EOFError, SSHException) as error:
            self.unreached.append(context.host)
            print(fit(f"{context.host}: {error}", sys.stderr), file=sys.stderr)  # noqa: T201
            return None


def show_of_site(error: Exception) -> bool:
    """Print an error with its traceback from the site's own code on; not, and False, if it comes from ours."""
    whole = traceback.TracebackException.from_exception(error)
    ours = str(Path(surroundings.__file__).parents[1])
    passing = (str(Path(__file__)), *(str(Path(sys.modules[name].__file__ or "").parent) for name in ("fabric", "invoke")))
    while whole.stack and whole.stack[0].filename.startswith((*passing, "<frozen")):
        whole.stack.pop(0)
    if whole.stack and whole.stack[0].filename.startswith(ours):
        return False
    print(fit("".join(whole.format()).rstrip(), sys.stderr), file=sys.stderr)  # noqa: T201
    return True
