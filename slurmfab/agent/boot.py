"""The first module that runs on a host: it lets Python import the others from memory.

It MUST be readable by any Python 3, so that an old one gets a clear answer instead of a syntax error.
"""

import gc
import sys
from importlib.machinery import ModuleSpec
from types import CodeType

OLDEST = (3, 9)
"""The oldest Python that the agent runs on."""

PACKAGES = ("slurmfab", "slurmfab.agent")
"""Packages that exist on a host only as names."""


class Sources:
    """A finder and loader of modules whose source text is in memory.

    Args:
        sources: source text by full module name.
    """

    def __init__(self, sources: "dict[str, str]") -> None:
        self.sources = sources
        self.code = compiled

    def learn(self, packed: bytes) -> None:
        """Take in further modules, packed as the first ones were."""
        import json  # noqa: PLC0415 - the boot text has imported both
        import zlib  # noqa: PLC0415

        self.sources.update(json.loads(zlib.decompress(packed).decode()))

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> "ModuleSpec | None":  # noqa: ARG002
        """What Python's import system asks first; `None` leaves the module to other finders."""
        if fullname in PACKAGES:
            return ModuleSpec(fullname, self, is_package=True)  # type: ignore[arg-type]
        if fullname in self.sources:
            return ModuleSpec(fullname, self, origin=self.file_name(fullname))  # type: ignore[arg-type]
        return None

    def create_module(self, spec: object) -> None:
        """Nothing: Python makes the module object and registers it before it runs."""

    def exec_module(self, module: object) -> None:
        """Run a module's source in its namespace."""
        name = vars(module)["__name__"]
        if name not in PACKAGES:
            source, path = self.sources[name], self.file_name(name)
            exec(self.code(source, path), vars(module))  # noqa: S102

    def get_source(self, fullname: str) -> "str | None":
        """The source text, for the lines in tracebacks."""
        return self.sources.get(fullname)

    @staticmethod
    def file_name(fullname: str) -> str:
        """What tracebacks call a module: where it is in slurmfab's own tree."""
        return fullname.replace(".", "/") + ".py"


def compiled(source: str, path: str) -> CodeType:
    """A module as Python compiles it: the first ones; the others are perhaps kept from another run."""
    return compile(source, path, "exec")


def run(sources: "dict[str, str]", *place: str) -> int:
    """Serve requests until the deployer is gone.

    Args:
        sources: source text of the agent's modules that are there from the start, by full name.
        place: where compiled modules are kept, if not where they are on hosts.

    Returns:
        The exit code: 0 after an orderly end, 3 when this Python is too old.
    """
    if sys.version_info < OLDEST:
        words = "this host's python3 is %d.%d, and slurmfab needs %d.%d or later" % (sys.version_info[:2] + OLDEST)
        sys.stdout.write('{"error": "%s", "traceback": ""}\n{"done": true}\n' % words)
        sys.stdout.flush()
        return 3
    # Python looks for garbage after every 700 new objects, and imports make thousands that stay.
    gc.set_threshold(50000)
    finder = Sources(sources)
    sys.meta_path.insert(0, finder)
    from slurmfab.agent.compiled import Compiled  # noqa: PLC0415 - it can be imported only now

    finder.code = Compiled(*place).code
    from slurmfab.agent.main import serve  # noqa: PLC0415

    return serve(sys.stdin.buffer, sys.stdout.buffer, learn=finder.learn)
