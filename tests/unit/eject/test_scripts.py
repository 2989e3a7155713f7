"""The scripts of ejected clusters: what they have, what they leave out, and that bash reads them."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared

from slurmfab.cluster.inventory.deb_files import DebFile
from slurmfab.commands.eject.saying import SPEAKERS, WITHOUT_COMMANDS, say
from slurmfab.commands.eject.script import Script, here
from slurmfab.commands.eject.scripts import Ejected, eject, with_marks
from slurmfab.core.plan.plan import make_plan
from slurmfab.on_hosts.agent.files.file import File
from slurmfab.on_hosts.agent.files.host_names import HostNames
from slurmfab.on_hosts.agent.kinds import KINDS
from slurmfab.on_hosts.agent.nodes.jobs import JobsEnded

sys.path.append(str(Path(__file__).parents[1] / "plan"))
from test_examples import EXAMPLES, planned

ALICE = "AAAAC3NzaC1lZDI1NTE5AAAAIJ5JX3oSsZjPsVDsRr3Gmug/5T3ezqVzA2QkLtmDFPdU"


def ejected(example: str) -> Ejected:
    wanted = planned(example)
    wanted = with_marks(wanted)
    return eject(wanted, make_plan(wanted, wanted.cluster.hosts))


@pytest.mark.parametrize("example", ["plain", "example-around-slurm", "example-accounting", "example-software"])
def test_scripts_of_an_example_when_bash_reads_them_then_all_are_right(example: str, tmp_path: Path) -> None:
    made = ejected(example)
    hosts = [name for name in made.files if name.startswith("hosts/")]
    for name in ("make-cluster", *hosts[:3], hosts[-1]):
        script = tmp_path / name.replace("/", "-")
        script.write_text(made.files[name], errors="surrogateescape")
        done = subprocess.run(
            [shutil.which("bash") or "bash", "-n", script], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("example", EXAMPLES)
def test_of_an_example_then_nothing_is_left_out_but_the_names_that_the_site_gives_its_hosts(example: str) -> None:
    made = ejected(example)
    unsaid = () if planned(example).cluster.hosts_file else ("names and addresses of the hosts (hosts_file: false)",)
    assert made.unsaid == unsaid
    assert ("do not make" in made.files["README.md"]) is bool(unsaid)


@pytest.mark.parametrize("example", EXAMPLES)
def test_files_of_an_example_then_do_not_say_that_edits_are_overwritten(example: str) -> None:
    made = "".join(ejected(example).files.values())
    assert "edits here are overwritten" not in made
    assert "Made by slurmfab from the cluster file, and ejected: edits here stay.\n" in made


def test_a_kind_without_commands_then_is_named_with_its_hosts() -> None:
    wanted = planned("plain")
    plan = make_plan(wanted, wanted.cluster.hosts)
    resources = {host: (JobsEnded(("7",), ("n1",), "x"),) for host in ("n1", "n2")}
    other = dataclasses.replace(plan.phases[0], resources=resources)
    made = eject(wanted, dataclasses.replace(plan, phases=(*plan.phases, other)))
    assert made.unsaid == ("jobs ended on n[1-2]",)
    assert "- jobs ended on n[1-2]" in made.files["README.md"]


def test_what_the_site_gives_its_hosts_then_is_named_key_by_key() -> None:
    known = cluster(
        f"{THREE_HOSTS}hosts_file: false\nunix_users: false\ndatabase: c1\naccounts: [{{name: physics}}]\n"
        "users: [{name: ada, accounts: [physics]}]\nslurm_conf:\n  AuthAltTypes: auth/jwt\n"
        "  AuthAltParameters: jwt_key=/srv/jwt.key\n  HealthCheckProgram: /opt/site/check -v\n  Prolog: /etc/slurm/p\n"
    )
    some = plan_input(known, facts_of(known, prepared))
    assert set(eject(some, make_plan(some, known.hosts)).unsaid) >= {
        "names and addresses of the hosts (hosts_file: false)",
        "accounts on hosts of ada (unix_users: false)",
        "the package of auth/jwt, and its key /srv/jwt.key on c1",
        "/opt/site/check (HealthCheckProgram)",
    }


def test_packages_in_files_then_are_copied_and_sent_before_they_are_installed() -> None:
    known = cluster(f"{THREE_HOSTS}packages: {{compute: [tool_1.2_all.deb]}}\n")
    some = plan_input(known, facts_of(known, prepared))
    deb = DebFile(Path("tool_1.2_all.deb"), {"Package": "tool", "Version": "1.2", "Architecture": "all"}, 9)
    some = dataclasses.replace(some, deb_files={"tool_1.2_all.deb": deb})
    made = eject(some, make_plan(some, known.hosts))
    assert made.copies == {"packages/tool_1.2_all.deb": Path("tool_1.2_all.deb")}
    lines = made.files["make-cluster"].splitlines()
    assert lines.index("send n1 tool_1.2_all.deb") < lines.index("phase packages c1 n1 n2")
    assert "/var/cache/ejected-packages/tool_1.2_all.deb" in made.files["hosts/n1.sh"]
    assert "tool_1.2" not in made.files["hosts/c1.sh"]


def test_every_kind_of_resource_has_commands_or_needs_none_or_is_known_to_have_none() -> None:
    left = KINDS.keys() - SPEAKERS.keys() - WITHOUT_COMMANDS
    assert sorted(left) == [
        *("associations-gone", "dnf-packages-exchanged", "dnf-updates", "fault", "jobs-ended"),
        *("machine-reboot", "moved-ids", "munge-key-switch", "no-kept-secrets", "node-reboot"),
        *("packages-exchanged", "person-gone", "proved-dump", "renewed-daemon", "renewed-daemons", "restored"),
        *("restored-database", "restored-files", "restored-state"),
        *("slurm-state", "slurmctld-pause", "staged-munge-key", "state-copy", "updates"),
    ]


def test_keys_of_the_old_hosts_then_are_marks_and_the_mungekey_is_taken_from_the_new_controller() -> None:
    wanted = cluster(THREE_HOSTS)
    some = plan_input(wanted, facts_of(wanted, prepared))
    marked = with_marks(some)
    made = eject(marked, make_plan(marked, wanted.hosts))
    whole = "".join(made.files.values())
    assert [key for host in wanted.hosts for key in some.host(host).host_keys.values() if key in whole] == []
    assert some.public_key("c1") not in whole
    assert 'from="10.0.0.1" @slurm_key:c1@' in made.files["hosts/n1.sh"]
    assert "n1,10.0.0.2 ssh-ed25519 @host_key:n1:ssh-ed25519@" in made.files["hosts/c1.sh"]
    lines = made.files["make-cluster"].splitlines()
    order = ("phase munge_key c1", "learn_keys", "take c1 /etc/munge/munge.key munge", "phase munge c1 n1 n2")
    assert [line for line in lines if line in order] == [*order]
    assert (
        'printf %s "${secret_0:?is given by make-cluster}" | base64 -d | put /etc/munge/munge.key munge:munge 0400'
        in made.files["hosts/n1.sh"]
    )


@pytest.mark.parametrize("told", [ALICE, "counter", "authorized_keys", "put"])
def test_a_host_whose_key_is_said_to_be_a_users_or_another_word_then_changes_no_line_of_any_script(told: str) -> None:
    text = f"{THREE_HOSTS}firewall: managed\nusers: [{{name: alice, uid: 7001, keys: [ssh-ed25519 {ALICE}]}}]\n"
    wanted = cluster(f"{text}files: {{/etc/site/keys: {{text: 'ssh-ed25519 {ALICE}'}}}}\n")
    some = plan_input(wanted, facts_of(wanted, prepared))
    lied = {**some.lock.hosts, "n1": dataclasses.replace(some.host("n1"), host_keys={"ssh-ed25519": told})}
    honest = {**some.lock.hosts, "n1": dataclasses.replace(some.host("n1"), host_keys={"ssh-ed25519": "AAAAC3host"})}
    files = []
    for hosts in (lied, honest):
        marked = with_marks(dataclasses.replace(some, lock=dataclasses.replace(some.lock, hosts=hosts)))
        files.append(eject(marked, make_plan(marked, wanted.hosts)).files)
    assert files[0] == files[1]
    assert f"ssh-ed25519 {ALICE}" in files[0]["hosts/c1.sh"]


def test_a_secret_that_no_host_makes_then_has_to_be_given() -> None:
    wanted = planned("plain")
    plan = make_plan(wanted, wanted.cluster.hosts)
    resources = {"n1": (File("/etc/site.key", "hunter2", mode=0o600, secret=True),)}
    secret = dataclasses.replace(plan.phases[0], resources=resources)
    made = eject(wanted, dataclasses.replace(plan, phases=(*plan.phases, secret)))
    assert made.secrets == ("site.key",)
    assert "hunter2" not in "".join(made.files.values())
    assert "secrets/site.key is missing" in made.files["make-cluster"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\n", "cat <<'END_OF_FILE'"),
        ("no newline at the end", "base64 -d <<<bm8gbmV3bGluZSBhdCB0aGUgZW5k | cat"),
        ("END_OF_FILE\n", "base64 -d <<<RU5EX09GX0ZJTEUK | cat"),
        ("\udcff\n", "base64 -d <<</wo= | cat"),
        ("", "cat </dev/null"),
    ],
)
def test_a_text_for_a_command_then_arrives_as_it_is(text: str, line: str) -> None:
    lines = here("cat", text)
    assert lines[0] == line
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, check=True)
    assert done.stdout == text.encode("utf-8", "surrogateescape")


def test_a_host_with_a_loopback_address_in_its_hosts_file_then_gets_its_own(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("127.0.0.1\tlocalhost\n127.0.1.1\tn1.example.org n1\n10.0.0.2 n1\n127.0.1.1 n10\n")
    (line,) = say(Script(), HostNames(str(file), (("n1", "10.0.0.2"),)))
    subprocess.run(["bash", "-c", line], check=True)
    assert file.read_text() == "127.0.0.1\tlocalhost\n10.0.0.2\tn1.example.org n1\n10.0.0.2 n1\n127.0.1.1 n10\n"
