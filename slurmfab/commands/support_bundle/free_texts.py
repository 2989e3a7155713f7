"""Texts that people wrote, and files of unknown kinds, left out for `--anonymous`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from slurmfab.cluster.inventory import yaml_tokens
from slurmfab.on_hosts.agent.logs.secret_detectors import Place

LEFT_OUT = "(text)"  # stands for a text that somebody wrote

FREE = frozenset(
    ("comment", "admincomment", "systemcomment", "extra", "description", "organization", "text", "motd", "contact")
)
"""Keys, in small letters, whose values are texts of people."""

MOST_TEXTS = 2_000

_COMMENT = re.compile(r"(?m)(?:(?<=^)|(?<=[ \t]))[#].*$")
_COMMENT_IN_DIFF = re.compile(r"(?m)^([-+ ]?[ \t]{0,64})[#;].*$")
_OWN_WORDS = re.compile(
    r"(?i)\s*(?:none|\(null\)|not responding|low (?:realmemory|socket\*core\*thread count|cpus|tmpdisk)[\w (),:<>=%.*]*"
    r"|gres/[\w/]+ count (?:reported lower than configured|too low)[\w (),:<>=]*|kill task failed"
    r"|(?:prolog|epilog) error"
    r"|batch job complete failure|node unexpectedly rebooted|duplicate jobid|reboot (?:asap|requested|issued|complete)"
    r"|resumetimeout reached|nodename mismatch|unknown|\(text-\d+\))\s*"
)
"""Reasons that Slurm's daemons write."""

_REASONS = (
    re.compile(r"(?m)\bReason=([^\n]{1,1024}?)(?: \[[^\s\]]{1,80}@[^\s\]]{1,40}\])?[ \t]*$"),
    re.compile(r"(?m)\breason (?:set )?to: ([^\n]{1,1024})$"),
    re.compile(r"(?m)\b(?:Comment|AdminComment|SystemComment|Extra)=([^\n]{1,1024})$"),
)


def in_conf(text: str) -> str:
    """A text without comments, in the format of slurm.conf or of systemd's units."""
    return _COMMENT_IN_DIFF.sub(r"\1", _COMMENT.sub("", text))


def in_yaml(text: str) -> str:
    """A text in YAML without comments and texts of people. Raises ValueError if it is not YAML."""
    parts, key = [], ""
    for token in yaml_tokens.tokens(text):
        value = token.text
        if token.is_scalar:
            if not token.is_key and key in FREE and value:
                value = LEFT_OUT + value[len(value.rstrip()) :]
            elif token.is_block:
                header, line, body = value.partition("\n")
                value = header.partition("#")[0] + line + _COMMENT_IN_DIFF.sub(r"\1", body)
            key = token.value.lower() if token.is_key else ""
        parts += [_COMMENT.sub("", token.before), value]
    return "".join(parts)


def in_json(text: str) -> str:
    """JSON, one value or one a line, without people's texts and comments in files; ValueError if it is none."""
    try:
        return json.dumps(without_texts(json.loads(text)), indent=1, ensure_ascii=False) + "\n"
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    except ValueError:
        lines = [json.dumps(without_texts(json.loads(line)), ensure_ascii=False) for line in text.splitlines() if line]
        return "\n".join((*lines, ""))


def without_texts(value: Any) -> Any:
    """A value of JSON without texts of people."""
    if isinstance(value, dict):
        return {
            key: LEFT_OUT if str(key).lower() in FREE and isinstance(one, str) and one else without_texts(one)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [without_texts(one) for one in value]
    return _COMMENT_IN_DIFF.sub(r"\1", value) if isinstance(value, str) and "\n" in value else value


def as_it_is(text: str) -> str:
    """A text of a kind that has no comments."""
    return text


KINDS: tuple[tuple[re.Pattern[str], Callable[[str], str]], ...] = (
    (re.compile(r"cluster/cluster\.yaml|hosts/[^/]+/slurm/[^/]+\.yaml"), in_yaml),
    (re.compile(r"cluster/lock\.json|checks\.json|runs/[^/]+\.json|hosts/[^/]+/(?:facts|kept/[^/]+)\.jsonl?"), in_json),
    (re.compile(r"hosts/[^/]+/slurm/[^/]+\.conf"), in_conf),
    (re.compile(r"(?:README|missing|versions|clocks|runs)\.txt|hosts/[^/]+/kept/os-release\.txt"), as_it_is),
    (re.compile(r"hosts/[^/]+/(?:system|state)/[a-z-]+\.txt|hosts/[^/]+/logs/[a-z]+\.(?:log|journal)"), as_it_is),
)
"""The files of a bundle, and what takes texts of people out of each; others cannot be judged."""


def cleaned(name: str, text: str) -> str:
    """A file of a bundle without texts of people. Raises ValueError if it cannot be judged; says why."""
    for kind, take_out in KINDS:
        if kind.fullmatch(name):
            return take_out(text)
    raise ValueError("files of this kind are not known")


def reasons(texts: Iterable[str]) -> tuple[str, ...]:
    """The reasons of drains and the comments in texts that Slurm did not write."""
    found: dict[str, bool] = {}
    for text in texts:
        for first, end in reason_places(text):
            reason = text[first:end].strip()
            if len(found) < MOST_TEXTS and not _OWN_WORDS.fullmatch(reason):
                found[reason] = True
    return tuple(sorted(found, key=len, reverse=True))


def reason_places(text: str) -> Iterator[Place]:
    """Yield the places of reasons and comments."""
    for pattern in _REASONS:
        yield from (found.span(1) for found in pattern.finditer(text))
