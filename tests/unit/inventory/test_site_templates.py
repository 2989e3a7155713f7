"""Templates of the site's own: text from the cluster's values, and nothing else, from whoever wrote them."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory import file_contents, loading, site_templates
from slurmfab.cluster.inventory.site_templates import fill

VALUES = {"host": "n1", "hosts": ("n1", "n2"), "addresses": {"n1": "10.0.0.1"}}


def test_a_template_with_loops_filters_and_namespaces_is_filled_in() -> None:
    text = (
        "{% set n = namespace(found=0) %}{% for one in hosts if one != host %}{{ loop.index }} {{ one|upper }} "
        "{% set n.found = n.found + 1 %}{% else %}none{% endfor %}{{ n.found }} {{ addresses[host] }} {{ 6 * 7 }}\n"
    )
    assert fill(text, VALUES) == "1 N2 1 10.0.0.1 42\n"


@pytest.mark.parametrize(
    "text",
    [
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ ''['__class__'] }}",
        "{{ host|attr('__class__') }}",
        "{{ range.__globals__ }}",
        "{{ namespace.__init__.__globals__ }}",
        "{{ self.__init__.__globals__ }}",
        "{{ '{0.__class__}'.format(host) }}",
        "{{ lipsum() }}",
        "{{ hosts|map(attribute='__class__')|first }}",
        "{{ addresses.clear() }}",
        "{% include 'slurm.conf.j2' %}",
        "{% import '/etc/passwd' as x %}",
    ],
)
def test_a_template_that_leads_out_of_the_cluster_values_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(InputError, match=r"^line 2: "):
        fill(f"first\n{text}\n", VALUES)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{ (')' * 20000 ~ 'a)')|urlize }}", "No filter named 'urlize'"),
        ("{{ ('x' * 300000)|upper }}", "a text has more than 256 KiB"),
        ("{{ [[1], [2]]|sum }}", "unsupported operand"),
        ("{{ 'x' * 10**12 }}", "too much memory"),
        ("{{ 'x'|center(10**12) }}", "too much memory"),
        ("{{ '%1000000000000d' % 1 }}", "too much memory"),
        ("{{ ('x' * 200000)|replace('', 'y' * 200000) }}", "too much memory"),
        ("{{ 10 ** (10 ** 10) }}", "the number is too large"),
        ("{% for a in range(99999) %}{{ 'x' * 99 }}{% endfor %}", "more than 256 KiB"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "more than 0 s"),
        ("{% for a in range(9999) %}{{ range(99999)|sum }}{% endfor %}", "more than 0 s"),
        ("{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(50) }}", "more than 0 s"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested too deeply"),
        (f"{{{{ {'(' * 5000}1{')' * 5000} }}}}", "nested too deeply"),
    ],
)
def test_a_template_that_takes_much_time_memory_or_text_is_refused(
    monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    monkeypatch.setattr(site_templates, "MOST_SECONDS", 0.3)
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(InputError, match=words):
        fill(text, VALUES)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


CLUSTER = """\
cluster: tiny
controllers: [ctl]
nodes: [{hosts: n1}]
partitions: [{PartitionName: main, Nodes: n1}]
files:
  /etc/x: {template: true, SOURCE}
"""


@pytest.mark.parametrize("where", ["text", "source"])
def test_a_template_of_a_planted_cluster_file_when_its_text_is_asked_for_then_runs_no_code_and_is_named(
    tmp_path: Path, where: str
) -> None:
    code = f"{{{{ cycler.__init__.__globals__.os.popen('touch {tmp_path}/ran').read() }}}}"
    (tmp_path / "x.j2").write_text(code)
    source = f'text: "{code}"' if where == "text" else "source: x.j2"
    (tmp_path / "cluster.yaml").write_text(CLUSTER.replace("SOURCE", source))
    path = tmp_path / "cluster.yaml"
    with pytest.raises(InputError) as refused:
        file_contents.read_whole(loading.load(path).cluster, tmp_path)
    assert not (tmp_path / "ran").exists()
    place = "x.j2, line 1" if where == "source" else "line 1"
    assert str(refused.value).startswith(f"files./etc/x: {place}: access to attribute")
