"""Hostlists: what they expand to, how names fold, and what is refused with which words."""

import random
import re
from pathlib import Path

import pytest

from slurmfab import hostlist
from slurmfab.errors import HostlistError
from slurmfab.hostlist import Endpoint, expand, expand_endpoints, extend, fold, zip_fold, zip_hostlists


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ("n1",)),
        ("n3,n1", ("n3", "n1")),
        ("n[3,1]", ("n3", "n1")),
        ("n[01-03,07]", ("n01", "n02", "n03", "n07")),
        ("n[08-11]", ("n08", "n09", "n10", "n11")),
        ("n1,n01,n001", ("n1", "n01", "n001")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("n[1-2][3-4]", ("n13", "n14", "n23", "n24")),
        ("n[1-2].example.org", ("n1.example.org", "n2.example.org")),
        ("10.0.1.[9-10]", ("10.0.1.9", "10.0.1.10")),
        ("[1-2]", ("1", "2")),
        (" mn01 , cn01 ", ("mn01", "cn01")),
    ],
)
def test_expand_when_it_is_a_hostlist_then_names_come_in_the_users_order(text, names):
    assert expand(text) == names


def test_expand_when_a_range_outgrows_its_zeros_then_it_counts_on_as_slurm_does():
    names = expand("n[001-1000]")

    assert len(names) == 1000
    assert (names[0], names[998], names[999]) == ("n001", "n999", "n1000")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("n1,,n2", "nothing before or after a comma"),
        ("n1,", "nothing before or after a comma"),
        ("n1 n2", "write commas between hosts"),
        ("n[1", "a closing bracket is missing"),
        ("n1]", "brackets do not match"),
        ("n[[1]]", "brackets do not match"),
        ("n[]", "no number and no range"),
        ("n[a-b]", "no number and no range"),
        ("n[-3]", "no number and no range"),
        ("n[3-1]", "does not count upwards"),
        ("n[9-010]", "does not count upwards"),
        ("n[01-1]", "does not count upwards"),
        ("n[1-9/2]", "no steps (/)"),
        ("@all", "groups of hosts (@)"),
        ("n[1-3]!n2", "excluded with !"),
        ("n[1-3]&n2", "intersected with &"),
        ("n[1-3]^n2", "combined with ^"),
        ("n*", "no wildcards (*)"),
        ("-n1", "no host name"),
        ("n1;reboot", "no host name"),
        ("n$HOME", "no host name"),
        ("n1,n[1-2]", "names n1 more than once"),
        ("n[1-65537]", "at most 65536 nodes"),
        ("n[0-999][0-999]", "at most 65536 nodes"),
        ("n[1-99999999999999999999]", "no number and no range"),
        ("n\u0663", "no host name"),
        ("n[\u0661-\u0663]", "no number and no range"),
    ],
)
def test_expand_when_slurm_would_not_understand_then_it_says_why(text, reason):
    with pytest.raises(HostlistError) as caught:
        expand(text)

    assert reason in str(caught.value)
    assert f'"{text}"' in str(caught.value)


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [
        ("n1", (Endpoint("n1"),)),
        ("root@n[1-2]:2222", (Endpoint("n1", "root", 2222), Endpoint("n2", "root", 2222))),
        ("10.0.1.[1-2]", (Endpoint("10.0.1.1"), Endpoint("10.0.1.2"))),
        ("fe80::1", (Endpoint("fe80::1"),)),
        ("admin@fe80::[1-2]", (Endpoint("fe80::1", "admin"), Endpoint("fe80::2", "admin"))),
        ("[fe80::1]:2222,n2", (Endpoint("fe80::1", "", 2222), Endpoint("n2"))),
        ("root@[fe80::1]", (Endpoint("fe80::1", "root"),)),
    ],
)
def test_expand_endpoints_when_given_users_and_ports_then_they_are_told_apart(text, endpoints):
    assert expand_endpoints(text) == endpoints


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("me@corp@n1", '"me@corp" before the @ is no user name'),
        ("-oProxyCommand=x@n1", "is no user name"),
        ("@n1", "is no user name"),
        ("n1:", '"" is no port'),
        ("n1:0", '"0" is no port'),
        ("n1:65536", "a number from 1 to 65535"),
        ("n1:ssh", '"ssh" is no port'),
        ("fe80::zz", '"fe80::zz" is no IPv6 address'),
        ("[fe80::1:22", "a closing bracket is missing"),
        ("n1,root@n1", "names n1 more than once"),
        ("n[1-2]:[22-23]", "names n1, n2 more than once"),
    ],
)
def test_expand_endpoints_when_a_part_is_wrong_then_it_names_the_part(text, reason):
    with pytest.raises(HostlistError) as caught:
        expand_endpoints(text)

    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], ""),
        (["n2", "n1", "n3"], "n[1-3]"),
        (["n1", "n1"], "n1"),
        (["n1", "n3", "n5", "n7"], "n[1,3,5,7]"),
        (["n9", "n10"], "n[9-10]"),
        (["login", "n1"], "login,n1"),
        (["r1n1", "r1n2", "r2n1", "r2n2"], "r1n[1-2],r2n[1-2]"),
        (["n1-ib", "n2-ib"], "n1-ib,n2-ib"),
        (["10.0.0.1", "10.0.0.2", "10.0.1.1"], "10.0.0.[1-2],10.0.1.1"),
    ],
)
def test_fold_when_given_names_then_slurm_can_read_the_hostlist(names, folded):
    assert fold(names) == folded


def test_fold_when_zeros_differ_then_the_names_stay_distinct():
    assert set(expand(fold(["n1", "n01", "n001"]))) == {"n1", "n01", "n001"}


@pytest.mark.parametrize("seed", range(20))
def test_fold_when_expanded_again_then_no_name_is_lost_or_new(seed):
    dice = random.Random(seed)
    parts = ["cn", "gpu", "r1n", "rack2-", "10.0.", "x"]
    ends = [f"{number:0{width}d}" for number in range(120) for width in (1, 2, 3)]
    names = {
        f"{dice.choice(parts)}{dice.randrange(12)}{dice.choice(['', 'n', '-', '.'])}{dice.choice(ends)}"
        for _ in range(80)
    }

    assert sorted(expand(fold(names))) == sorted(names)


@pytest.mark.parametrize(
    ("entries", "names", "extended"),
    [
        (["cn[01-16]"], ["cn17"], ["cn[01-17]"]),
        (["cn[01-16]"], ["cn17", "gpu1"], ["cn[01-17]", "gpu1"]),
        (["mn01", "cn[01-04]"], ["cn05"], ["mn01", "cn[01-05]"]),
        (["cn01"], ["cn02"], ["cn[01-02]"]),
        (["cn[3,1]"], ["cn2"], ["cn[3,1]", "cn2"]),
        (["cn[01-02]"], ["cn04"], ["cn[01-02,04]"]),
    ],
)
def test_extend_when_names_continue_an_entry_then_only_that_entry_grows(entries, names, extended):
    assert extend(entries, names) == extended


def test_zip_hostlists_when_equally_long_then_they_pair_in_order():
    assert zip_hostlists("b,a", "10.0.0.[1-2]") == {"b": "10.0.0.1", "a": "10.0.0.2"}


@pytest.mark.parametrize(
    ("names", "addresses", "reason"),
    [
        ("n[1-3]", "10.0.0.[1-2]", '"n[1-3]" is 3 hosts, but "10.0.0.[1-2]" is 2 addresses'),
        ("n1", "10.0.0.[1-2]", "1 host,"),
        ("n[1-2]", "10.0.0.[1-2", "a closing bracket is missing"),
    ],
)
def test_zip_hostlists_when_they_do_not_fit_then_it_says_why(names, addresses, reason):
    with pytest.raises(HostlistError) as caught:
        zip_hostlists(names, addresses)

    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("pairs", "folded"),
    [
        ([("cn01", "10.0.1.1"), ("cn02", "10.0.1.2")], (("cn[01-02]", "10.0.1.[1-2]"),)),
        ([("cn01", "10.0.1.2"), ("cn02", "10.0.1.1")], (("cn01", "10.0.1.2"), ("cn02", "10.0.1.1"))),
        ([("mn01", "10.0.0.1"), ("cn01", "10.0.1.1")], (("mn01", "10.0.0.1"), ("cn01", "10.0.1.1"))),
        ([("cn1", "h.example"), ("cn2", "h2.example")], (("cn1", "h.example"), ("cn2", "h2.example"))),
    ],
)
def test_zip_fold_when_the_order_fits_then_it_folds_and_else_it_leaves_pairs(pairs, folded):
    assert zip_fold(pairs) == folded
    assert {name: place for names, places in folded for name, place in zip_hostlists(names, places).items()} == dict(
        pairs
    )


def test_clustershell_when_looked_for_then_only_this_module_knows_it():
    package = Path(hostlist.__file__).parent

    knowing = [path.name for path in package.rglob("*.py") if re.search("(import|from) ClusterShell", path.read_text())]

    assert knowing == ["hostlist.py"]
