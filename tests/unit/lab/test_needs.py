"""What a machine lacks for a lab, told before anything is made."""

import json
from pathlib import Path
from types import SimpleNamespace

from slurmfab.lab import needs

CHAINS = {
    "nftables": [
        {"metainfo": {"json_schema_version": 1}},
        {"chain": {"family": "ip", "table": "filter", "name": "INPUT", "hook": "input", "policy": "drop"}},
        {"chain": {"family": "ip", "table": "filter", "name": "FORWARD", "hook": "forward", "policy": "drop"}},
        {"chain": {"family": "ip6", "table": "filter", "name": "FORWARD", "hook": "forward", "policy": "accept"}},
        {"chain": {"family": "ip", "table": "filter", "name": "DOCKER-USER"}},
    ]
}


def test_settings_when_they_are_too_low_and_cannot_be_written_then_the_command_is_told():
    (told,) = needs._settings({"net/ipv4/ip_forward": 1, "fs/inotify/max_user_instances": 8192})
    assert told.endswith("sysctl -w net.ipv4.ip_forward=1 fs.inotify.max_user_instances=8192.")


def test_settings_when_all_can_be_raised_then_nothing_is_told():
    assert [*needs._settings({})] == []


def test_control_groups_when_there_are_none_then_a_container_is_told_what_it_needs():
    (told,) = needs._control_groups(())
    assert "--cgroupns=private" in told


def test_control_groups_when_they_cannot_be_made_then_their_place_is_named():
    (told,) = needs._control_groups((Path("/nowhere/slurmfab-try"),))
    assert told.startswith("No control groups can be made in /nowhere. ")


def test_firewalls_when_one_drops_what_is_forwarded_then_its_chain_and_the_rules_are_told():
    (told,) = needs._firewalls(json.dumps(CHAINS))
    assert "chain ip filter FORWARD" in told
    assert "nft insert rule ip filter FORWARD iifname 'sf-*' accept" in told


def test_a_uid_of_a_user_of_this_machine_is_anothers_unless_that_user_called_sudo(monkeypatch):
    users = {1000: "ann"}
    monkeypatch.setattr(needs.pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name=users[uid]))
    monkeypatch.delenv("SUDO_UID", raising=False)
    assert (needs.of_others(1000), needs.of_others(1001)) == ("ann", "")
    monkeypatch.setenv("SUDO_UID", "1000")
    assert needs.of_others(1000) == ""
