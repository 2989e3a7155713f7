"""Which programs AppArmor's profiles let make user namespaces, by profiles as packages have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.facts import facts

UBUNTU = (
    "abi <abi/4.0>,\ninclude <tunables/global>\n\n{} flags=(unconfined) {{\n  userns,\n\n  include if exists <x>\n}}\n"
)
STARTER = "/usr/lib/x86_64-linux-gnu/apptainer/bin/starter"
NSENTER = "/usr/bin/enroot-nsenter"

CASES = {
    "a profile with a name and a path": ("/usr/bin/crun", UBUNTU.format("profile crun /usr/bin/crun"), "one", True),
    "a path alone": (NSENTER, UBUNTU.format(NSENTER).replace("userns,", "allow userns create,"), "one", True),
    "alternatives and the architecture": (
        STARTER,
        UBUNTU.format("profile apptainer /usr/lib/@{multiarch}/apptainer/bin/starter{,-suid}"),
        "one",
        True,
    ),
    "a head in two lines": (
        NSENTER,
        UBUNTU.format(f"profile e {NSENTER}").replace(" flags", "\n    flags"),
        "one",
        True,
    ),
    "a variable of the file": (
        NSENTER,
        "@{exec_path} = /usr/bin/other /usr/bin/enroot-nsenter\n" + UBUNTU.format("profile e @{exec_path}"),
        "one",
        True,
    ),
    "a variable of another file": (NSENTER, UBUNTU.format("profile e @{bin}/enroot-nsenter"), "", False),
    "another path": ("/usr/bin/crun", UBUNTU.format("profile crun /usr/local/bin/crun"), "", False),
    "without the rule": (
        "/usr/bin/crun",
        UBUNTU.format("profile c /usr/bin/crun").replace("userns", "file"),
        "one",
        False,
    ),
    "a rule that is a comment": (
        "/usr/bin/crun",
        UBUNTU.format("profile c /usr/bin/crun").replace("userns", "# userns"),
        "one",
        False,
    ),
    "a rule that denies": (
        "/usr/bin/crun",
        UBUNTU.format("profile c /usr/bin/crun").replace("userns", "deny userns"),
        "one",
        False,
    ),
    "the rule of another profile": (
        "/usr/bin/crun",
        "profile crun /usr/bin/crun {\n  file,\n}\n" + UBUNTU.format("profile runc /usr/bin/runc"),
        "one",
        False,
    ),
    "slurmfab's own": ("/usr/bin/crun", "# Made by slurmfab\n" + UBUNTU.format("profile x /usr/bin/crun"), "", False),
    "no profile at all": ("/usr/bin/crun", "", "", False),
}


def machine(root: Path, program: str, text: str, *, restricts: str = "1\n") -> str:
    """A root directory with a program, a profile, and the kernel's setting."""
    texts = {
        "proc/sys/kernel/apparmor_restrict_unprivileged_userns": restricts,
        program[1:]: "",
        "etc/apparmor.d/one": text,
    }
    for path, content in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    return str(root)


@pytest.mark.parametrize(("program", "text", "profile", "allows"), CASES.values(), ids=CASES)
def test_programs_have_the_profile_that_is_attached_to_them(
    program: str, text: str, profile: str, allows: bool, tmp_path: Path
) -> None:
    root = machine(tmp_path, program, text)
    asked = ("/usr/bin/*", "/usr/lib/*/apptainer/bin/starter")
    assert facts.namespace_programs(root, asked) == [{"path": program, "profile": profile, "allows": allows}]


@pytest.mark.parametrize("name", ["one.dpkg-old", "one~", ".one"])
def test_a_file_that_apparmor_does_not_load_counts_for_nothing(name: str, tmp_path: Path) -> None:
    root = machine(tmp_path, "/usr/bin/crun", UBUNTU.format("profile crun /usr/bin/crun"))
    (tmp_path / "etc/apparmor.d/one").rename(tmp_path / "etc/apparmor.d" / name)
    assert facts.namespace_programs(root, ["/usr/bin/crun"])[0]["allows"] is False


def test_a_profile_that_is_disabled_counts_for_nothing(tmp_path: Path) -> None:
    root = machine(tmp_path, "/usr/bin/crun", UBUNTU.format("profile crun /usr/bin/crun"))
    (tmp_path / "etc/apparmor.d/disable").mkdir()
    (tmp_path / "etc/apparmor.d/disable/one").symlink_to("../one")
    assert facts.namespace_programs(root, ["/usr/bin/crun"])[0]["allows"] is False


@pytest.mark.parametrize("restricts", ["0\n", ""])
def test_where_nobody_is_denied_namespaces_no_program_is_told(restricts: str, tmp_path: Path) -> None:
    root = machine(tmp_path, "/usr/bin/crun", "", restricts=restricts)
    assert facts.namespace_programs(root, ["/usr/bin/crun"]) == []
