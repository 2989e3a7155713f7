"""The registry's certificate in a scratch root: made by the real openssl, kept, renewed, and taken back."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from outcomes import as_sent

from slurmfab.on_hosts.agent.core.host_paths import REGISTRY, REGISTRY_CA, REGISTRY_CERTIFICATE
from slurmfab.on_hosts.agent.core.resource import CHANGED, OK, WOULD_CHANGE, Context, Outcome, apply
from slurmfab.on_hosts.agent.files import server_certificate
from slurmfab.on_hosts.agent.files.server_certificate import ServerCertificate

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")

AUTHORITY = ServerCertificate(()).authority
NAMES = ("10.0.0.1", "ctl", "fd00::1")


def make(context: Context, *names: str) -> Outcome:
    wanted = ServerCertificate(names, "munge" if names else "root")
    return apply(as_sent(wanted), context)


def read(context: Context, path: str) -> bytes:
    return Path(context.path(path)).read_bytes()


def test_certificate_when_there_is_none_then_it_is_made_once_and_its_keys_are_shown_to_nobody(context: Context) -> None:
    assert make(Context(context.root, dry_run=True), *NAMES).status == WOULD_CHANGE
    assert not Path(context.path(REGISTRY)).exists()
    outcome = make(context, *NAMES)
    assert (outcome.status, outcome.message) == (CHANGED, "")
    assert make(context, *NAMES).status == OK
    assert "PRIVATE" not in repr(outcome)
    modes = {path: oct(Path(context.path(path)).stat().st_mode & 0o777) for path in (AUTHORITY, REGISTRY_CERTIFICATE)}
    assert modes == {AUTHORITY: "0o600", REGISTRY_CERTIFICATE: "0o640"}
    assert b"PRIVATE" not in read(context, REGISTRY_CA)
    assert not list(Path(context.root).glob("slurmfab-certificate-*"))


def test_certificate_when_a_host_checks_it_strictly_then_its_names_are_right(context: Context) -> None:
    make(context, *NAMES)
    strict = ("openssl", "verify", "-x509_strict", "-CAfile", context.path(REGISTRY_CA), "-purpose", "sslserver")
    for option, name in (("-verify_ip", "10.0.0.1"), ("-verify_hostname", "ctl"), ("-verify_ip", "fd00::1")):
        subprocess.run([*strict, option, name, context.path(REGISTRY_CERTIFICATE)], check=True, capture_output=True)


def test_certificate_when_it_ends_soon_then_it_is_renewed_by_the_same_authority(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(server_certificate, "DAYS", 20)
        make(context, *NAMES)
    authority, before = read(context, REGISTRY_CA), read(context, REGISTRY_CERTIFICATE)
    outcome = make(context, *NAMES)
    assert outcome.status == CHANGED
    assert [(one.name, one.wanted) for one in outcome.changes] == [("ends", "in 60 days or more")]
    assert read(context, REGISTRY_CA) == authority
    assert read(context, REGISTRY_CERTIFICATE) != before


def test_certificate_when_the_host_gets_another_name_or_somebody_opens_its_key_then_that_is_mended(
    context: Context,
) -> None:
    make(context, *NAMES)
    authority = read(context, REGISTRY_CA)
    assert make(context, "10.0.0.1", "registry").status == CHANGED
    assert read(context, REGISTRY_CA) != authority, "the former one could not vouch for the new name"
    authority = read(context, REGISTRY_CA)
    Path(context.path(REGISTRY_CERTIFICATE)).chmod(0o644)
    kept = read(context, REGISTRY_CERTIFICATE)
    assert make(context, "10.0.0.1", "registry").status == CHANGED
    assert read(context, REGISTRY_CERTIFICATE) == kept
    Path(context.path(AUTHORITY)).write_text("nonsense")
    assert make(context, "10.0.0.1", "registry").status == CHANGED
    assert read(context, REGISTRY_CA) != authority
    assert make(context, "10.0.0.1", "registry").status == OK


@pytest.mark.parametrize("names", [NAMES, ("ctl",)])
def test_authority_when_somebody_has_its_key_then_it_can_vouch_for_the_registry_alone(
    context: Context, names: tuple[str, ...]
) -> None:
    make(context, *names)
    for name in ("DNS:bank.example", "IP:10.0.0.2", "IP:fd00::2"):
        settings = server_certificate.configuration("other", server_certificate.OF_SERVER % name)
        made = Path(context.path("/other.pem"))
        made.write_bytes(server_certificate.signed(context, settings, 9, by=AUTHORITY)[1])
        words = ["openssl", "verify", "-CAfile", context.path(REGISTRY_CA), str(made)]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        assert done.returncode != 0, name
        assert "subtree violation" in done.stderr, done.stderr


def test_authority_when_it_vouches_for_everything_as_former_ones_did_then_it_is_made_anew(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        former = "basicConstraints = critical, CA:TRUE, pathlen:0\nkeyUsage = critical, keyCertSign, cRLSign\n#%s\n"
        patched.setattr(server_certificate, "OF_AUTHORITY", former)
        make(context, *NAMES)
    outcome = make(context, *NAMES)
    assert [(one.name, one.actual) for one in outcome.changes] == [("its authority vouches for", "everything")]
    assert make(context, *NAMES).status == OK


def test_certificate_when_the_registry_goes_then_all_of_it_goes(context: Context) -> None:
    assert make(context).status == OK
    make(context, *NAMES)
    assert make(context).status == CHANGED
    assert not Path(context.path(REGISTRY)).exists()
