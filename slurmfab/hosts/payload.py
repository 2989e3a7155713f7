"""How the agent starts on a host: by a constant Python text in the command line, and modules on its standard input.

deployer -> host   python3 -I -B -S -c BOOT             (the command line has only this constant)
host -> deployer   slurmfab-agent 1                      (the program runs, so sudo asks no more)
deployer -> host   BYTES of the payload, newline, payload(of the modules that the first request needs)
then requests and answers, see `slurmfab.on_hosts.agent.main`; before a request that needs further modules, a frame with
those
"""

from __future__ import annotations

import json
import threading
import zlib

from slurmfab.base.program_name import FAB
from slurmfab.hosts import modules
from slurmfab.on_hosts.agent.main import MODULES

PROGRAM_NAME = "core.program_name"  # the module that holds the name of the program that users run
LEVEL = 6  # level of zlib compression: a higher one takes twice as long and saves 1% of the size
GREETING = "slurmfab-agent 1"  # the first line of the agent's output, with the version of this protocol


def boot(more: str = "") -> str:
    """The Python text that starts the agent. It ends with `os._exit`, as a thread may still wait for input.

    `more`: further arguments for `slurmfab.on_hosts.agent.boot.run` after the sources, as Python text.
    """
    return (
        "import json,os,sys,zlib;"
        f'print("{GREETING}",flush=True);'
        "i=sys.stdin.buffer;"
        "s=json.loads(zlib.decompress(i.read(int(i.readline()))).decode());"
        'n="slurmfab.on_hosts.agent.boot";'
        'm={"__name__":n};'
        'exec(compile(s[n],"slurmfab/on_hosts/agent/boot.py","exec"),m);'
        f'os._exit(m["run"](s{more}))'
    )


BOOT = boot()
BOOT_WITHOUT_TRACE = boot(',""')  # the same for tests on the deployer: no compiled modules are stored

FLAGS = ("-I", "-B", "-S")
"""Options of python3 for the agent: only the standard library, and no `site`, which takes a quarter of its start."""


_PACKED: dict[frozenset[str], bytes] = {}
_PACKING = threading.Lock()  # many hosts need the same modules at the same time; they are compressed once


def payload(names: frozenset[str] | None = None) -> bytes:
    """Modules (names without package, `None` for all) as zlib-compressed JSON of sources by full name."""
    wanted = modules.names() if names is None else names
    with _PACKING:
        if wanted not in _PACKED:
            sources = {f"{modules.PACKAGE}.{name}": source_sent(name) for name in sorted(wanted)}
            _PACKED[wanted] = zlib.compress(json.dumps(sources).encode("ascii"), LEVEL)
        return _PACKED[wanted]


def source_sent(name: str) -> str:
    """The source text of a module as it is sent, with the name under which this program was called."""
    text = modules.source(name)
    return text.replace('FAB = "fab"', f'FAB = "{FAB}"') if name == PROGRAM_NAME else text


def more(names: frozenset[str]) -> bytes:
    """The frame that sends further modules to a running agent; the agent does not answer it."""
    packed = payload(names)
    return b"%d\n%s%s" % (len(MODULES) + len(packed), MODULES, packed)
