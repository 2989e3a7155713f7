"""YAML as cluster files have it: what is text and what is not, and what is refused, by libyaml and by Python alike."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from slurmfab.base.errors import ClusterFileError
from slurmfab.cluster.inventory import yaml_nodes
from slurmfab.cluster.inventory.edits import writing
from slurmfab.cluster.inventory.reading import read
from slurmfab.cluster.inventory.yaml_nodes import compose

SMALL = "cluster: x\ncontrollers: mn\nnodes:\n  - hosts: n[01-04]\n"
LOADERS = {"C": yaml.CSafeLoader, "Python": yaml.SafeLoader}


@pytest.fixture(params=LOADERS, autouse=True)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Every test runs with libyaml, and as where it is missing."""
    monkeypatch.setattr(yaml_nodes, "_LOADER", LOADERS[request.param])
    return request.param


def complaints(text: str) -> list[str]:
    """What is said of a text that cannot be read."""
    with pytest.raises(ClusterFileError) as caught:
        compose(text, "f")
    return [line.removeprefix("f:") for line in caught.value.complaints]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("no", "no"),
        ("Yes", "Yes"),
        ("on", "on"),
        ("y", "y"),
        ("010", "010"),
        ("0x12c", "0x12c"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("24.10", "24.10"),
        ("1e3", "1e3"),
        (".inf", ".inf"),
        ("2026-11-22", "2026-11-22"),
        ("=", "="),
        ("true", True),
        ("FALSE", False),
        ("tRue", "tRue"),
        ("'true'", "true"),
        ("~", None),
        ("Null", None),
        ("", None),
        ('""', ""),
        ("!!str no", "no"),
        ("!!str true", "true"),
        ("! null", "null"),
        ("!!int 010", "010"),
        ("!!bool true", True),
        (r'"a\tb\u00e9\/"', "a\tbé/"),
        ('"a\tb" # c\td', "a\tb"),
        ("x # y", "x"),
        ("x#y", "x#y"),
        ("|\n  a\n  b\n", "a\nb\n"),
        (">-\n  a\n  b\n", "a b"),
    ],
)
def test_a_scalar_when_read_then_is_what_it_looks_like(written: str, meant: object) -> None:
    document = read(f"a: {written}\n", "f")
    assert document.shape == {"a": meant}
    assert document.complaints == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\nb:\n\tc: 1\n", "3: this is not valid YAML: .*Indent with spaces, not with tabs"),
        ("a: 1\n\nb:\n  c: 1\n\td: 1\n", "5: this is not valid YAML: .*Indent with spaces, not with tabs"),
        ("a:\tb\n", "1: this is not valid YAML: .*not with tabs"),
        ("a: b\tc\n", "1: this is not valid YAML: .*not with tabs"),
        ("a: b\t# c\n", "1: this is not valid YAML: .*not with tabs"),
        ("a: [b,\tc]\n", "1: this is not valid YAML: .*not with tabs"),
        ("-\ta\n", "1: this is not valid YAML: .*not with tabs"),
        ("a: @x\n", "1: this is not valid YAML: .*A text that begins with @ needs quotes"),
        ("a: 1\nb: `x`\n", "2: this is not valid YAML: .*A text that begins with ` needs quotes"),
        (
            "a: 1\nb: 'x\nc: 1\n",
            "2: this is not valid YAML: while scanning a quoted scalar, found unexpected end of stream",
        ),
        ("a: 1\nb: [x\n\n\n", r"2: this is not valid YAML: \[ has no \] that closes it"),
        ("a: 1\nb: {\n\n", "2: this is not valid YAML: while parsing a flow node"),
        ("a: 1\nb: [{c: n[1-2]}]\n", r"2: this is not valid YAML: .*Inside \{ \} and \[ \] a hostlist needs quotes"),
        ("a: 1\nb: [n[1-2], n3]\n", r"2: this is not valid YAML: .*Inside \{ \} and \[ \] a hostlist needs quotes"),
        ("a: 1\n---\nb: 1\n", "2: this is not valid YAML: a second document begins here"),
        ("a: 1\n...\n---\n", "3: this is not valid YAML: a second document begins here"),
        ("a: 1\n...\nb: 1\n", "3: this is not valid YAML: "),
        ("a: *b\n", r"1: this is not valid YAML: the alias \*b has no anchor &b before it"),
        ("a: *b\nb: &b 1\n", "1: this is not valid YAML: the alias "),
        ("%YAML 1.1\n---\na: no\n", r"1: the file is read as YAML 1\.2\. Delete the line %YAML 1\.1\."),
        ("%YAML 2.0\n---\na: no\n", "1: this is not valid YAML: "),
        ("a: !x!y 1\n", "1: this is not valid YAML: .*tag handle"),
        ("a: 1\r\nb: \x00\r\n", r"2: this is not valid YAML: it holds the invisible character U\+0000\. Delete it"),
        ("a: 1\rb: \x1b[0m\r", r"2: this is not valid YAML: .*U\+001B"),
        ("a: 1 # \x7f\n", r"1: this is not valid YAML: .*U\+007F"),
        ("a: 1\nb: x\x85c: 1\n", r"2: this is not valid YAML: .*U\+0085"),
        ("a: 1 # x\u2028b: 1\n", r"1: this is not valid YAML: .*U\+2028"),
        ("a: 1\nb: x\ufeff\n", r"2: this is not valid YAML: .*U\+FEFF"),
        ("a: \ud800\n", r"1: this is not valid YAML: .*U\+D800"),
        ("a: \uffff\n", r"1: this is not valid YAML: .*U\+FFFF"),
        ("", "1: the file is empty"),
        ("# later\n---\n# still\n", "1: the file is empty"),
        ("text\n", "1: the file must be a mapping"),
        ("\n- a\n", "2: the file must be a mapping"),
    ],
)
def test_a_text_when_it_is_no_yaml_of_ours_then_one_line_says_where_and_why(text: str, reason: str) -> None:
    found = complaints(text)
    assert len(found) == 1
    assert re.match(reason, found[0])
    assert "\n" not in found[0]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "a: !!python/object/apply:os.system [ls]\n",
            "the tag tag:yaml.org,2002:python/object/apply:os.system is not supported",
        ),
        ("a: !!python/name:os.system\n", "the tag tag:yaml.org,2002:python/name:os.system is not supported"),
        ("a: !vault |\n  x\n", "the tag !vault is not supported"),
        ("a: !!binary aGk=\n", "the tag tag:yaml.org,2002:binary is not supported"),
        ("a: !!set {b}\n", "the tag tag:yaml.org,2002:set is not supported"),
        ("!x a: 1\n", "the tag !x is not supported"),
        ("a: !!bool yes\n", "the tag tag:yaml.org,2002:bool does not fit"),
        ("a: !!null 0\n", "the tag tag:yaml.org,2002:null does not fit"),
        ("a: &b {<<: *b}\n", "merge keys are not supported"),
        ("? [a]\n: 1\n", "a key must be text"),
        ("? &a {*a : 1}\n: 1\n", "a key must be text"),
        ("a: 1\n'a': 2\n", "this key is already on line 1"),
        ("a: &b 1\n*b : 1\n? *b\n: 2\n", "this key is already on line 1"),
    ],
)
def test_a_key_or_value_when_yaml_gives_it_another_meaning_then_is_complained_of(text: str, complaint: str) -> None:
    found = [one.reason for one in read(text, "f").complaints]
    assert len(found) == 1
    assert found[0].startswith(complaint)


def test_an_alias_when_read_then_stands_for_what_its_anchor_names_last() -> None:
    text = "a: &x [1, &y {b: 2}]\nc: *x\nd: &x 3\ne: *x\nf: [*y, *y]\n"
    assert read(text, "f").shape == {
        "a": ["1", {"b": "2"}],
        "c": ["1", {"b": "2"}],
        "d": "3",
        "e": "3",
        "f": 2 * [{"b": "2"}],
    }


@pytest.mark.parametrize("text", ["a: &x [*x]\n", "a: &x [[*x, *x, *x, *x, *x, *x, *x, *x, *x, *x]]\n"])
def test_an_alias_when_inside_of_what_it_stands_for_then_each_is_complained_of_once(text: str) -> None:
    assert len(read(text, "f").complaints) == text.count("*x")


@pytest.mark.parametrize("wide", [2, 10, 1000])
def test_aliases_when_they_stand_for_very_many_values_then_are_refused_before_these_are_there(wide: int) -> None:
    lines = [f"a0: &a0 [{', '.join('x' * wide)}]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * wide)}]" for n in range(1, 30)]
    began = time.process_time()
    found = complaints("\n".join(lines))
    assert re.fullmatch(r"\d+: its aliases stand for more than 250000 values\.", found[0])
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "a: &h n[1-60000]\nb: [*h, *h]\nc:\n  - *h\n  - *h\n  - *h\n",
            "6: its aliases stand for more than 250000 values.",
        ),
        (
            f"a: &h {','.join('x' * 60_000)}\nb: [*h, *h, *h, *h, *h]\n",
            "2: its aliases stand for more than 250000 values.",
        ),
        ("a: &h [n[1-60000]]\n", "1: this is not valid YAML"),
        (
            f"a: &h {'x' * 500_000}\nb: [{', '.join(['*h'] * 501)}]\n",
            "2: its aliases stand for more than 250000 values.",
        ),
        (
            "a:\n" + "".join(f"  m{n}[1-60000]: {n}.0.[1-600].[1-100]\n" for n in range(99)),
            "10: the file has more than 1000000",
        ),
        (
            "a:\n" + "".join(f"  - n{n}[1-60000]\n" for n in range(99)),
            "18: the file has more than 1000000 values and hosts",
        ),
    ],
    ids=["ranges", "lists of names", "no yaml", "long texts", "zipped", "no alias at all"],
)
def test_hostlists_and_long_texts_when_a_short_file_stands_for_very_much_then_are_refused_before_that_is_there(
    text: str, complaint: str
) -> None:
    assert complaints(text)[0].startswith(complaint)


def test_a_large_cluster_when_listed_several_times_then_is_read() -> None:
    shape = read("nodes: &n n[1-65536]\na: *n\nb: *n\nc: [" + ", ".join(["'n[1-65536]'"] * 9) + "]\n", "f").shape
    assert shape["c"] == ["n[1-65536]"] * 9


@pytest.mark.parametrize(
    "text",
    [
        "a: " + 20_000 * "[",
        "a: " + 20_000 * "[" + 20_000 * "]",
        "a: " + 20_000 * "{b: ",
        "a:\n" + "- " * 20_000 + "x\n",
        "\n".join(" " * n + "a:" for n in range(500)),
    ],
    ids=["open lists", "lists", "open mappings", "dashes", "indents"],
)
def test_a_text_when_nested_deeply_then_is_refused_and_python_keeps_its_stack(text: str) -> None:
    assert re.fullmatch(r"\d+: it is nested more than 64 levels deep\.", complaints(text)[0])


def test_a_place_when_behind_letters_of_several_bytes_and_a_byte_order_mark_then_is_counted_in_letters() -> None:
    text = "\ufeff# Zoë 😀\r\ncluster: x # é\r\ncontrollers: [mn]\r\nnodes:\r\n  - hosts: n[1-2] # ü\r\n"
    assert writing.with_nodes(text, ["n3"], {}) == text.replace("n[1-2]", "n[1-3]")


def test_a_file_when_it_begins_with_a_byte_order_mark_then_keys_are_on_their_lines() -> None:
    assert read("\ufeffa: 1\nb: 2\n", "f").lines == {("a",): 1, ("b",): 2}


def texts() -> Iterator[str]:
    """Texts that are nearly YAML."""
    dice = random.Random(5)
    words = ["a", "b: ", "- ", "\n", "\n  ", "[", "]", "{", "}", ", ", ": ", "'", '"', " #", "&x ", "*x", "|", "é"]
    for _ in range(1000):
        yield "a: 1\nb: " + "".join(dice.choice(words) for _ in range(dice.randrange(1, 12)))


def places(text: str) -> object:
    """All nodes of a text with their places, or the line of the complaint."""

    def told(node: Any) -> object:
        mark = (node.start_mark.line, node.start_mark.index, node.end_mark.index)
        if isinstance(node.value, str):
            return node.tag, node.value, mark if node.value else ()  # what is empty is before a blank or behind it
        return [told(one) for pair in node.value for one in (pair if isinstance(pair, tuple) else (pair,))], mark

    try:
        return told(compose(text, "f"))
    except ClusterFileError:
        return None


def test_texts_when_read_by_libyaml_and_by_python_then_are_the_same_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    differing = []
    for text in texts():
        found = []
        for kind in LOADERS.values():
            monkeypatch.setattr(yaml_nodes, "_LOADER", kind)
            found.append(places(text))
        if found[0] != found[1]:
            differing.append((text, *found))
    assert differing == []
