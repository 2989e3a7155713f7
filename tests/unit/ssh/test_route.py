"""The way to a host: the cluster file's word first, then ssh_config's, then the usual."""

from __future__ import annotations

import getpass
from pathlib import Path

import paramiko
import pytest
from support import cluster

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.cluster import Ssh
from slurmfab.hosts.route import Route, gateway_for, read_config, to_host, to_hosts

NOTHING = paramiko.SSHConfig()


def config(text: str) -> paramiko.SSHConfig:
    return paramiko.SSHConfig.from_text(text)


def written(folder: Path, **files: str) -> Path:
    """A folder with these files; the first is the one to read."""
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder / next(iter(files))


def test_without_any_word_it_is_the_name_the_usual_port_and_ones_own_login() -> None:
    assert to_host("n1", Ssh(), config=NOTHING) == Route("n1", "n1", getpass.getuser())


def test_ssh_config_says_what_the_cluster_file_does_not() -> None:
    said = config("Host n1\n  HostName 10.9.9.9\n  User bob\n  Port 2222\n")
    assert to_host("n1", Ssh(), config=said) == Route("n1", "10.9.9.9", "bob", 2222)
    assert to_host("n2", Ssh(), config=said).port == 22


def test_the_cluster_file_wins_over_ssh_config() -> None:
    said = config("Host n1\n  HostName 10.9.9.9\n  User bob\n  Port 2222\n  ProxyJump bastion\n")
    ssh = Ssh(user="admin", port=2200, become="sudo", gateway="jump")
    way = to_host("n1", ssh, "10.0.0.1", said)
    assert (way.address, way.user, way.port, way.become) == ("10.0.0.1", "admin", 2200, True)
    assert way.gateway is not None
    assert way.gateway.host == "jump"


def test_ssh_config_of_the_address_counts_where_that_of_the_name_says_nothing(tmp_path: Path) -> None:
    for name in ("of_name", "of_address"):
        (tmp_path / name).touch()
    said = config(
        f"Host n1\n  User bob\n  IdentityFile {tmp_path}/of_name\n"
        f"Host 10.0.0.*\n  User eve\n  Port 2222\n  IdentityFile {tmp_path}/of_address\n"
    )
    named, other = to_host("n1", Ssh(), "10.0.0.1", said), to_host("n2", Ssh(), "10.0.0.2", said)
    assert (named.user, named.port, named.keys) == ("bob", 2222, (f"{tmp_path}/of_name", f"{tmp_path}/of_address"))
    assert (other.user, other.port, other.keys) == ("eve", 2222, (f"{tmp_path}/of_address",))
    assert to_host("n1", Ssh(), "10.9.9.9", said).port == 22


def test_an_endpoint_wins_over_everything_for_its_host_alone() -> None:
    ssh = Ssh(user="admin", port=2200, endpoints={"n1": "eve@127.0.0.1:2201"})
    assert to_host("n1", ssh, "10.0.0.1", NOTHING) == Route("n1", "127.0.0.1", "eve", 2201)
    assert to_host("n2", ssh, "10.0.0.2", NOTHING) == Route("n2", "10.0.0.2", "admin", 2200)


def test_an_endpoint_can_be_a_name_that_ssh_config_gives_another_address() -> None:
    said = config("Host n1\n  HostName 10.9.9.9\n")
    ssh = Ssh(user="admin", endpoints={"n1": "n1", "n2": "10.8.8.8"})
    assert to_host("n1", ssh, "10.0.0.1", said).address == "10.9.9.9"
    assert to_host("n2", ssh, "10.0.0.2", said).address == "10.8.8.8"


def test_an_endpoint_that_ssh_config_knows_has_its_user_port_and_jump_host() -> None:
    known = config(
        "Host head\n  HostName 10.9.9.9\n  User eve\n  Port 2200\n  ProxyJump bastion\nHost ctl\n  Port 22\n"
    )
    way = to_host("n1", Ssh(endpoints={"n1": "head"}), "10.0.0.1", known)
    assert (way.address, way.user, way.port, way.gateway and way.gateway.address) == (
        "10.9.9.9",
        "eve",
        2200,
        "bastion",
    )
    assert to_host("ctl", Ssh(endpoints={"ctl": "head"}), "", known).port == 22, "what it says of the name comes first"


def test_what_an_endpoint_leaves_out_is_said_by_the_section() -> None:
    way = to_host("n1", Ssh(user="admin", port=2200, endpoints={"n1": "127.0.0.1"}), "10.0.0.1", NOTHING)
    assert way == Route("n1", "127.0.0.1", "admin", 2200)


def test_root_needs_no_sudo() -> None:
    assert to_host("n1", Ssh(user="root", become="sudo"), config=NOTHING).become is False
    assert to_host("n1", Ssh(user="admin"), config=NOTHING).become is False


def test_the_cluster_files_key_is_the_one_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    way = to_host("n1", Ssh(key="~/key"), config=NOTHING)
    assert (way.key, way.keys) == (str(tmp_path / "key"), ())


def test_of_ssh_configs_keys_those_that_exist_are_tried(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    said = config(f"IdentityFile {tmp_path}/there\nIdentityFile {tmp_path}/missing\n")
    way = to_host("n1", Ssh(), config=said)
    assert (way.key, way.keys) == ("", (str(tmp_path / "there"),))


def test_a_gateway_has_a_user_a_port_and_ssh_configs_word() -> None:
    said = config("Host bastion\n  HostName 192.0.2.1\n  User bob\n  Port 2022\n")
    plain = to_host("n1", Ssh(user="admin", gateway="bastion"), config=said).gateway
    assert plain == Route("bastion", "192.0.2.1", "bob", 2022)
    full = to_host("n1", Ssh(user="admin", gateway="eve@bastion:2200"), config=said).gateway
    assert full == Route("bastion", "192.0.2.1", "eve", 2200)
    assert to_host("n1", Ssh(user="admin", gateway="other"), config=said).gateway == Route("other", "other", "admin")


def test_a_proxy_jump_of_ssh_config_is_a_gateway_and_none_is_none() -> None:
    said = config("Host n1\n  ProxyJump none\nHost n*\n  ProxyJump bob@bastion:2022\n")
    assert to_host("n1", Ssh(), config=said).gateway is None
    assert to_host("n2", Ssh(), config=said).gateway == Route("bastion", "bastion", "bob", 2022)


def test_of_several_jump_hosts_the_first_is_the_nearest_to_us() -> None:
    last = gateway_for("near,far", Ssh(user="admin"), NOTHING)
    assert last == Route("far", "far", "admin", gateway=Route("near", "near", "admin"))


def test_a_jump_host_may_have_a_jump_host_of_its_own_in_ssh_config() -> None:
    said = config("Host far\n  ProxyJump near\n")
    last = gateway_for("far", Ssh(user="admin"), said)
    assert last is not None
    assert last.gateway == Route("near", "near", "admin")


def test_the_gateway_itself_is_reached_without_a_gateway() -> None:
    ways = to_hosts(
        cluster("cluster: lab\nssh: {user: admin, gateway: c1}\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n"), NOTHING
    )
    assert ways["c1"].gateway is None
    assert ways["n1"].gateway == Route("c1", "c1", "admin")


def test_the_same_address_with_another_port_is_another_host() -> None:
    ssh = Ssh(user="admin", gateway="127.0.0.1:2200", endpoints={"n1": "127.0.0.1:2201"})
    assert to_host("n1", ssh, config=NOTHING).gateway == Route("127.0.0.1", "127.0.0.1", "admin", 2200)


def test_jump_hosts_that_lead_in_a_circle_are_refused() -> None:
    with pytest.raises(InputError, match="form a loop"):
        to_host("n1", Ssh(), config=config("Host *\n  ProxyJump bastion\n"))


def test_a_gateway_that_is_several_hosts_is_refused() -> None:
    with pytest.raises(InputError, match="is not a jump host"):
        gateway_for("n[1-2]", Ssh(), NOTHING)


def test_a_port_that_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match="Port ssh"):
        to_host("n1", Ssh(), config=config("Port ssh\n"))


def test_included_files_count_where_they_are_included(tmp_path: Path) -> None:
    main = written(tmp_path, config="Include first.d/*.conf\nHost n1\n  User late\n")
    (tmp_path / "first.d").mkdir()
    written(
        tmp_path / "first.d", **{"10.conf": "Host n1\n  Port 1010\n", "20.conf": "Host n1\n  Port 2020\n  User early\n"}
    )
    assert read_config([main]).lookup("n1")["port"] == "1010"
    assert read_config([main]).lookup("n1")["user"] == "early"


def test_an_included_files_blocks_end_with_it(tmp_path: Path) -> None:
    main = written(tmp_path, config="Host *\n  Include inner\n  User admin\n", inner="Host other\n  Port 99\n")
    found = read_config([main])
    assert found.lookup("n1")["user"] == "admin"
    assert "port" not in found.lookup("n1")
    assert found.lookup("other")["port"] == "99"


def test_global_lines_behind_an_include_are_for_all_hosts(tmp_path: Path) -> None:
    main = written(tmp_path, config='Include="in ner"\nUser admin\n', **{"in ner": "Host other\n  Port 99\n"})
    assert read_config([main]).lookup("n1")["user"] == "admin"


def test_the_users_lines_win_over_the_systems_which_are_for_all_hosts(tmp_path: Path) -> None:
    own = written(tmp_path, own="Host n1\n  User bob\n")
    systems = written(tmp_path, systems="User carol\nPort 2222\n")
    found = read_config([own, systems])
    assert (found.lookup("n1")["user"], found.lookup("n1")["port"]) == ("bob", "2222")
    assert found.lookup("n2")["user"] == "carol"


def test_missing_files_and_includes_without_match_say_nothing(tmp_path: Path) -> None:
    main = written(tmp_path, config="Include nothing-here/*\n# Include comment\nUser bob\n")
    assert read_config([tmp_path / "missing", main]).lookup("n1")["user"] == "bob"


def test_files_that_include_each_other_come_to_an_end(tmp_path: Path) -> None:
    main = written(tmp_path, config="Include config\nUser bob\n")
    assert read_config([main]).lookup("n1")["user"] == "bob"


def test_an_ssh_config_that_cannot_be_understood_is_told_with_its_name(tmp_path: Path) -> None:
    main = written(tmp_path, config="Host\n???\n")
    with pytest.raises(InputError, match="config") as refused:
        read_config([main]).lookup("n1")
    assert str(main) in str(refused.value)


@pytest.mark.parametrize(
    ("said", "command"),
    [
        ("Host n1\n  ProxyCommand corkscrew proxy 8080 %h %p\n", "corkscrew proxy 8080 n1 22"),
        ("Host n1\n  ProxyCommand none\n", ""),
        ("Host n1\n  ProxyJump bastion\n  ProxyCommand corkscrew proxy 8080 %h %p\n", ""),
    ],
)
def test_a_proxy_command_stands_for_the_connection_unless_there_is_a_jump_host(said: str, command: str) -> None:
    assert to_host("n1", Ssh(), config=config(said)).proxy_command == command


def test_ssh_config_says_which_files_hold_host_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    said = config(
        "Host n1\n  HostKeyAlias cluster\n  UserKnownHostsFile ~/one '%d/t wo'\n  GlobalKnownHostsFile none\n"
        "  RevokedHostKeys /etc/ssh/revoked.%h\nHost n2\n  GlobalKnownHostsFile /etc/ours\n"
    )
    way = to_host("n1", Ssh(), config=said)
    assert way.key_alias == "cluster"
    assert way.known_hosts == ("~/one", "/home/ann/t wo")
    assert way.revoked_keys == ("/etc/ssh/revoked.n1",)
    other = to_host("n2", Ssh(gateway="n1"), config=said)
    assert other.known_hosts == ("~/.ssh/known_hosts", "~/.ssh/known_hosts2", "/etc/ours")
    assert other.revoked_keys == ()
    assert other.gateway is not None
    assert other.gateway.known_hosts == way.known_hosts
