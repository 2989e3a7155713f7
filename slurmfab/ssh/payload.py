"""What starts the agent on a host: a constant boot text for the command line, and the modules for its standard input.

deployer -> host   python3 -I -B -c BOOT                (nothing in it but this constant)
host -> deployer   slurmfab-agent 1                      (the program runs, so sudo is done asking)
deployer -> host   BYTES of the payload, newline, payload()
then requests and answers, see `slurmfab.agent.main`
"""

from __future__ import annotations

import functools
import json
import zlib
from importlib import resources

GREETING = "slurmfab-agent 1"
"""The line with which the agent says that it runs; the number is the version of this protocol."""

BOOT = (
    "import json,os,sys,zlib;"
    f'print("{GREETING}",flush=True);'
    "i=sys.stdin.buffer;"
    "s=json.loads(zlib.decompress(i.read(int(i.readline()))).decode());"
    'n="slurmfab.agent.boot";'
    'm={"__name__":n};'
    'exec(compile(s[n],"slurmfab/agent/boot.py","exec"),m);'
    'os._exit(m["run"](s))'
)
"""The text for `python3 -I -B -c`. It ends with `os._exit`, because a thread of the agent may still wait for input."""


@functools.cache
def payload() -> bytes:
    """The agent's modules: zlib-compressed JSON, source text by full module name.

    They are read as package data, so that an installed wheel works as a checkout does.
    """
    sources = {
        f"slurmfab.agent.{file.name[:-3]}": file.read_text(encoding="utf-8")
        for file in sorted(resources.files("slurmfab.agent").iterdir(), key=lambda file: file.name)
        if file.name.endswith(".py") and file.name != "__init__.py"
    }
    return zlib.compress(json.dumps(sources).encode("ascii"), 9)
