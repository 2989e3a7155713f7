"""What hosts say to the scripts of an ejected cluster is data: nothing of it runs, here or on other hosts."""

from __future__ import annotations

import base64
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurmfab.commands.eject.saying import say
from slurmfab.commands.eject.script import Script
from slurmfab.commands.eject.scripts import eject
from slurmfab.core.plan.plan import make_plan
from slurmfab.on_hosts.agent.core.host_paths import REGISTRY_CA
from slurmfab.on_hosts.agent.files.server_certificate import ServerCertificate

sys.path.append(str(Path(__file__).parents[1] / "plan"))
from test_examples import planned

HOST_KEY, SLURM_KEY = "host_key ssh-ed25519 AAAAhost", "slurm_key ssh-ed25519 AAAAslurm slurm@n1"

SSH = """\
#!/bin/sh
# STAND-IN for ssh(1): the host prints what a file says; what it gets is kept.
cat >"$PLACE/got"
cat "$PLACE/says"
cat "$PLACE/complains" >&2
"""


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    wanted = planned("example-registry")
    wanted = dataclasses.replace(wanted, lock=dataclasses.replace(wanted.lock, registry_ca="PEM of the old registry"))
    return dict(eject(wanted, make_plan(wanted, wanted.cluster.hosts)).files)


def play(
    scripts: dict[str, str], place: Path, lines: str, says: bytes, complains: bytes = b""
) -> tuple[int, bytes, bytes]:
    """Run lines with make-cluster's functions, where each host prints the same; exit code and what was printed."""
    (place / "ssh").write_text(SSH)
    (place / "ssh").chmod(0o755)
    (place / "says").write_bytes(says)
    (place / "complains").write_bytes(complains)
    (place / "hosts").mkdir(exist_ok=True)
    (place / "tmp").mkdir(exist_ok=True)
    functions = scripts["make-cluster"].partition("# ssh asks here")[0]
    (place / "script").write_text(f"{functions}\n{lines}\n")
    done = subprocess.run(
        ["bash", place / "script"],
        env={**os.environ, "PATH": f"{place}:{os.environ['PATH']}", "PLACE": str(place), "TMPDIR": str(place / "tmp")},
        capture_output=True,
        check=False,
        cwd=place,
    )
    assert [*(place / "tmp").iterdir()] == []
    return done.returncode, done.stdout, done.stderr


ATTACKS = [
    b"1e touch ran\n",
    b"s|.*|touch ran|e\n",
    b"host_key ssh-ed25519 AAAA|e touch ran\n",
    b"slurm_key ssh-ed25519 AAAA slurm@n1|;e touch ran\n",
    b"slurm_key ssh-ed25519 AAAA\nw ran\n",
    b"slurm_key ssh-ed25519 AAAA slurm@n1 $(touch ran)\n",
    b'slurm_key command="touch ran" ssh-ed25519 AAAA slurm@n1\n',
    b"slurm_key ssh-ed25519 AAAA\0 slurm@n1\n",
    b"host_key ssh-ed25519 AAAA\r\n",
    b"x'; touch ran; y='\n",
    b"`touch ran`",
    b"a[$(touch ran)]\n",
    "slurm_key ssh-ed25519 ÄÄÄÄ slurm@n1\n".encode(),
]


@pytest.mark.parametrize("says", ATTACKS)
@pytest.mark.parametrize("asks", ["needed=(n1); hosts=(n1); learn_keys", "take n1 /munge.key munge; give s /munge.key"])
def test_a_host_that_says_something_else_then_is_refused_by_its_name_and_nothing_runs(
    scripts: dict[str, str], tmp_path: Path, says: bytes, asks: str
) -> None:
    code, printed, told = play(scripts, tmp_path, f"{asks}; echo went on", says)
    assert (code, printed) == (1, b"")
    assert told.startswith(b"n1: what it says of ")
    assert b"touch" not in told
    assert not [*tmp_path.rglob("ran")]


def test_a_node_that_lies_of_its_keys_then_is_left_out_and_the_others_go_on(
    scripts: dict[str, str], tmp_path: Path
) -> None:
    lines = 'needed=(ctl); hosts=(n1); learn_keys; cat "$work/keys"; phase munge n1; echo "${lost[n1]}"'
    code, printed, told = play(scripts, tmp_path, lines, b"1e touch ran\n")
    assert (code, printed.decode().splitlines()) == (0, ["== munge: n1", "its public keys could not be read"])
    assert told.startswith(b"n1: what it says of its public keys is something else")
    assert (tmp_path / "got").read_text().startswith("for file in /etc/ssh")  # no phase has begun there


def test_a_node_that_never_ends_a_phase_then_is_left_out(scripts: dict[str, str], tmp_path: Path) -> None:
    hangs = tmp_path / "ssh-that-hangs"
    hangs.write_text("#!/bin/sh\n# STAND-IN for ssh(1) to a host that never answers.\nexec sleep 600\n")
    hangs.chmod(0o755)
    lines = (
        f'ln -sf {hangs} "$PLACE/ssh"; PATIENCE=0.2; needed=(ctl); : >"$work/keys"; echo >hosts/n1.sh; '
        'phase munge n1; echo "${lost[n1]}"'
    )
    code, printed, _ = play(scripts, tmp_path, lines, b"")
    assert (code, printed.decode().splitlines()) == (0, ["== munge: n1", "failed in the phase munge"])


def test_a_host_that_says_more_than_any_key_then_is_refused(scripts: dict[str, str], tmp_path: Path) -> None:
    code, printed, told = play(scripts, tmp_path, "take n1 /etc/munge/munge.key munge; echo went on", b"A" * 1_000_000)
    assert (code, printed) == (1, b"")
    assert b"n1: " in told


def test_keys_of_hosts_then_take_the_place_of_their_marks_and_lines_for_no_host_are_left_out(
    scripts: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "hosts").mkdir()
    (tmp_path / "hosts/n1.sh").write_text(
        "n1 ssh-ed25519 @host_key:n1:ssh-ed25519@\nn1 ssh-rsa @host_key:n1:ssh-rsa@\n"
        'from="10.0.0.1" @slurm_key:n1@\n@slurm_key:n1@ @slurm_key:gone@\nplain & \\1 @ text\n'
    )
    code, printed, told = play(
        scripts, tmp_path, "hosts=(n1); learn_keys; filled hosts/n1.sh", f"{HOST_KEY}\n{SLURM_KEY}\n".encode()
    )
    assert (code, told) == (0, b"")
    assert printed.decode().splitlines() == [
        "n1 ssh-ed25519 AAAAhost",
        'from="10.0.0.1" ssh-ed25519 AAAAslurm slurm@n1',
        "plain & \\1 @ text",
    ]


def test_a_secret_that_a_host_has_made_then_is_given_as_it_is(scripts: dict[str, str], tmp_path: Path) -> None:
    code, printed, _ = play(scripts, tmp_path, "take n1 /k munge; give secret_0 /k", b"c2VjcmV0Cg==")
    assert (code, printed) == (0, b"secret_0='c2VjcmV0Cg=='\n")


@pytest.mark.parametrize("asks", ["phase munge n1", "on n1 <<<sinfo | printable", "send n1 a.deb"])
def test_what_a_host_prints_then_steers_no_terminal(scripts: dict[str, str], tmp_path: Path, asks: str) -> None:
    (tmp_path / "hosts").mkdir()
    (tmp_path / "hosts/n1.sh").write_text("x\n")
    steers = b"note: \x1b]0;title\x07\x9b2J\xc2\x9b31m plain\r\n"
    _, printed, told = play(scripts, tmp_path, f": >$work/keys; {asks}", steers, steers)
    assert not set(printed + told) - {9, 10, *range(32, 127)}
    assert b"plain" in printed + told


def test_no_script_then_has_a_language_run_what_hosts_say(scripts: dict[str, str]) -> None:
    for name, text in scripts.items():
        assert "sed -f" not in text, name
        assert "eval " not in text, name


def authority(place: Path, wanted: ServerCertificate, change: tuple[str, str] = ("", ""), days: int = 10950) -> bytes:
    """The certificate of an authority that a host makes, by the settings with a change."""
    settings = wanted.of_authority.replace(*change) if change[0] else wanted.of_authority
    assert not change[0] or settings != wanted.of_authority
    done = subprocess.run(
        ["openssl", "req", "-x509", "-config", "/dev/stdin", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", place / "own-key", "-days", str(days)],
        input=settings.encode(), capture_output=True, check=True,
    )  # fmt: skip
    return done.stdout


WANTED = ServerCertificate(("10.0.0.1", "ctl"))


def taking(scripts: dict[str, str], place: Path, certificate: bytes) -> tuple[int, bytes, bytes]:
    lines = f"take_authority ctl {REGISTRY_CA} 10950 <<'END'\n{WANTED.of_authority}END\ngive secret_0 {REGISTRY_CA}"
    return play(scripts, place, lines, base64.b64encode(certificate))


@pytest.mark.parametrize("changed", [False, True], ids=["as it is", "with more behind it"])
def test_a_certificate_that_its_script_makes_then_is_given_to_others_alone(
    scripts: dict[str, str], tmp_path: Path, changed: bool
) -> None:
    made = authority(tmp_path, WANTED)
    more = authority(tmp_path, WANTED, ("CA:TRUE, pathlen:0", "CA:TRUE")) if changed else b""
    code, printed, told = taking(scripts, tmp_path, made + more)
    assert (code, told) == (0, b"")
    assert base64.b64decode(printed.split(b"'")[1]).strip() == made.strip()


@pytest.mark.parametrize(
    ("change", "days"),
    [
        (("nameConstraints", "#"), 10950),
        (("permitted;DNS:ctl", "permitted;DNS:org"), 10950),
        (("permitted;DNS:ctl", "permitted;DNS:ctl, permitted;DNS:org"), 10950),
        ((", pathlen:0", ""), 10950),
        (("keyCertSign", "keyCertSign, digitalSignature"), 10950),
        (("serverAuth", "serverAuth, codeSigning"), 10950),
        (("CN = authority", "CN = other"), 10950),
        (("basicConstraints", "subjectAltName = DNS:bank.example\nbasicConstraints"), 10950),
        (("", ""), 20000),
    ],
)
def test_another_certificate_then_is_refused_with_its_host(
    scripts: dict[str, str], tmp_path: Path, change: tuple[str, str], days: int
) -> None:
    code, printed, told = taking(scripts, tmp_path, authority(tmp_path, WANTED, change, days))
    assert (code, printed) == (1, b"")
    assert told.startswith(f"ctl: {REGISTRY_CA} is not the certificate that its script makes".encode())


def test_the_certificate_of_the_registry_then_is_compared_before_other_hosts_get_it(scripts: dict[str, str]) -> None:
    lines = scripts["make-cluster"].splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith("take_authority ")]
    assert REGISTRY_CA in lines[at]
    assert any("nameConstraints = critical" in line for line in lines[at : at + 20])
    assert say(Script(), WANTED)[0].startswith("certify ")
