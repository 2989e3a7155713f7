"""A sentence of a check that is made false on a host, and the check that has to fail for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SAVED = "/root/saved"
"""Where the one file is kept that a row edits."""


@dataclass(frozen=True)
class Falsified:
    """A row: somebody makes the sentence of a check false; the check fails there, and passes when it is true again.

    Args:
        check: group and name of the check, as in `munge.key_is_safe`.
        on: the host whose result counts.
        what: what makes the sentence false, for people.
        how: text for `sh -c` as root that does it.
        back: the same for putting it right.
        says: words of the cause.
        at: the host on which `how` and `back` run; empty for `on`.
        needs: further words for `--only`, of checks on which this one relies.
        scene: the cluster, a name of `scenes.SCENES`.
        suites: the suites on which the row is played; empty for all.
        over: an outcome besides `passed` when it is true again, where hosts of labs lack what else is looked at.
    """

    check: str
    on: str
    what: str
    how: str
    back: str
    says: str
    at: str = ""
    needs: tuple[str, ...] = ()
    scene: str = ""
    suites: tuple[str, ...] = ()
    over: str = "passed"

    @property
    def name(self) -> str:
        """The check's name without its group and account."""
        return self.check.split(".")[1]

    def among(self, suites: Sequence[str]) -> tuple[str, ...]:
        """Those of some suites on which the row is played."""
        return tuple(suite for suite in suites if suite in (self.suites or suites))

    @property
    def place(self) -> str:
        """The host on which the sentence is made false."""
        return self.at or self.on


def answering(program: str, script: str) -> dict[str, str]:
    """A program that answers otherwise: `how` and `back`.

    Args:
        program: its path; the real one is `$0.was` meanwhile.
        script: text for `sh`, without an apostrophe.
    """
    write = f"printf '%s\\n' '#!/bin/sh' '{script}' > {program} && chmod 755 {program}"
    return {
        "how": f"test ! -e {program}.was && mv {program} {program}.was && {write}",
        "back": f"mv {program}.was {program}",
    }


def edited(path: str, sed: str, unit: str = "") -> dict[str, str]:
    """A file that is edited, and a unit that is restarted then and afterwards: `how` and `back`."""
    restart = f" && systemctl restart {unit}" if unit else ""
    return {
        "how": f"cp -a {path} {SAVED} && sed -i '{sed}' {path} && ! cmp -s {path} {SAVED}{restart}",
        "back": f"cp -a {SAVED} {path}{restart}",
    }


def not_seen(path: str, sed: str, unit: str) -> dict[str, str]:
    """A file that is edited; only putting it right restarts the unit that reads it: `how` and `back`."""
    changed = edited(path, sed)
    return {"how": changed["how"], "back": f"{changed['back']} && systemctl restart {unit}"}


def stopped(unit: str, back: str = "") -> dict[str, str]:
    """A unit that does not run: `how` and `back`."""
    return {"how": f"systemctl stop {unit}", "back": back or f"systemctl start {unit}"}


def deaf(unit: str) -> dict[str, str]:
    """A unit that runs and listens to nobody: `how` and `back`."""
    place = f"/run/systemd/system/{unit}.service.d"
    text = "[Service]\\nType=simple\\nExecStart=\\nExecStart=/bin/sleep infinity\\n"
    reload_ = f"systemctl daemon-reload && systemctl restart {unit}"
    return {
        "how": f"mkdir -p {place} && printf '{text}' > {place}/zz-deaf.conf && {reload_}",
        "back": f"rm -r {place} && {reload_}",
    }


def closed(direction: str, port: int) -> dict[str, str]:
    """A port that a rule of the network drops: `how` and `back`."""
    rule = f"ipproto 6 {direction} {port} blackhole"
    return {"how": f"ip rule add {rule}", "back": f"ip rule del {rule}"}
