"""The language in which programs talk to slurmfab: English, whatever language a host has."""

from __future__ import annotations

ENGLISH = {"LC_ALL": "C.UTF-8", "LANGUAGE": ""}
"""Environment variables for every program. LANGUAGE alone would translate messages also in the locale C.UTF-8, as it
does where /etc/environment sets it (gettext(3))."""
