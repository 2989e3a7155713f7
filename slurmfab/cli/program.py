"""`slurmfab`: Fabric's program with our tasks, and with what Invoke lacks: tasks in groups, and words that were meant.

`fab` is Fabric's own program. A fabfile that imports `namespace` gives it the `Executor` of ours, and no more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import fabric
from fabric.main import Fab
from invoke.collection import Collection
from invoke.exceptions import CollectionNotFound, Exit, ParseError
from invoke.loader import FilesystemLoader
from paramiko import ConfigParseError

from slurmfab import __version__
from slurmfab.base import bounded_file, foreign, own_modules
from slurmfab.base.errors import BrokenFile, SlurmfabError
from slurmfab.base.exit_codes import WRONG_INPUT
from slurmfab.base.terminal import fit
from slurmfab.cli.tasks import TASKS, namespace, overview
from slurmfab.cli.tasks.command import Command
from slurmfab.cli.tasks.spelling import HELP, option_for_word, told

EXECUTOR = "slurmfab.cli.executor.Executor"  # by Invoke's own setting; no file has another one for our tasks
MOST_BYTES = 1 << 20  # the largest fabfile


class Program(Fab):  # type: ignore[misc] # Fabric has no types
    """Fabric's program, with our tasks beside those of a fabfile."""

    def __init__(self) -> None:
        namespace.program = self
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
    """Fabric's settings, of which those beside a fabfile are data: YAML and JSON of our own, and no `fabric.py`."""

    SUFFIXES: ClassVar[tuple[str, ...]] = ("yaml", "yml", "json")

    def load_project(self, merge: bool = True) -> None:
        """Load those beside the fabfile."""
        self._set(_file_suffixes=self.SUFFIXES)
        for path in (Path(f"{self._project_prefix}fabric.{suffix}") for suffix in self.SUFFIXES):
            if os.path.lexists(path) and (strange := why_of_others(path)):
                text = f"{path} is not read: {strange}, and the commands that it names would run as you."
                raise Exit(fit(text, sys.stderr), WRONG_INPUT)
        try:
            super().load_project(merge)
        except Exception as error:  # of the library for YAML, or of the one for JSON
            text = f"{self._project_prefix}fabric.yaml, .yml or .json: {error}"
            raise Exit(fit(text, sys.stderr), WRONG_INPUT) from None


def why_of_others(path: Path) -> str:
    """Why a file beside a fabfile is none of this user's own; empty if it is."""
    try:
        return foreign.why_not_own(path, foreign.own(path.absolute().parent))
    except OSError as error:
        return f"it cannot be read ({error.strerror})"


class Fabfiles(FilesystemLoader):
    """Finds the fabfile as Fabric does, where it speaks of slurmfab and nobody else could write it."""

    def is_there(self) -> bool:
        """Whether there is one to load; tells of one that others could write."""
        if os.environ.get("SLURMFAB_FABFILE") == "no":
            return False
        try:
            found = self.find(self.config.tasks.collection_name)
            path = Path(str(found.origin)) if found else None
            if not path or b"slurmfab" not in bounded_file.read(path, MOST_BYTES):
                return False
            strange = self.why_unsafe(path)
        except (CollectionNotFound, BrokenFile, OSError):  # as if there was none, whatever else has this name
            return False
        if strange:
            text = f"{path} is not loaded: {strange}, and what is in it would run as you."
            print(fit(text, sys.stderr), file=sys.stderr)  # noqa: T201
        return not strange

    @staticmethod
    def why_unsafe(path: Path) -> str:
        """Why a fabfile may be of somebody else; empty if it is not."""
        return foreign.why_unsafe(path, foreign.own(path.parent))

    @classmethod
    def let_in(cls, directory: str) -> None:
        """Have modules beside a fabfile found, where no other directory has them and nobody else wrote them."""
        there = [one for name in ("fabfile.py", "__init__.py") if (one := Path(directory, name)).is_file()]
        if there and not cls.why_unsafe(there[0]):
            sys.path[:] = [*(entry for entry in sys.path if entry != directory), directory]
            own_modules.judge(Path(directory), foreign.own(Path(directory)))

    def load(self, name: str | None = None) -> tuple[ModuleType, str]:
        """Load it; what is wrong with it ends the program with one message, after its own traceback if it has one."""
        found = self.find(name or self.config.tasks.collection_name)
        path = str(found.origin) if found else str(name)
        self.let_in(str(Path(path).parent))
        try:
            with own_modules.compiled_anew():
                return super().load(name)
        except (Exit, CollectionNotFound):
            raise
        except SlurmfabError as error:
            raise Exit(fit(str(error), sys.stderr), error.exit_code) from None
        except own_modules.ForeignModule as error:
            raise Exit(fit(str(error), sys.stderr), WRONG_INPUT) from None
        except SyntaxError as error:
            text = f"{error.filename}:{error.lineno}: {error.msg}: {(error.text or '').strip()}"
            raise Exit(fit(text, sys.stderr), WRONG_INPUT) from None
        except Exception as error:
            from slurmfab.cli.executor import show_of_site

            show_of_site(error)
            raise Exit(f"{path} cannot be loaded: see above.", WRONG_INPUT) from None
