"""Hostlists: what they expand to, how names fold, and what is refused with which words."""

import random

import pytest

from slurmfab.base.errors import HostlistError
from slurmfab.base.hostlist import (
    Endpoint,
    count_names,
    expand,
    expand_endpoints,
    expand_files,
    extend,
    fold,
    fold_in_order,
    natural,
    zip_fold,
    zip_hostlists,
)


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
        ("n1,,n2", "a name is missing before or after a comma"),
        ("n1,", "a name is missing before or after a comma"),
        ("n1 n2", "separate hosts by commas"),
        ("n[1", "a closing bracket is missing"),
        ("n1]", "brackets do not match"),
        ("n[[1]]", "brackets do not match"),
        ("n[]", "neither a number nor a range"),
        ("n[a-b]", "neither a number nor a range"),
        ("n[-3]", "neither a number nor a range"),
        ("n[3-1]", "does not count up"),
        ("n[9-010]", "does not count up"),
        ("n[01-1]", "does not count up"),
        ("n[1-9/2]", "no steps (/)"),
        ("@all", "host groups (@)"),
        ("n[1-3]!n2", "excluded with !"),
        ("n[1-3]&n2", "intersected with &"),
        ("n[1-3]^n2", "combined with ^"),
        ("n*", "wildcards (*) are not supported"),
        ("-n1", "is not a host name"),
        ("n1;reboot", "is not a host name"),
        ("n$HOME", "is not a host name"),
        ("n1,n[1-2]", "names n1 more than once"),
        ("n[1-65537]", "at most 65536 nodes"),
        ("n[1-65536,70000]", "at most 65536 nodes"),
        ("n[0-999][0-999]", "at most 65536 nodes"),
        ("n[1-99999999999999999999]", "neither a number nor a range"),
        ("n\u0663", "is not a host name"),
        ("n[\u0661-\u0663]", "neither a number nor a range"),
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
        ("fe80::1%eth0", (Endpoint("fe80::1%eth0"),)),
        ("root@[fe80::1%eth0.7]:2222", (Endpoint("fe80::1%eth0.7", "root", 2222),)),
        ("[fd83::11],[fd83::12]:22", (Endpoint("fd83::11"), Endpoint("fd83::12", "", 22))),
    ],
)
def test_expand_endpoints_when_given_users_and_ports_then_they_are_told_apart(text, endpoints):
    assert expand_endpoints(text) == endpoints


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("me@corp@n1", '"me@corp" before the @ is not a user name'),
        ("-oProxyCommand=x@n1", "is not a user name"),
        ("@n1", "is not a user name"),
        ("n1:", '"" is not a port'),
        ("n1:0", '"0" is not a port'),
        ("n1:65536", "a number from 1 to 65535"),
        ("n1:ssh", '"ssh" is not a port'),
        ("fe80::zz", '"fe80::zz" is not an IPv6 address'),
        ("[fd83::zz]:22", '"[fd83::zz]" is not an IPv6 address in brackets such as [fd83::11]:22'),
        ("fd83::11,FD83:0::11", "names fd83::11 more than once"),
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
        ("n[1-3]", "10.0.0.[1-2]", '"n[1-3]" has 3 hosts, but "10.0.0.[1-2]" has 2 addresses'),
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


# Names, and what `scontrol show hostlist` of Slurm 22.05 makes of them.
IN_ORDER = [
    (["n1"], "n1"),
    (["n1", "n2", "n10", "n9"], "n[1-2,10,9]"),
    (["n9", "n10", "n11"], "n[9-11]"),
    (["n08", "n09", "n10"], "n[08-10]"),
    (["n01", "n02", "n99", "n100"], "n[01-02,99-100]"),
    (["n98", "n99", "n100", "n101"], "n[98-101]"),
    (["n099", "n100"], "n[099-100]"),
    (["n9", "n010"], "n[9,010]"),
    (["n1", "n01", "n001", "n2", "n02"], "n[1,01,001,2,02]"),
    (["n3", "n1", "n2"], "n[3,1-2]"),
    (["n3", "n2", "n1"], "n[3,2,1]"),
    (["a1", "b1", "a2"], "a1,b1,a2"),
    (["a1b1", "a1b2", "a2b1", "a2b2"], "a1b[1-2],a2b[1-2]"),
    (["r2n1", "r2n2", "r10n1", "r1n1"], "r2n[1-2],r10n1,r1n1"),
    (["n1-ib", "n2-ib"], "n1-ib,n2-ib"),
    (["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
    (["gate", "gate1"], "gate,gate1"),
    (["gate", "gate1", "gate2", "gate"], "gate,gate[1-2],gate"),
]


@pytest.mark.parametrize(("names", "folded"), IN_ORDER)
def test_fold_in_order_when_given_names_then_writes_what_slurm_writes(names, folded):
    assert fold_in_order(names) == folded


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], ""),
        (["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia3"], "/dev/nvidia[0-1,3]"),
        (["fd00::9", "fd00::a", "fd00::10"], "fd00::9,fd00::a,fd00::10"),
        (["x12345678901", "x12345678902"], "x12[345678901-345678902]"),
        (["10.0.0.9", "10.0.0.9", "10.0.0.10"], "10.0.0.[9,9-10]"),
    ],
)
def test_fold_in_order_when_names_are_odd_then_none_is_lost(names, folded):
    assert fold_in_order(names) == folded


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["r10n1", "r2n1", "r2n2", "r1n1"], "r1n1,r2n[1-2],r10n1"),
        ([f"n{number:02}" for number in range(101)], "n[00-100]"),
        (["n02", "n2", "n01", "n1"], "n[1-2,01-02]"),
        (["x12345678901", "x12345678902"], "x12[345678901-345678902]"),
        (["a1b1", "a2b1", "a1b2", "a2b2"], "a1b[1-2],a2b[1-2]"),
    ],
)
def test_fold_when_names_have_several_numbers_or_widths_then_they_are_in_the_order_of_the_numbers(names, folded):
    assert fold(names) == folded
    assert sorted(expand(folded)) == sorted(names)


def test_natural_when_names_are_sorted_by_it_then_each_number_counts_as_one():
    names = ["r10n01x", "r2", "r10n1", "r1n10", "r1n2"]

    assert sorted(names, key=natural) == ["r1n2", "r1n10", "r2", "r10n1", "r10n01x"]


@pytest.mark.parametrize(
    ("files", "each"),
    [
        ("", ()),
        ("/dev/nvidia0", ("/dev/nvidia0",)),
        ("/dev/nvidia[0-1,3]", ("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia3")),
        ("/dev/nvidia3,/dev/nvidia[0-1]", ("/dev/nvidia3", "/dev/nvidia0", "/dev/nvidia1")),
        ("/dev/dri/renderD[128-129]", ("/dev/dri/renderD128", "/dev/dri/renderD129")),
        ("/dev/a[08-10], /dev/b", ("/dev/a08", "/dev/a09", "/dev/a10", "/dev/b")),
        ("/dev/nvidia[0-", ("/dev/nvidia[0-",)),
        ("/dev/nvidia[a-b]", ("/dev/nvidia[a-b]",)),
    ],
)
def test_expand_files_when_given_a_file_of_gres_conf_then_it_stands_for_these_paths(files, each):
    assert expand_files(files) == each


def some_names(dice):
    """Names with runs, gaps, several widths and several numbers, each once."""
    stems = dice.sample(["cn", "gpu", "r1n", "r2n", "r10n", "10.0.0.", "x-", "n1-", "rack1-2.", "n99999999"], 3)
    names = []
    for _ in range(dice.randrange(1, 8)):
        stem, width, low = dice.choice(stems), dice.choice([1, 1, 2, 3, 4]), dice.choice([0, 1, 7, 8, 9, 95, 99, 998])
        names += [f"{stem}{number:0{width}d}" for number in range(low, low + dice.randrange(1, 12))]
        names += dice.choice([[], ["login"], ["n1-ib", "n2-ib"]])
    if dice.random() < 0.3:
        dice.shuffle(names)
    return list(dict.fromkeys(names))


@pytest.mark.parametrize("seed", range(10))
def test_names_when_folded_and_expanded_then_are_the_same_in_the_same_order(seed):
    dice = random.Random(seed)
    for _ in range(100):
        names = some_names(dice)
        assert list(expand(fold_in_order(names))) == names
        assert sorted(expand(fold(names))) == sorted(names)
        assert fold(reversed(names)) == fold(names)
        assert len(fold(names)) <= len(",".join(names))


@pytest.mark.parametrize(
    "text",
    ["n1", "n[1-3]", "n1,n[001-1000],m[1-2,4]", "r[1-3]n[01-10]", "n[7]", " n7 , n[1-2] ", "n[1-65536]"],
)
def test_the_names_of_a_hostlist_are_counted_without_expanding_it(text: str) -> None:
    assert count_names(text) == len(expand(text))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 1), ("a,b", 2), ("n[1-2", 1), ("x[a-b],y", 1), ("n[1-999999999]", 65536), ("n[1-99999][1-99999],m", 65537),
        ("n[9-1]", 0), ("[], []", 0),
    ],
)  # fmt: skip
def test_other_texts_are_counted_quickly_too(text: str, count: int) -> None:
    assert count_names(text) == count


MUCH = ",".join(f"n{number}x[1-65536]" for number in range(200))


@pytest.mark.parametrize("read", [expand, expand_endpoints, lambda text: zip_hostlists("n[1-2]", text)])
def test_a_text_that_stands_for_very_much_in_all_its_parts_is_refused_before_it_takes_up_memory(read):
    with pytest.raises(HostlistError, match="is too long"):
        read(MUCH)
    with pytest.raises(HostlistError, match="is too long"):
        read(f"n{'x' * 1000}[1-65536]")


def test_device_files_that_are_very_many_in_all_stay_one_text():
    assert expand_files(MUCH) == (MUCH,)
