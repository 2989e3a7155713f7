"""The question of the checks which packages a killed dnf has left: a shell command that prints `NAME unfinished`.

It prints nothing while a program changes packages, and where there is no dnf.
"""

from __future__ import annotations

import shlex

from slurmfab.on_hosts.agent.dnf.rpm_database import UNENDED

PROGRAM = f"""
import fcntl, sqlite3, subprocess, sys
for path in ("/var/lib/rpm/.rpm.lock", "/usr/lib/sysimage/rpm/.rpm.lock"):
    try:
        fcntl.lockf(open(path, "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit()
    except OSError:
        pass
history = sqlite3.connect("file:/var/lib/dnf/history.sqlite?mode=ro", uri=True)
for (name,) in history.execute('''{UNENDED}'''):
    if subprocess.run(["rpm", "--query", "--quiet", name]).returncode == 0:
        print(name, "unfinished")
"""
QUESTION = f"[ ! -e /var/lib/dnf/history.sqlite ] || python3 -I -S -c {shlex.quote(PROGRAM)} 2>/dev/null"
