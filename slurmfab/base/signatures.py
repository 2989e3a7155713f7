"""Signatures of archives by ssh-keygen(1) with SSH keys: members that cover the manifest, thus every part."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from slurmfab.base import bounded_file
from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.own_directory import own_directory

NAMESPACES = {"backup": "slurmfab-backup", "bundle": "slurmfab-bundle"}
"""The purpose that a signature is for, by kind of archive: one for another purpose is not accepted (ssh-keygen(1))."""

PROGRAM = "ssh-keygen"
SECONDS = 60  # how long ssh-keygen may take; a key on a token waits for a finger
MOST_BYTES = 64 << 10  # bytes of the largest file of public keys, and of the largest signature

OWNER_ONLY = 0o700
KEY_TEXT = r"(?:ssh|ecdsa|sk)-[a-z0-9@.-]{1,60} [A-Za-z0-9+/]{16,8192}={0,2}"
"""A public key without its comment. It can hold no option of allowed_signers, such as cert-authority."""

_KEY = re.compile(rf"({KEY_TEXT})(?:[ \t].*)?")
_FINGERPRINT = re.compile(r" key (SHA256:[A-Za-z0-9+/]+)")
_SIGNER = "slurmfab"


class NoSignature(SlurmfabError):
    """A signature that ssh-keygen cannot make or look at, with the reason."""


@dataclass(frozen=True)
class Seal:
    """What an archive's signature covers, and the signature."""

    data: bytes = b""  # bytes of the manifest, by which the archive's parts were verified
    signature: bytes = b""  # in the format of ssh-keygen; empty if the archive is not signed


def key_path() -> Path:
    """The path of this user's signing key, by the XDG Base Directory Specification."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    above = Path(given if given.startswith("/") else "~/.config").expanduser()
    return above / "slurmfab/signing_key"


def public_path(key: Path) -> Path:
    """The path of the public key beside a private one."""
    return key.with_name(f"{key.name}.pub")


def own_keys() -> tuple[str, ...]:
    """This user's own public signing key; empty if there is none yet, InputError if the file holds no public key."""
    path = public_path(key_path())
    return keys_in(path) if path.exists() else ()


def keys_in(path: Path) -> tuple[str, ...]:
    """The public keys in a file, one per line, without comments; InputError if one is none, or it is unreadable."""
    try:
        text = bounded_file.read(path.expanduser(), MOST_BYTES).decode(errors="replace")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    keys = []
    for number, line in lines:
        if line and not line.startswith("#"):
            match = _KEY.fullmatch(line)
            if match is None:
                raise InputError(f"{path}:{number}: this is no SSH public key, such as `ssh-ed25519 AAAA…`.")
            keys.append(match[1])
    if not keys:
        raise InputError(f"{path} holds no SSH public key.")
    return tuple(keys)


def signer(kind: str, tell: Callable[[str], None]) -> Callable[[bytes], bytes]:
    """A function that signs a manifest with this user's key, which is made if there is none.

    The function returns no bytes where it cannot sign, and tells why: an unsigned archive is better than none. `kind`:
    of the archive, `backup` or `bundle`. `tell`: is called with the reason.
    """

    def sign_or_tell(data: bytes) -> bytes:
        try:
            return sign(data, NAMESPACES[kind])
        except (NoSignature, OSError) as error:
            tell(f"This {kind} is NOT signed: {str(error).rstrip('.')}. Whoever uses it is asked whether to trust it.")
            return b""

    return sign_or_tell


def sign(data: bytes, namespace: str) -> bytes:
    """The signature of some bytes by this user's key, which is made if there is none.

    Where only the public key is there, ssh-keygen asks the SSH agent for the private one. `namespace`: what the
    signature is for. Raises NoSignature if ssh-keygen is missing or fails. Raises OSError if the key cannot be written.
    """
    path = key_path()
    if not path.exists() and not public_path(path).exists():
        make_key(path)
    key = path if path.exists() else public_path(path)
    return run("-Y", "sign", "-f", str(key), "-n", namespace, data=data).stdout


def make_key(path: Path) -> None:
    """Make a signing key without a passphrase, unless another process has; NoSignature or OSError if it fails."""
    path.parent.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        new = Path(folder, path.name)
        run("-q", "-t", "ed25519", "-N", "", "-C", "slurmfab archives", "-f", str(new))
        with suppress(FileExistsError):
            path.hardlink_to(new)
            public_path(new).replace(public_path(path))


def distrust(seal: Seal, kind: str, keys: Iterable[str]) -> str:
    """Why no trusted key has signed an archive (`backup` or `bundle`); empty if one of these has."""
    if not seal.signature:
        return "it is not signed"
    namespace, trusted = NAMESPACES[kind], dict.fromkeys(keys)
    try:
        with own_directory("signature") as folder:
            allowed, signature = folder / "allowed_signers", folder / "signature"
            allowed.write_text("".join(f'{_SIGNER} namespaces="{namespace}" {key}\n' for key in trusted))
            signature.write_bytes(seal.signature)
            words = ("-n", namespace, "-s", str(signature))
            with suppress(NoSignature):
                run("-Y", "verify", "-f", str(allowed), "-I", _SIGNER, *words, data=seal.data)
                return ""
            said = run("-Y", "check-novalidate", *words, data=seal.data)
    except NoSignature as error:
        return f"its signature does not fit its content, or cannot be verified ({error})"
    except OSError as error:
        return f"its signature cannot be verified ({error.strerror})"
    found = _FINGERPRINT.search(said.stdout.decode(errors="replace"))
    return f"it is signed by the key {found[1] if found else 'of somebody'}, which is not trusted here"


def run(*words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run ssh-keygen. Raises NoSignature if it is missing, fails, or takes too long."""
    try:
        done = subprocess.run([PROGRAM, *words], input=data, capture_output=True, timeout=SECONDS, check=False)
    except FileNotFoundError:
        raise NoSignature(f"there is no {PROGRAM} here (Debian: openssh-client)") from None
    except (OSError, subprocess.SubprocessError) as error:
        raise NoSignature(f"{PROGRAM} does not answer: {type(error).__name__}") from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").split("\n")
        reason = next((line.strip() for line in lines if line.strip()), f"exit code {done.returncode}")
        raise NoSignature(f"{PROGRAM}: {reason[:200]}")
    return done
