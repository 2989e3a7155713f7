"""The settings in a slurmdbd.conf, for the agent and for the backup program that stays on hosts."""

from __future__ import annotations

import re
from typing import Dict

SETTING = re.compile(r"^[ \t]*(\w+)[ \t]*=[ \t]*(.*?)[ \t]*(?:#.*)?$", re.MULTILINE)


def parse_settings(content: bytes) -> Dict[str, str]:
    """The settings in a slurmdbd.conf, by their names in lower case; the last of several equal names counts."""
    text = content.decode("utf-8", "surrogateescape")
    return {name.lower(): value.strip('"') for name, value in SETTING.findall(text)}
