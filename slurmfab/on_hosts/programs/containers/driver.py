"""The files of NVIDIA's driver on this host, which containers need and images do not have."""

from __future__ import annotations

import os
import re
from typing import Sequence, Tuple

_NAMES = r"^\s*(lib(?:cuda|nvidia-[\w-]+|nvcuvid|nvoptix)\.so\S*) \(libc6,%s[^)]*\) => (/\S+)$"
LIBRARIES = tuple(re.compile(_NAMES % kind) for kind in ("x86-64", "AArch64"))
"""Lines of `ldconfig -p` about libraries that belong to the kernel's driver, for processors of 64 bits."""

TOOLS = ("/usr/bin/nvidia-smi",)
PLACE = "/usr/local/nvidia"  # where containers have them, as NVIDIA's images expect it

Pairs = Tuple[Tuple[str, str], ...]


def files(tools: Sequence[str] = TOOLS) -> Pairs:
    """The files of NVIDIA's driver on this host: the path of each here, and in a container."""
    import subprocess  # dear to import, and only jobs with GPUs need it

    done = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    libraries = libraries_of(done.stdout.decode("utf-8", "replace"))
    return (
        *((path, "%s/lib64/%s" % (PLACE, name)) for name, path in libraries),
        *((path, "%s/bin/%s" % (PLACE, os.path.basename(path))) for path in tools if os.path.isfile(path)),
    )


def libraries_of(text: str) -> Pairs:
    """Name and path of each library of the driver in the output of `ldconfig -p`; the first of a name counts."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = next(filter(None, (one.match(line) for one in LIBRARIES)), None)
        if match:
            found.setdefault(match.group(1), match.group(2))
    return tuple(found.items())
