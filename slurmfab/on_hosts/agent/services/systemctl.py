"""Properties of systemd units, from `systemctl show`."""

from __future__ import annotations

from typing import Dict, List, Sequence


def show_command(units: Sequence[str], properties: Sequence[str]) -> List[str]:
    """The program and arguments that print properties of units, as in org.freedesktop.systemd1(5)."""
    return ["systemctl", "show", "--property=" + ",".join(properties), "--", *units]


def parse_show(units: Sequence[str], shown: str) -> Dict[str, Dict[str, str]]:
    """The properties by unit, in the order of `systemctl show`'s paragraphs of `NAME=VALUE`.

    Empty if the number of paragraphs differs, because systemctl leaves out an invalid unit name.
    """
    paragraphs = shown.strip().split("\n\n")
    if len(paragraphs) != len(units):
        return {}
    return {
        unit: dict(line.split("=", 1) for line in paragraph.splitlines() if "=" in line)
        for unit, paragraph in zip(units, paragraphs)  # noqa: B905 - zip(strict=) needs Python 3.10
    }
