"""The first module that runs on a host: it makes the other modules importable from memory.

It MUST be valid in any Python 3, so that an old Python reports its version and not a syntax error.
"""

import gc
import os
import sys
from importlib.machinery import ModuleSpec
from types import CodeType

OLDEST = (3, 9)  # the oldest Python that the agent runs on


class Sources:
    """A finder and loader (importlib) of modules whose source text is in memory, by full module name."""

    def __init__(self, sources: "dict[str, str]") -> None:
        self.sources: "dict[str, str]" = {}
        self.packages: "set[str]" = set()
        self.code = compiled
        self.add(sources)

    def add(self, sources: "dict[str, str]") -> None:
        """Add further modules. Their packages exist on a host only as names."""
        self.sources.update(sources)
        for name in sources:
            parts = name.split(".")
            self.packages |= {".".join(parts[:depth]) for depth in range(1, len(parts))}

    def learn(self, packed: bytes) -> None:
        """Add further modules. `packed`: source text by full module name, as JSON compressed by zlib."""
        import json  # the boot text has imported both
        import zlib

        self.add(json.loads(zlib.decompress(packed).decode()))

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> "ModuleSpec | None":  # noqa: ARG002
        """The spec of a module or package in memory; `None` leaves the import to other finders."""
        if fullname in self.packages:
            return ModuleSpec(fullname, self, is_package=True)  # type: ignore[arg-type]
        if fullname in self.sources:
            return ModuleSpec(fullname, self, origin=self.file_name(fullname))  # type: ignore[arg-type]
        return None

    def create_module(self, spec: object) -> None:
        """Leave it to Python to make the module object."""

    def exec_module(self, module: object) -> None:
        """Run a module's source in its namespace."""
        name = vars(module)["__name__"]
        if name not in self.packages:
            source, path = self.sources[name], self.file_name(name)
            exec(self.code(source, path), vars(module))  # noqa: S102

    def get_source(self, fullname: str) -> "str | None":
        """The source text of a module, which tracebacks quote."""
        return self.sources.get(fullname)

    @staticmethod
    def file_name(fullname: str) -> str:
        """The file name in tracebacks: the module's path in slurmfab's source tree."""
        return fullname.replace(".", "/") + ".py"


def compiled(source: str, path: str) -> CodeType:
    """Compile a module; used until `slurmfab.on_hosts.agent.compiled` with its cache is imported."""
    return compile(source, path, "exec")


def run(sources: "dict[str, str]", *place: str) -> int:
    """Answer requests by the first modules until the deployer leaves; 0, or 3 if this Python is too old."""
    if sys.version_info < OLDEST:
        message = "this host's python3 is %d.%d, and slurmfab needs %d.%d or later" % (sys.version_info[:2] + OLDEST)
        sys.stdout.write('{"error": "%s", "traceback": ""}\n{"done": true}\n' % message)
        sys.stdout.flush()
        return 3
    # Whoever logged in may have come with any umask, to a home that others can write to as well.
    os.umask(os.umask(0o077) | 0o022)
    os.chdir("/")
    # By default Python collects garbage after every 700 new objects; imports make thousands that stay.
    gc.set_threshold(50000)
    finder = Sources(sources)
    sys.meta_path.insert(0, finder)
    from slurmfab.on_hosts.agent.compiled import Compiled  # it can be imported only now

    finder.code = Compiled(*place).code
    from slurmfab.on_hosts.agent.main import serve

    return serve(sys.stdin.buffer, sys.stdout.buffer, learn=finder.learn)
