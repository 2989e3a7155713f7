"""What the surroundings of a run may not decide: the code that it loads, programs by name, who may write its files.

The working directory is one where others may leave files, such as a git repository, and no code comes from there: not
as a module, for this program or a Python that it starts, and not as a program that has the name of another one.
"""
# Without annotations of the future, whose module would be looked for before `shut_out` has made that safe.

import os
import pwd
import sys
from contextlib import suppress

USER_NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")  # variables that getpass.getuser looks at
INSTALLED = ("site-packages", "dist-packages")  # names of directories of installed modules

_CHILD = (
    "import sys; path, root = %r, %r; sys.path[:] = [*path, root]; import slurmfab; sys.path[:] = path; "
    "from slurmfab.base import program_name; program_name.FAB = %r; sys.argv[0] = 'slurmfab'; %s"
)
"""Python text: has the modules of this program, and no others from the directory that its package is in."""


def shut_out(*directories: str) -> None:
    """Load no module from the working directory, those above it and `directories`, and start no program by them.

    What is loaded already, as slurmfab from a checkout, goes on loading its own parts. Files that are made from now on
    are for nobody else to write, whatever the umask; where those that share a cluster file may, its writer says so.
    """
    with suppress(OSError):  # the directory is gone, and nothing can be in it
        directories = (*directories, os.getcwd())
    sys.path[:] = [entry for entry in sys.path if not is_in_the_way(entry, directories)]
    programs = [entry for entry in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(entry)]
    if "PATH" in os.environ:
        os.environ["PATH"] = os.pathsep.join(programs) or os.defpath
    if sys.pycache_prefix and not os.path.isabs(sys.pycache_prefix):
        sys.pycache_prefix = None
    if not os.path.isabs(os.path.expanduser("~")):  # a number without a user, as in containers: "~" is a file here
        os.environ["HOME"] = "/"
    if not any(os.environ.get(name) for name in USER_NAMES):
        try:
            pwd.getpwuid(os.getuid())
        except KeyError:
            os.environ["LOGNAME"] = str(os.getuid())
    os.umask(os.umask(0o077) | 0o022)
    close_kept_modules()


def is_in_the_way(entry: str, directories: tuple[str, ...]) -> bool:
    """Whether an entry of Python's search path is one of some directories, or above one; Python's own never are."""
    if not os.path.isabs(entry):
        return True
    own = os.path.dirname(os.__file__)
    if entry == own or entry.startswith(own + os.sep) or os.path.basename(entry) in INSTALLED:
        return False
    real = os.path.join(os.path.realpath(entry), "")
    return any(os.path.join(os.path.realpath(one), "").startswith(real) for one in directories)


def close_kept_modules() -> None:
    """Have nobody else write where Python has just kept modules that it compiled, under another umask."""
    kept = {os.path.dirname(one.__cached__) for name, one in tuple(sys.modules.items())
            if name.partition(".")[0] == "slurmfab" and getattr(one, "__cached__", None)}  # fmt: skip
    for place in kept:
        with suppress(OSError):
            mode = os.stat(place).st_mode & 0o7777
            if mode & 0o022:
                os.chmod(place, mode & ~0o022)


def python(text: str, *words: str) -> list[str]:
    """The command of a Python that runs a text with the modules of this program, and with none from elsewhere.

    It heeds no variable of the environment and no working directory (python(1), -I).
    """
    import slurmfab
    from slurmfab.base.program_name import FAB

    root = os.path.dirname(os.path.dirname(os.path.abspath(slurmfab.__file__)))
    # Of a checkout, whose directory has other files as well, its package alone is loaded.
    is_installed = os.path.basename(root) in INSTALLED
    path = [entry for entry in sys.path if os.path.isabs(entry) and (is_installed or entry != root)]
    keeps = ("-B",) if sys.flags.dont_write_bytecode else ()
    return [sys.executable, "-I", *keeps, "-c", _CHILD % (path, root, FAB, text), *words]


def program(*words: str) -> list[str]:
    """The command of this program in a process of its own, which loads no fabfile."""
    return python(
        "import os; os.environ['SLURMFAB_FABFILE'] = 'no'; from slurmfab.cli.main import main; main()", *words
    )


def git(directory: str, *words: str) -> list[str]:
    """A command of git in a directory, whose files are no repository's settings; `git_environment` is part of it."""
    own = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "safe.bareRepository=explicit")
    return ["git", *(word for one in own for word in ("-c", one)), "-C", directory, *words]


def git_environment() -> dict[str, str]:
    """The environment for `git`, which changes nothing and reaches no other repository."""
    own = {"LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0", "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
    return {**os.environ, **own}
