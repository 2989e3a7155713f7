"""Which programs AppArmor's profiles let make user namespaces, by profiles as packages have them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import host_facts

from slurmfab.core.plan.user_namespaces import Denied, denied
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


@pytest.mark.parametrize(("program", "text", "profile", "allows"), CASES.values(), ids=CASES)
def test_programs_have_the_profile_that_is_attached_to_them(
    program: str, text: str, profile: str, allows: bool
) -> None:
    found = denied(host_facts("n1", namespace_programs=(program,), apparmor_profiles={"one": text}))
    assert found == (() if allows else (Denied(program, profile),))


@pytest.mark.parametrize("name", ["one.dpkg-old", "one~", ".one"])
def test_a_file_that_apparmor_does_not_load_counts_for_nothing(name: str) -> None:
    text = UBUNTU.format("profile crun /usr/bin/crun")
    facts = host_facts("n1", namespace_programs=("/usr/bin/crun",), apparmor_profiles={name: text})
    assert denied(facts) == (Denied("/usr/bin/crun"),)


@pytest.mark.parametrize(
    ("restricts", "disabled", "told"),
    [
        (
            "1",
            "",
            {"namespace_programs": ["/usr/bin/crun"], "apparmor_profiles": {"crun": "profile crun /usr/bin/crun"}},
        ),
        ("1", "crun", {"namespace_programs": ["/usr/bin/crun"], "apparmor_profiles": {}}),
        ("0", "", {}),
        ("", "", {}),
    ],
)
def test_a_host_tells_its_programs_and_their_profiles_where_the_kernel_denies_others_namespaces(
    restricts: str, disabled: str, told: dict[str, object], tmp_path: Path
) -> None:
    texts = {
        "proc/sys/kernel/apparmor_restrict_unprivileged_userns": f"{restricts}\n",
        "usr/bin/crun": "",
        "etc/apparmor.d/crun": "profile crun /usr/bin/crun\n",
        "etc/apparmor.d/man": "profile man /usr/bin/man\n",
        f"etc/apparmor.d/disable/{disabled or 'man'}": "",
    }
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert facts.user_namespaces(str(tmp_path), ["/usr/bin/*", "/usr/lib/*/starter"]) == told
