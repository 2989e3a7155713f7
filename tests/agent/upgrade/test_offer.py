"""What apt would install: sources of the host, versions that fit, and what apt-get says that it would do."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.upgrade import offer

DEB822 = """\
# made by an installer
Types: deb deb-src
URIs: http://deb.example.org/debian
Suites: trixie trixie-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://off.example.org/debian
Suites: trixie
Components: main
Enabled: no
"""
SIMULATED = """\
NOTE: This is only a simulation!
Inst libhwloc15 [2.12.0-4] (2.15.0-2 slurm-lab:newer [amd64])
Inst slurmd [24.11.5-4+deb13u1] (26.05.5-1 slurm-lab:newer [amd64]) []
Inst libjwt2 (1.17.2-1 slurm-lab:newer [amd64])
Remv libpmix2t64 [5.0.7-1]
Conf slurmd (26.05.5-1 slurm-lab:newer [amd64])
"""


def write(root: Path, path: str, text: str) -> None:
    """Write a file in the scratch root."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize(
    ("path", "text", "signed"),
    [
        ("etc/apt/sources.list.d/debian.sources", DEB822, True),
        (
            "etc/apt/sources.list",
            "deb-src http://deb.example.org/debian trixie main\n"
            "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
            "http://deb.example.org/debian trixie main contrib\n",
            True,
        ),
        ("etc/apt/sources.list", "deb http://deb.example.org/debian trixie main contrib\n", False),
    ],
)
def test_another_suite_comes_from_the_mirror_of_the_hosts_own(
    root: Path, context: Context, path: str, text: str, signed: bool
) -> None:
    write(root, "etc/os-release", 'ID=debian\nVERSION_CODENAME="trixie"\n')
    write(root, path, text)
    lines = ["Types: deb", "URIs: http://deb.example.org/debian", "Suites: sid", "Components: main contrib"]
    lines += ["Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg"] if signed else []
    assert offer.stanza(context, str(root), {"suite": "sid"}) == "\n".join(lines) + "\n"


def test_a_suite_of_no_mirror_is_refused(root: Path, context: Context) -> None:
    write(root, "etc/os-release", "VERSION_CODENAME=trixie\n")
    write(root, "etc/apt/sources.list", "deb http://deb.example.org/debian bookworm main\n")
    with pytest.raises(ResourceFailed, match="so sid is unknown"):
        offer.stanza(context, str(root), {"suite": "sid"})


def test_a_repository_comes_with_its_key(root: Path, context: Context) -> None:
    text = offer.stanza(context, str(root), {"stanza": "Types: deb\nURIs: http://x\nSuites: ./", "key": "the key"})
    assert text == f"Types: deb\nURIs: http://x\nSuites: ./\nSigned-By: {root}/key.asc\n"
    assert (root / "key.asc").read_text() == "the key"


def test_the_newest_version_that_fits_is_chosen() -> None:
    found = {"slurmd": ["26.05.5-1", "25.11.2-1", "24.11.5-4"], "sview": ["1"]}
    assert offer.choose(found, "") == {"slurmd": "26.05.5-1", "sview": "1"}
    assert offer.choose(found, "25.11.*") == {"slurmd": "25.11.2-1"}
    assert offer.choose(found, "23.11.*") == {}


def test_what_apt_would_do_is_told_apart() -> None:
    assert offer.outcome(SIMULATED, ["slurmd", "slurmctld"]) == {
        "versions": {"slurmd": "26.05.5-1"},
        "others": {"libhwloc15": "2.15.0-2", "libjwt2": "1.17.2-1"},
        "removed": ["libpmix2t64"],
    }


def test_a_package_that_is_unpacked_already_when_simulated_then_gets_the_version_that_is_configured() -> None:
    told = offer.outcome("Conf slurmd (26.05.5-1 slurm-lab:newer [amd64])\n", ["slurmd"])
    assert told["versions"] == {"slurmd": "26.05.5-1"}


def test_a_host_without_slurm_is_offered_nothing(context: Context) -> None:
    found = offer.read({"names": ["slurmd"], "plugins": ["/usr/lib/*/slurm-wlm"]}, context)
    assert found["trouble"] == "none of Slurm's packages is installed here"
