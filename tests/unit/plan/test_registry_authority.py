"""The authority of the image registry: what the deployer takes for it, of certificates that real openssl has made."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared

from slurmfab.core.plan import registry_authority
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.registry_authority import certified, judge, trouble
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.files.server_certificate import AUTHORITY_DAYS, ServerCertificate, signed

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")

NAMES = ("10.0.0.1", "c1")
RIGHT = ServerCertificate(NAMES).of_authority
ALLOWED = ("registry-authority",)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(str(tmp_path_factory.mktemp("root")))


def made(context: Context, settings: str = RIGHT, days: int = AUTHORITY_DAYS) -> str:
    """The certificate of a new authority with this configuration."""
    return signed(context, settings, days)[1].decode().strip()


@pytest.fixture(scope="module")
def first(context: Context) -> str:
    return made(context)


def told(certificate: str, known: str = "", more: str = "registry: c1\n") -> PlanInput:
    """The input of a plan where the registry's host tells of one certificate, and the lock has another."""
    whole = cluster(THREE_HOSTS + more)
    facts = facts_of(whole, prepared)
    facts["c1"] = dataclasses.replace(facts["c1"], registry_ca=certificate)
    found = plan_input(whole, facts)
    return dataclasses.replace(found, lock=dataclasses.replace(found.lock, registry_ca=known))


def test_a_certificate_of_slurmfabs_make_when_it_is_the_first_then_is_taken(first: str) -> None:
    assert certified(told(first)) == NAMES
    assert judge(told(first)) == (first, "", False)
    assert judge(told("")) == ("", "", False)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("nameConstraints", "#", "no name constraints"),
        ("nameConstraints = critical,", "nameConstraints =", "other extensions"),
        ("permitted;DNS:c1", "permitted;DNS:c1, permitted;DNS:org", "10.0.0.1 c1 org, and not for 10.0.0.1 c1"),
        ("permitted;DNS:c1", "permitted;DNS:.", "vouches for"),
        ("255.255.255.255", "0.0.0.0", "it cannot be read"),
        ("10.0.0.1/255.255.255.255", "10.0.0.0/255.255.255.0", "vouches for"),
        ("permitted;DNS:c1", "permitted;DNS:c1, permitted;email:org", "vouches for"),
        ("permitted;DNS:c1", "permitted;DNS:c1, excluded;DNS:org", "other extensions"),
        ("pathlen:0", "pathlen:1", "other extensions"),
        (", pathlen:0", "", "other extensions"),
        ("critical, CA:TRUE", "CA:TRUE", "other extensions"),
        ("CA:TRUE, pathlen:0", "CA:FALSE", "other extensions"),
        ("keyCertSign, cRLSign", "keyCertSign, cRLSign, digitalSignature", "other extensions"),
        ("serverAuth", "serverAuth, clientAuth", "other extensions"),
        ("serverAuth", "serverAuth, codeSigning", "other extensions"),
        ("extendedKeyUsage = serverAuth\n", "", "other extensions"),
        ("subjectKeyIdentifier = hash", "subjectKeyIdentifier = hash\nsubjectAltName = DNS:org", "other extensions"),
        ("CN = authority", "CN = Another authority", "its name is"),
    ],
)  # fmt: skip
def test_a_certificate_when_anything_of_it_differs_then_is_not_taken_and_the_lock_stays(
    context: Context, first: str, before: str, after: str, says: str
) -> None:
    assert before in RIGHT
    forged = made(context, RIGHT.replace(before, after))
    assert says in trouble(forged, NAMES) != ""
    for known in ("", first):
        found = judge(told(forged, known))
        assert found.certificate == known
        assert "not slurmfab's" in found.doubt
    assert judge(told(forged, first), ALLOWED).certificate == "", "nobody gets it, and the host makes another one"


@pytest.mark.parametrize("days", [1, AUTHORITY_DAYS - 1, 2 * AUTHORITY_DAYS])
def test_a_certificate_when_it_lasts_longer_or_shorter_then_is_not_taken(context: Context, days: int) -> None:
    assert "it is valid from" in trouble(made(context, days=days), NAMES)


def test_a_certificate_when_it_is_not_alone_or_a_servers_or_nonsense_then_is_not_taken(
    context: Context, first: str
) -> None:
    assert trouble(f"{first}\n{made(context)}", NAMES)
    assert trouble(first.replace("M", "N", 1), NAMES)
    assert trouble(f"x\n{first}", NAMES)
    assert trouble("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", NAMES)
    assert trouble(made(context, ServerCertificate(NAMES).of_server.replace("authorityKeyIdentifier", "#")), NAMES)
    lines = first.splitlines()
    joined = "\n".join((lines[0], "".join(lines[1:-1])[:76], "".join(lines[1:-1])[76:], lines[-1]))
    assert trouble(joined, NAMES) == "it is not one certificate and nothing else"


def test_a_certificate_when_another_key_has_signed_it_or_it_has_another_kind_of_key_then_is_not_taken(
    context: Context, tmp_path: Path
) -> None:
    signer, of_rsa = tmp_path / "signer", tmp_path / "rsa"
    signer.write_bytes(b"".join(signed(context, RIGHT, AUTHORITY_DAYS)))
    make = ("openssl", "req", "-x509", "-config", "/dev/stdin", "-days", str(AUTHORITY_DAYS), "-key")
    subprocess.run(("openssl", "genrsa", "-out", str(of_rsa), "2048"), check=True, capture_output=True)
    rsa = subprocess.run((*make, str(of_rsa)), input=RIGHT.encode(), check=True, capture_output=True).stdout.decode()
    assert "its key is of another kind" in trouble(rsa.strip(), NAMES)
    key, unnamed = tmp_path / "key", f"{RIGHT}authorityKeyIdentifier = none\n"
    key.write_bytes(signed(context, RIGHT, AUTHORITY_DAYS)[0])
    others = subprocess.run(
        (*make, str(key), "-CA", str(signer), "-CAkey", str(signer)),
        input=unnamed.encode(),
        check=True,
        capture_output=True,
    ).stdout.decode()
    assert trouble(others.strip(), NAMES) == "its own key has not signed it"


def test_an_authority_when_it_is_another_one_then_it_has_to_be_allowed(context: Context, first: str) -> None:
    second = made(context)
    found = judge(told(second, first))
    assert (found.certificate, found.is_other) == (first, True)
    assert "deploy --allow registry-authority" in found.doubt
    assert judge(told(second, first), ALLOWED) == (second, "", False)


def test_an_authority_when_the_names_of_the_registry_change_then_another_one_is_expected(
    context: Context, first: str
) -> None:
    moved = "registry: {host: c1, address: 10.0.0.9}\n"
    names = ("10.0.0.1", "10.0.0.9", "c1")
    assert judge(told(first, first, moved)).certificate == first, "until the host has made it"
    assert not registry_authority.serves(first, names)
    second = made(context, ServerCertificate(names).of_authority)
    assert judge(told(second, first, moved)) == (second, "", False)


def test_an_authority_when_its_host_is_silent_or_the_registry_goes_then_the_lock_says_what_counts(first: str) -> None:
    assert judge(told("", first)).certificate == first
    assert judge(told(first, first, "")).certificate == ""


def test_a_lock_when_its_certificate_is_none_of_slurmfabs_then_it_does_not_count(context: Context, first: str) -> None:
    forged = made(context, RIGHT.replace("nameConstraints", "#"))
    assert judge(told("", forged)).certificate == ""
    assert judge(told(first, forged)).certificate == first
    assert judge(told(forged, forged)).certificate == ""
