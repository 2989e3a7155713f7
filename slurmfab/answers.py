"""The one place where answers of agents become values: strict models, of which nothing else is believed.

An answer is text from a host that may be broken or hostile. Its model says of each value the type, the bounds and the
pattern that all of it matches; unknown names are refused. The lock's entries have the same types.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import to_json

from slurmfab.errors import AgentFailed

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
"""For `__pydantic_config__` of a dataclass: types are not converted, and unknown names are refused."""

ADVICE = "Is its python3 the distribution's? If it is, this is a bug; please report it."

UNKNOWN = "this key is unknown"
UNKNOWN_TYPES = ("unexpected_keyword_argument", "extra_forbidden")
PLACE_LENGTH = 100

Model = TypeVar("Model")


def pattern(text: str, most: int) -> Any:
    r"""A text that matches a pattern from its first to its last character.

    Args:
        text: the pattern, in the syntax of Rust's regex; without `\s`, which matches line breaks.
        most: the most characters.
    """
    return StringConstraints(pattern=rf"^(?:{text})\z", max_length=most)


Label = Annotated[str, pattern(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?", 63)]
"""A hostname of one label, without a dot."""

Word = Annotated[str, pattern(r"[A-Za-z0-9@._+:~-]*", 255)]
"""A name or a version without white space, such as `24.11.5-4`; may be empty."""

Phrase = Annotated[str, pattern(r"[^\pC\p{Zl}\p{Zp}]*", 4096)]
"""One line of printable text; may be empty."""

Text = Annotated[str, Field(max_length=64 << 20)]
"""Text of any number of lines."""

HostPath = Annotated[str, pattern(r"(?:/[^\pC\p{Zl}\p{Zp}:]*)?", 4096)]
"""An absolute path in a database such as /etc/passwd; may be empty."""

DeviceFile = Annotated[str, pattern(r"/dev/[A-Za-z0-9._/:-]+", 255)]
Program = Annotated[str, pattern(r"(?:(?:/[A-Za-z0-9._-]+)+)?", 255)]
"""The absolute path of a program; may be empty."""

Address = Annotated[
    str, pattern(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f]*:[0-9A-Fa-f:]*(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3})?", 45)
]
"""An IP address."""

Digest = Annotated[str, pattern(r"(?:[0-9a-f]{64})?", 64)]
"""A SHA-256 in hexadecimal digits; may be empty."""

Base64 = Annotated[str, pattern(r"[A-Za-z0-9+/]*={0,2}", 64 << 20)]

HostKeyType = Annotated[str, pattern("ssh-ed25519|ecdsa-sha2-nistp(?:256|384|521)|ssh-rsa|ssh-dss", 32)]
"""The types of SSH host keys that known_hosts can have (sshd(8))."""

HostKeyText = Annotated[str, pattern(r"[A-Za-z0-9+/]+={0,2}", 16384)]
"""An SSH public key in base64, as known_hosts has it."""

SlurmKey = Annotated[str, pattern(r"(?:ssh-ed25519 [A-Za-z0-9+/]+={0,2} slurm@[A-Za-z0-9_-]+)?", 255)]
"""The SSH public key of a host's slurm user, as authorized_keys has it; may be empty."""

Id = Annotated[int, Field(ge=0, lt=1 << 32)]
"""A UID, a GID or the id of a job."""

Count = Annotated[int, Field(ge=0, le=1 << 40)]
Seconds = Annotated[float, Field(ge=-(1 << 40), le=1 << 40)]


def checked(host: str, model: TypeAdapter[Model], value: Any, what: str) -> Model:
    """A value of an agent's answer, after its model has found nothing wrong with it.

    Args:
        host: the host that answered, for the error.
        model: the adapter of the model.
        value: the JSON value.
        what: what the value is, for the error, such as `facts`.

    Raises:
        AgentFailed: the value is not what the model says.
    """
    try:
        return model.validate_json(to_json(value))
    except ValidationError as error:
        raise AgentFailed(host, f"its {what} were refused: {mistake(error)}. {ADVICE}") from None
    except ValueError as error:  # texts that are not Unicode
        raise AgentFailed(host, f"its {what} were refused: they are not UTF-8. {ADVICE}") from error


def mistake(error: ValidationError) -> str:
    """The first mistake that a model found: where, and what is expected; without the value, which may be secret."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    name = place if len(place) <= PLACE_LENGTH else f"{place[:PLACE_LENGTH]}..."
    return (
        f"{name if name.isprintable() else ascii(name)}: {UNKNOWN if first['type'] in UNKNOWN_TYPES else first['msg']}"
    )
