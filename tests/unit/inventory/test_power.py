"""The key `power`: what it may say, what it makes of the hosts, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support import cluster, prepared_input

from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.core.engine import passwords
from slurmfab.core.plan.phases import packages, power
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource

HOSTS = """\
cluster: lab
addresses: {c1: 10.0.0.1, "n[1-4]": "10.0.0.[2-5]"}
controllers: [c1]
nodes: [{hosts: "n[1-4]"}]
"""
IPMI = 'how: {ipmi: {address: "{node}-ipmi", user: slurm, password_file: ipmi.password}}'
WAKE = 'how: {wake_on_lan: {mac: {n1: "52:54:00:00:00:01", n2: "52-54-00-00-00-0A"}, broadcast: 10.0.0.255}}'
OWN = "how: {command: {suspend: /opt/site/off, resume: /opt/site/on}}"
PASSWORD = "open-sesame"


def planned(key: str, **facts: object) -> PlanInput:
    return replace(prepared_input(HOSTS + (f"power: {{{key}}}\n" if key else ""), **facts), power_password=PASSWORD)


def files(found: tuple[Resource, ...]) -> dict[str, list[object]]:
    owned = [one for one in found if one.kind == "owned-files"]
    return {file[0]: list(file[1:]) for one in owned for file in vars(one)["files"]}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (f"nodes: n9, {IPMI}", '"n9" is not a compute node'),
        (f"nodes: [], {IPMI}", "nodes"),
        (IPMI, "nodes"),
        ("nodes: n1", "how"),
        ("nodes: n1, how: {}", "exactly one of ipmi, wake_on_lan and command"),
        (f"nodes: n1, suspend_after: soon, {IPMI}", '"soon" is not a time such as 90s'),
        (f"nodes: n1, suspend_after: 0, {IPMI}", "suspend_after"),
        (f"nodes: n1, resume_timeout: 20h, {IPMI}", "resume_timeout"),
        (f"nodes: 'n[1-2]', keep: 2, {IPMI}", "none of the 2 would ever sleep"),
        (f"nodes: 'n[1-2]', keep: n3, {IPMI}", '"n3" is not in power.nodes'),
        (f"nodes: 'n[1-3]', {WAKE}", '"n3" has no MAC address'),
        ('nodes: n1, how: {wake_on_lan: {mac: {n1: "52:54"}}}', '"52:54" is not a MAC address'),
        ("nodes: n1, how: {ipmi: {address: bmc, password_file: x}}", '"bmc" is neither a pattern such as {node}-ipmi'),
        ('nodes: "n[1-2]", how: {ipmi: {address: {n1: 10.1.0.1}, password_file: x}}', '"n2" has no address here'),
        ('nodes: n1, how: {ipmi: {address: {n1: "-bad"}, password_file: x}}', "neither an IP address nor a DNS name"),
        ('nodes: n1, how: {ipmi: {address: "{node}-b", user: "-x", password_file: x}}', "not the name of a user"),
        ("nodes: n1, how: {command: {suspend: off.sh, resume: /opt/on}}", '"off.sh" is not an absolute path'),
    ],
)
def test_a_mistake_when_it_is_in_the_file_then_it_is_named_with_its_line(said: str, words: str) -> None:
    with pytest.raises(ClusterFileError) as refused:
        planned(said)
    assert words in str(refused.value)
    assert "cluster.yaml:5: power" in str(refused.value)


def test_keys_of_slurm_when_they_come_from_power_then_slurm_conf_may_not_set_them() -> None:
    with pytest.raises(ClusterFileError, match="slurmfab writes SuspendTime itself"):
        cluster(HOSTS + f"power: {{nodes: n1, {IPMI}}}\nslurm_conf: {{SuspendTime: 300}}\n")


def test_a_controller_that_computes_when_it_may_sleep_then_it_is_refused() -> None:
    text = HOSTS.replace('hosts: "n[1-4]"', 'hosts: "c1,n[1-4]"')
    with pytest.raises(ClusterFileError, match='"c1" is also the controller host, which must stay on'):
        cluster(text + f"power: {{nodes: c1, {IPMI}}}\n")


def test_ssh_of_slurm_when_it_is_off_then_wake_on_lan_is_refused() -> None:
    with pytest.raises(ClusterFileError, match="the slurm user switches nodes off by SSH"):
        cluster(HOSTS + f"slurm_ssh: none\npower: {{nodes: n1, {WAKE}}}\n")


def test_slurm_conf_when_nodes_may_sleep_then_it_names_the_programs_and_spares_all_others() -> None:
    text = planned(f"nodes: 'n[1-3]', keep: n3, suspend_timeout: 30, resume_timeout: 5m, {IPMI}").rendered["slurm.conf"]
    assert "SuspendProgram=/usr/local/lib/slurmfab/suspend\n" in text
    assert "SuspendExcNodes=n[3-4]\n" in text
    assert "ResumeTimeout=300\n" in text
    assert "SuspendTimeout=30\n" in text
    assert "Suspend" not in planned("").rendered["slurm.conf"]


def test_a_controller_when_nodes_sleep_by_ipmi_then_it_has_program_settings_and_a_secret_password() -> None:
    found = planned(f"nodes: 'n[1-2]', keep: 1, suspend_after: 10s, {IPMI}")
    there = files(power.resources(found, "c1"))
    settings = json.loads(str(there["/etc/slurmfab-power.json"][0]))
    assert (settings["after"], settings["keep"], settings["how"]) == (10, 1, "ipmi")
    assert settings["ipmi"]["address"] == {"n1": "n1-ipmi", "n2": "n2-ipmi"}
    assert there["/etc/slurmfab-power.password"] == [f"{PASSWORD}\n", 0o600, "slurm", "slurm", True]
    assert all(PASSWORD not in str(file[0]) for path, file in there.items() if "password" not in path)
    assert PASSWORD not in repr(found)
    assert "OnUnitInactiveSec=5s" in str(there["/etc/systemd/system/slurmfab-power.timer"][0])
    assert power.resources(found, "n1") == ()
    assert [one.id for one in power.timer(found, "c1")] == ["timer:slurmfab-power"]
    assert "ipmitool" in vars(packages.resources(found, "c1")[0])["names"]


def test_nodes_when_ssh_switches_them_off_then_they_alone_have_a_sudo_rule_for_that_alone() -> None:
    found = planned(f"nodes: 'n[1-2]', {WAKE}")
    rule = "slurm ALL=(root) NOPASSWD: /usr/bin/systemctl poweroff\n"
    assert files(power.resources(found, "n1")) == {
        "/etc/sudoers.d/slurmfab-power": [rule, 0o440, "root", "root", False]
    }
    assert power.resources(found, "n3") == ()
    assert "sudo" in vars(packages.resources(found, "n1")[0])["names"]
    settings = json.loads(str(files(power.resources(found, "c1"))["/etc/slurmfab-power.json"][0]))
    assert settings["wake_on_lan"]["mac"] == {"n1": "52:54:00:00:00:01", "n2": "52:54:00:00:00:0a"}
    assert settings["wake_on_lan"]["address"] == {"n1": "10.0.0.2", "n2": "10.0.0.3"}


def test_the_key_when_it_is_gone_then_timer_program_and_files_go_and_else_nothing_happens() -> None:
    left = planned("", owned=("power",), programs=("power", "suspend"), services={"slurmfab-power.timer": "active"})
    assert [one.kind for one in power.timer(left, "c1")] == ["service", "program", "owned-files"]
    assert power.resources(left, "c1") == ()
    assert power.timer(planned(""), "c1") == ()


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("sesame\n", 0o644, "chmod 600"),
        ("", 0o600, "is empty. It must hold the password, on one line"),
        ("a\nb\n", 0o600, "one line with a password"),
        ("x" * 21, 0o600, "1 to 20 bytes"),
    ],
)
def test_a_password_file_when_it_is_unfit_then_the_reason_is_told_without_the_password(
    tmp_path: Path, text: str, mode: int, words: str
) -> None:
    path = tmp_path / "ipmi.password"
    path.write_text(text)
    path.chmod(mode)
    known = cluster(HOSTS + f"power: {{nodes: n1, {IPMI}}}\n")
    with pytest.raises(InputError, match=words) as refused:
        passwords.power_password(known.power, tmp_path)
    assert "sesame" not in str(refused.value)


def test_a_password_file_when_it_is_fit_then_its_line_is_read_with_all_blanks(tmp_path: Path) -> None:
    path = tmp_path / "ipmi.password"
    known = cluster(HOSTS + f"power: {{nodes: n1, {IPMI}}}\n")
    for text in ("open sesame", " sesame "):
        path.write_text(f"{text}\n")
        path.chmod(0o600)
        assert passwords.power_password(known.power, tmp_path) == text
    assert passwords.power_password(cluster(HOSTS + f"power: {{nodes: n1, {OWN}}}\n").power, tmp_path) == ""
