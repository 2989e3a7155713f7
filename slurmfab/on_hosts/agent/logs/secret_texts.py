"""Lines without the secrets that they may hold; they are taken out before anything leaves the host."""

from __future__ import annotations

from slurmfab.on_hosts.agent.logs import command_lines, secret_detectors

HIDDEN = "(hidden)"
DETECTORS = (
    secret_detectors.tokens, secret_detectors.shapes, secret_detectors.settings, secret_detectors.slurm_options,
    secret_detectors.after_words, command_lines.secrets,
)  # fmt: skip
"""What knows secrets in a line without knowing them before; support bundles are looked through by the same."""


def without_secrets(text: str) -> str:
    """A line with `(hidden)` in the place of what looks like a secret."""
    parts, end = [], 0
    for first, last in sorted(place for detector in DETECTORS for place in detector(text) if place[0] < place[1]):
        if first >= end:
            parts += [text[end:first], HIDDEN]
        end = max(end, last)
    return "".join((*parts, text[end:])) if parts else text


def value_without_secrets(key: str, value: str) -> str:
    """The value of a setting with `(hidden)` in the place of what is a secret.

    >>> value_without_secrets("JobCompPass", "abc"), value_without_secrets("KillWait", "30")
    ('(hidden)', '30')
    """
    shown = without_secrets('%s="%s"' % (key, value))
    return shown[len(key) + 2 : -1]
