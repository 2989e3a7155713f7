"""The model of scheduled backups (key `backup`)."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from slurmfab.cluster.inventory import public_keys
from slurmfab.cluster.inventory.values import Model, Schedule, check_directory, period, systemd_calendar, written_as

_ALPHABET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_NATIVE = re.compile(rf"age1[{_ALPHABET}]{{58}}")
_RECIPIENT = re.compile(rf"age1[{_ALPHABET}]{{58}}|ssh-(ed25519|rsa) [A-Za-z0-9+/]{{16,8192}}={{0,2}}( .*)?")
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_EXAMPLE = "such as age1… (age-keygen prints it) or ssh-ed25519 AAAA…"


@written_as(_RECIPIENT)
def check_recipient(text: str) -> str:
    """A validator of a recipient of age, or an SSH key without its comment; ValueError for others."""
    if text.upper().startswith("AGE-SECRET-KEY-") or "PRIVATE KEY" in text:
        raise ValueError("this is a private key, which must stay with its owner; name the public one, " + _EXAMPLE)
    if _NATIVE.fullmatch(text):
        if not _is_whole(text):
            raise ValueError(f'"{text}" has a wrong checksum; was it copied as a whole?')
        return text
    if not _RECIPIENT.fullmatch(text):
        raise ValueError(f'"{text[:80]}" is no public key that age can encrypt to, {_EXAMPLE}')
    kind, key = text.split()[:2]
    damage = public_keys.damage(kind, key)
    if damage:
        raise ValueError(damage)
    return f"{kind} {key}"


def _is_whole(text: str) -> bool:
    """Whether the checksum of a key in Bech32 is right (BIP 173)."""
    name, _, data = text.rpartition("1")
    values = [ord(char) >> 5 for char in name] + [0] + [ord(char) & 31 for char in name]
    check = 1
    for value in values + [_ALPHABET.index(char) for char in data]:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, number in enumerate(_GENERATOR):
            check ^= number if top >> bit & 1 else 0
    return check == 1


_HOUR = 3600
_MOST_KEPT = 10_000


class Backup(Model):
    """Backups that the controller and the database host make by a systemd timer."""

    directory: Annotated[
        str,
        AfterValidator(check_directory("/srv/slurm-backups")),
        Field(description="Directory on the hosts for their backups."),
    ]
    when: Annotated[Schedule, Field(description="hourly, daily, weekly, 03:30 or Sun 03:30.")] = "daily"
    # older ones are deleted
    keep: Annotated[int, Field(ge=1, le=_MOST_KEPT, description="Number of backups to keep.")] = 14
    encrypt_to: Annotated[
        tuple[Annotated[str, AfterValidator(check_recipient)], ...],
        Field(description="Public keys (of age, or SSH) to which backups are encrypted, those of fab backup included."),
    ] = ()

    @property
    def calendar(self) -> str:
        """The schedule as a calendar event of systemd (systemd.time(7))."""
        return systemd_calendar(self.when)

    @property
    def oldest(self) -> int:
        """The highest age of the newest backup in seconds: one backup may be missed, as while a host is off."""
        return 2 * period(self.when) + _HOUR
