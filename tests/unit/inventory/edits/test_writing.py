"""Cluster files: the one of first contact, and nodes added to what people wrote, with the smallest difference."""

from itertools import product

import pytest
from edited_files import LINE_ENDS, STYLES, difference

from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Ssh
from slurmfab.cluster.inventory.edits import writing

SETTINGS = {
    "as a group": {"Feature": "bigmem"},
    "as another group": {"Gres": "gpu:pascal:2"},
    "as no group": {"Gres": "gpu:a100:8", "Reason": "new board: #7"},
    "nothing said": {},
}


@pytest.mark.parametrize(("style", "ends", "settings"), list(product(STYLES, LINE_ENDS, SETTINGS)))
def test_with_nodes_when_the_file_is_written_in_any_style_then_only_the_new_nodes_differ(style, ends, settings):
    text = STYLES[style].replace("\n", LINE_ENDS[ends])
    old = loading.parse(text, "cluster.yaml")

    new_text = writing.with_nodes(
        text, ["cn17", "cn18"], {"cn17": "10.0.1.17", "cn18": "10.0.1.18"}, SETTINGS[settings]
    )

    new = loading.parse(new_text, "cluster.yaml")
    assert set(new.compute_nodes) - set(old.compute_nodes) == {"cn17", "cn18"}
    assert new.settings_of("cn17") == new.settings_of("cn18") == SETTINGS[settings]
    assert new.addresses == {**old.addresses, "cn17": "10.0.1.17", "cn18": "10.0.1.18"}
    assert {node: new.settings_of(node) for node in old.compute_nodes} == {
        node: old.settings_of(node) for node in old.compute_nodes
    }
    if ends == "dos":
        assert "\n" not in new_text.replace("\r\n", "")
    assert len([line for line in difference(text, new_text) if line.startswith("-")]) <= 2


@pytest.mark.parametrize(
    ("style", "hosts", "settings", "lines"),
    [
        (
            "block",
            ["cn17"],
            {"Feature": "bigmem"},
            ["+   cn17: 10.0.1.17", "-   hosts:   cn[05-16]", "+   hosts:   cn[05-17]"],
        ),
        (
            "block",
            ["cn17"],
            {"Gres": "gpu:pascal:2"},
            [
                "+   cn17: 10.0.1.17",
                "- - hosts: cn[01-04]     # the old ones",
                "+ - hosts: cn[01-04,17]     # the old ones",
            ],
        ),
        ("block", ["cn17"], {}, ["+   cn17: 10.0.1.17", "+ - hosts: cn17"]),
        (
            "lists",
            ["cn17"],
            {"Weight": "10"},
            ["+     cn17: 10.0.1.17", "+   -   hosts: cn17", "+       Weight: 10"],
        ),
        (
            "block",
            ["cn17"],
            {"Weight": "10"},
            ["+   cn17: 10.0.1.17", "+ - hosts: cn17", "+   Weight: 10"],
        ),
        (
            "lists",
            ["cn17"],
            {"Feature": "bigmem"},
            ["+     cn17: 10.0.1.17", "-         - cn[05-15]", "+         - cn[05-15,17]"],
        ),
        (
            "lists",
            ["cn17", "gpu01"],
            {"Gres": "gpu:pascal:2"},
            [
                "+     cn17: 10.0.1.17",
                '-   -   hosts: [cn01, "cn[02-04]"]  # a flow list',
                '+   -   hosts: [cn01, "cn[02-04,17]", gpu01]  # a flow list',
            ],
        ),
    ],
)
def test_with_nodes_when_a_group_fits_then_the_difference_is_what_a_person_would_write(style, hosts, settings, lines):
    new_text = writing.with_nodes(STYLES[style], hosts, {"cn17": "10.0.1.17"}, settings)

    assert difference(STYLES[style], new_text) == lines


@pytest.mark.parametrize(
    ("section", "result"),
    [
        ("", "cluster: x\naddresses:\n  n[3-4]: 10.0.0.[3-4]\n"),
        ("ssh: {user: admin}  # us\n", "cluster: x\nssh: {user: admin}  # us\naddresses:\n  n[3-4]: 10.0.0.[3-4]\n"),
        ("ssh:\n  user: admin\n", "cluster: x\nssh:\n  user: admin\naddresses:\n  n[3-4]: 10.0.0.[3-4]\n"),
        ("addresses:  # none yet\n", "cluster: x\naddresses:  # none yet\n  n[3-4]: 10.0.0.[3-4]\n"),
        ("addresses: {}\n", 'cluster: x\naddresses: {"n[3-4]": "10.0.0.[3-4]"}\n'),
        ("addresses: {n1: 10.0.0.1}\n", 'cluster: x\naddresses: {n1: 10.0.0.1, "n[3-4]": "10.0.0.[3-4]"}\n'),
        ("addresses: ~\n", "cluster: x\naddresses: \n  n[3-4]: 10.0.0.[3-4]\n"),
    ],
)
def test_with_nodes_when_addresses_are_new_then_they_get_a_place(section, result):
    rest = "controllers: [mn]\nnodes: [{hosts: n1}]\n"

    new_text = writing.with_nodes(
        f"cluster: x\n{section}{rest}", ["n3", "n4"], {"n3": "10.0.0.3", "n4": "10.0.0.4", "n9": "1.2.3.4"}
    )

    assert new_text == result + 'controllers: [mn]\nnodes: [{hosts: "n[1,3-4]"}]\n'


@pytest.mark.parametrize(
    ("section", "result"),
    [
        ("", 'cluster: x\nssh:\n  endpoints: {n2: "h:22"}\naddresses:\n  n2: 10.0.0.2\n'),
        ("ssh:\n", 'cluster: x\nssh:\n  endpoints: {n2: "h:22"}\naddresses:\n  n2: 10.0.0.2\n'),
        ("ssh: {port: 5}\n", 'cluster: x\nssh: {port: 5, endpoints: {n2: "h:22"}}\naddresses:\n  n2: 10.0.0.2\n'),
        ("ssh:\n  port: 5\n", 'cluster: x\nssh:\n  port: 5\n  endpoints: {n2: "h:22"}\naddresses:\n  n2: 10.0.0.2\n'),
        (
            "ssh:\n  endpoints:\n    n1: me@h  # why\n",
            "cluster: x\nssh:\n  endpoints:\n    n1: me@h  # why\n    n2: h:22\naddresses:\n  n2: 10.0.0.2\n",
        ),
    ],
)
def test_with_nodes_when_ssh_goes_elsewhere_then_endpoints_get_a_place(section, result):
    rest = "controllers: [mn]\nnodes: [{hosts: n1}]\n"

    new_text = writing.with_nodes(
        f"cluster: x\n{section}{rest}", ["n2"], {"n2": "10.0.0.2"}, endpoints={"n2": "h:22", "n1": "elsewhere"}
    )

    assert new_text.replace('"h:22"', "h:22") == result.replace('"h:22"', "h:22") + rest.replace("n1", '"n[1-2]"')


def test_with_nodes_when_an_address_is_taken_then_it_says_by_whom():
    with pytest.raises(ClusterFileError, match="is already the address of cn01"):
        writing.with_nodes(STYLES["block"], ["cn17"], {"cn17": "10.0.1.1"})


def test_with_nodes_when_like_a_node_then_they_join_its_group():
    text = "cluster: x\ncontrollers: mn\nnodes:\n  - hosts: a1\n    Weight: 1\n  - hosts: b1\n    Weight: 1\n"

    new_text = writing.with_nodes(text, ["c1"], {}, like="a1")

    assert difference(text, new_text) == ["-   - hosts: a1", "+   - hosts: a1,c1"]


def test_with_nodes_when_like_a_node_but_for_a_setting_then_they_make_a_group():
    text = "cluster: x\ncontrollers: mn\nnodes:\n  - hosts: a1\n    Weight: 1\n"

    new = loading.parse(writing.with_nodes(text, ["a2"], {}, {"Feature": "new"}, like="a1"), "x")

    assert new.settings_of("a2") == {"Weight": "1", "Feature": "new"}


def test_with_nodes_when_the_file_begins_with_a_byte_order_mark_then_it_stays():
    text = "\ufeffcluster: x\ncontrollers: mn\nnodes:\n  - hosts: a1\n"

    assert writing.with_nodes(text, ["a2"], {}) == text.replace("a1", "a[1-2]")


@pytest.mark.parametrize(
    ("hosts", "like", "reason"),
    [
        (["cn01", "cn17"], None, "cn01 is already in the cluster"),
        (["mn01"], None, "mn01 is already in the cluster"),
        (["cn17"], "cn99", "cn99 is not a compute node"),
        (["cn17"], "mn01", "mn01 is not a compute node"),
        ([], None, "No hosts to add"),
    ],
)
def test_with_nodes_when_the_hosts_are_no_new_ones_then_it_says_so(hosts, like, reason):
    with pytest.raises(InputError, match=reason):
        writing.with_nodes(STYLES["block"], hosts, {}, like=like)


def test_with_nodes_when_an_alias_would_change_two_places_then_it_refuses_and_says_what_to_do():
    text = "cluster: x\ncontrollers: mn\nslurm_conf: {MailProg: &name a1}\nnodes:\n  - hosts: *name\n"

    with pytest.raises(InputError, match="Add a2 to nodes"):
        writing.with_nodes(text, ["a2"], {})


ADDRESSES = {"mn01": "10.0.0.1", **{f"cn{number:02d}": f"10.0.1.{number}" for number in range(1, 17)}}


@pytest.mark.parametrize(
    ("ssh", "addresses"),
    [
        (Ssh(), {}),
        (Ssh(user="admin", key="~/.ssh/id_ed25519", port=2222, become="sudo", gateway="me@bastion:22"), ADDRESSES),
        (Ssh(endpoints={"mn01": "127.0.0.1:2201", "cn01": "root@127.0.0.1:2202"}), {}),
        (Ssh(), {"mn01": "fd83::1", "cn01": "fd83::2", "cn02": "node-2.example.org"}),
    ],
)
def test_new_text_when_read_again_then_it_is_the_same_cluster(ssh, addresses):
    compute = [f"cn{number:02d}" for number in range(1, 17)]

    cluster = loading.parse(writing.new_text("titanic", ssh, addresses, "mn01", compute), "cluster.yaml")

    assert (cluster.name, cluster.ssh, cluster.addresses) == ("titanic", ssh, addresses)
    assert (cluster.controllers, cluster.compute_nodes) == (("mn01",), tuple(compute))
    assert [partition.name for partition in cluster.partitions] == ["main"]


def test_new_text_when_addresses_zip_exactly_then_they_are_folded():
    text = writing.new_text("titanic", Ssh(), ADDRESSES, "mn01", [*ADDRESSES][1:])

    assert "  mn01: 10.0.0.1\n  cn[01-16]: 10.0.1.[1-16]\n" in text
    assert "  - hosts: cn[01-16]\n" in text


def test_new_text_when_nodes_are_added_then_its_comments_stay():
    text = writing.new_text("titanic", Ssh(), ADDRESSES, "mn01", [*ADDRESSES][1:])

    new_text = writing.with_nodes(text, ["cn17"], {"cn17": "10.0.1.17"})

    assert difference(text, new_text) == ["+   cn17: 10.0.1.17", "-   - hosts: cn[01-16]", "+   - hosts: cn[01-17]"]


def test_new_text_when_the_name_is_none_then_slurm_is_not_asked_first():
    with pytest.raises(ClusterFileError, match="not a valid cluster name"):
        writing.new_text("Titanic II", Ssh(), {}, "mn01", ["cn01"])


def test_write_when_the_file_is_there_then_its_mode_stays_and_no_other_file_does(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text("old")
    path.chmod(0o640)

    writing.write(path, "new\r\n")

    assert path.read_bytes() == b"new\r\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_write_when_the_file_is_a_link_then_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "real.yaml").write_text("old")
    (tmp_path / "cluster.yaml").symlink_to("real.yaml")

    writing.write(tmp_path / "cluster.yaml", "new")

    assert (tmp_path / "cluster.yaml").is_symlink()
    assert (tmp_path / "real.yaml").read_text() == "new"


def test_write_when_folders_are_missing_then_they_are_made(tmp_path):
    writing.write(tmp_path / "configs" / "cluster.yaml", "new")

    assert (tmp_path / "configs" / "cluster.yaml").stat().st_mode & 0o777 == 0o644
