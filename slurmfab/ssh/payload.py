"""What starts the agent on a host: a constant boot text for the command line, and the modules for its standard input.

deployer -> host   python3 -I -B -S -c BOOT             (nothing in it but this constant)
host -> deployer   slurmfab-agent 1                      (the program runs, so sudo is done asking)
deployer -> host   BYTES of the payload, newline, payload(of the modules that the first request needs)
then requests and answers, see `slurmfab.agent.main`; before a request that needs further modules, a frame with those
"""

from __future__ import annotations

import json
import threading
import zlib

from slurmfab.agent.main import MODULES
from slurmfab.ssh import modules

LEVEL = 6
"""Of compression: a higher one takes twice as long and saves a hundredth."""

GREETING = "slurmfab-agent 1"
"""The line with which the agent says that it runs; the number is the version of this protocol."""


def boot(more: str = "") -> str:
    """What Python runs. It ends with `os._exit`, because a thread of the agent may still wait for input.

    Args:
        more: arguments for `slurmfab.agent.boot.run` besides the sources, as Python text.
    """
    return (
        "import json,os,sys,zlib;"
        f'print("{GREETING}",flush=True);'
        "i=sys.stdin.buffer;"
        "s=json.loads(zlib.decompress(i.read(int(i.readline()))).decode());"
        'n="slurmfab.agent.boot";'
        'm={"__name__":n};'
        'exec(compile(s[n],"slurmfab/agent/boot.py","exec"),m);'
        f'os._exit(m["run"](s{more}))'
    )


BOOT = boot()
BOOT_WITHOUT_TRACE = boot(',""')
"""The same for tests on the deploying machine itself: no compiled modules are kept there."""

FLAGS = ("-I", "-B", "-S")
"""Python's, for the agent: alone with its standard library, without `site`, which costs a quarter of its start."""


_PACKED: dict[frozenset[str], bytes] = {}
_PACKING = threading.Lock()
"""Many hosts ask at once for the same modules; they are packed once."""


def payload(names: frozenset[str] | None = None) -> bytes:
    """Modules of the agent: zlib-compressed JSON, source text by full module name.

    Args:
        names: of the modules, without their package; `None` for all of them.
    """
    wanted = modules.names() if names is None else names
    with _PACKING:
        if wanted not in _PACKED:
            sources = {f"{modules.PACKAGE}.{name}": modules.source(name) for name in sorted(wanted)}
            _PACKED[wanted] = zlib.compress(json.dumps(sources).encode("ascii"), LEVEL)
        return _PACKED[wanted]


def more(names: frozenset[str]) -> bytes:
    """The frame that brings further modules to a running agent; it is not answered."""
    packed = payload(names)
    return b"%d\n%s%s" % (len(MODULES) + len(packed), MODULES, packed)
