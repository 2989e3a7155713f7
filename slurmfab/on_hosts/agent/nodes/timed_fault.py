"""A fault that a drill brings about: it ends with the run, however that ends, and after a time at the latest.

A transient unit of systemd holds it, so it does not depend on the agent, its connection or the deployer. The unit waits
for the lock of this host, which an agent holds until its process ends: at once when the deployer is killed, and after a
minute of silence when the network fails.
"""

from __future__ import annotations

import os
import shutil
from typing import ClassVar, Tuple

from slurmfab.on_hosts.agent.core import reading, replace
from slurmfab.on_hosts.agent.core.host_lock import LOCK
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.services.start_guard import TRANSIENT

UNIT = "slurmfab-drill-%s"
PLACE = "/run/" + UNIT  # the directory with the scripts of a fault, readable by root alone
IN_EFFECT, LEFT = "in effect", "left"

BEGIN = 'refuse() { echo "$1" >&2; exit 1; }\n'  # in front of the script that brings it about

HOLD = "set -e; cd %s; exec 2>error; . ./begin; : >error; systemd-notify --ready; exec flock --shared %s true"
"""What the script opens stays open while the fault lasts."""

FINISH = "\ntest -s %s/error || rm -rf %s\n"  # behind the script that ends it: why it did not begin is read first

STOP_SECONDS = 120  # time that the script which ends it gets
BEGIN_SECONDS = 60.0


class TimedFault(Resource):
    """A fault in effect, or its end."""

    kind: ClassVar[str] = "fault"
    named_by: ClassVar[str] = "fault"
    settling_seconds: ClassVar[float] = 10.0  # systemd forgets a unit a moment after its end
    UNSHOWN: ClassVar[Tuple[str, ...]] = ("begin", "end")
    fault: str  # its name
    begin: str = ""  # shell script that brings it about, or prints why it does not; empty for its end
    end: str = ""  # shell script that takes it back, whether or not it has begun
    most: int = 0  # seconds after which it ends in any case

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """In effect, or nothing of it left."""
        return {"fault": IN_EFFECT if self.begin else None}

    def actual(self, context: Context) -> State:
        """Whether its unit, or at least its directory, is there."""
        if os.path.exists(context.path("%s/%s.service" % (TRANSIENT, UNIT % self.fault))):
            return {"fault": IN_EFFECT}
        return {"fault": LEFT if os.path.isdir(context.path(PLACE % self.fault)) else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Bring it about, or end it. Raises ResourceFailed with what its script says."""
        place, unit = context.path(PLACE % self.fault), UNIT % self.fault
        context.run(["systemctl", "stop", unit + ".service"], seconds=STOP_SECONDS)
        if os.path.isdir(place):  # its end failed, or the deployer died before it began
            context.must(["sh", place + "/end"], seconds=STOP_SECONDS)
            shutil.rmtree(place, ignore_errors=True)
        if not self.begin:
            return
        replace.make_directory(place, os.geteuid(), os.getegid(), 0o700)
        for name, text in (
            ("end", "cd %s\n" % place + self.end + FINISH % (place, place)),
            ("begin", BEGIN + self.begin),
        ):
            replace.put(place + "/" + name, text.encode(), os.geteuid(), os.getegid(), 0o600)
        limits = {"RuntimeMaxSec": self.most, "TimeoutStartSec": BEGIN_SECONDS, "TimeoutStopSec": STOP_SECONDS}
        words = [word for name, value in limits.items() for word in ("-p", "%s=%d" % (name, value))]
        done = context.run([
            "systemd-run", "--quiet", "--collect", "--unit=" + unit, "--description=A fault of a drill; ends by itself",
            "-p", "Type=notify", "-p", "NotifyAccess=all", "-p", "ExecStopPost=/bin/sh %s/end" % place, *words,
            "sh", "-c", HOLD % (place, LOCK),
        ], seconds=2 * BEGIN_SECONDS + STOP_SECONDS)  # fmt: skip
        if done.returncode == 0:
            return
        why = reading.read_text(place + "/error") or done.stderr.decode(errors="replace").strip()
        shutil.rmtree(place, ignore_errors=True)
        raise ResourceFailed(" ".join(why.split()))
