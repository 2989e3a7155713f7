"""Where lab hosts get their packages from: this machine's sources, with another suite."""

import pytest

from slurmfab.base.errors import LabError
from slurmfab.lab.sources import (
    UBUNTU_KEYRING,
    UBUNTU_MIRROR,
    Source,
    carried_settings,
    for_suite,
    machine_sources,
    on_mirror,
    parse_sources,
    render,
    require_ubuntu,
)

MIRROR = "http://mirror.example/debian"
SECURITY = "http://mirror.example/debian-security"
KEYRING = "/usr/share/keyrings/archive.gpg"

DEB822 = f"""
# A comment
Types: deb deb-src
URIs: {MIRROR}
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: {KEYRING}

Types: deb
Enabled: no
URIs: http://off.example/
Suites: bookworm
Components: main

Types: deb
URIs: {SECURITY}
Suites: bookworm-security
Components: main
"""

ONE_LINE = f"""
# deb http://commented.example/ bookworm main
deb [arch=amd64 signed-by={KEYRING}] {MIRROR} bookworm main contrib # a comment
deb-src {MIRROR} bookworm main
deb cdrom:[Debian]/ bookworm main
deb {SECURITY} bookworm/updates main
"""


def no_file(path: str) -> str:
    raise AssertionError(f"nobody should read {path}")


def test_parse_when_deb822_then_enabled_binary_stanzas_are_found():
    assert parse_sources(DEB822) == (
        Source((MIRROR,), ("bookworm", "bookworm-updates"), ("main", "contrib"), KEYRING),
        Source((SECURITY,), ("bookworm-security",), ("main",)),
    )


def test_parse_when_the_key_is_inline_then_all_its_lines_are_kept():
    key = "\n -----BEGIN KEY-----\n .\n abc\n -----END KEY-----"
    text = f"Types: deb\nURIs: {MIRROR}\nSuites: trixie\nComponents: main\nSigned-By:{key}\n"
    (source,) = parse_sources(text)
    assert source.signed_by == key
    assert parse_sources(render([source])) == (source,)


def test_parse_when_one_line_style_then_options_and_comments_are_understood():
    first, _, security = parse_sources(ONE_LINE)
    assert first == Source((MIRROR,), ("bookworm",), ("main", "contrib"), KEYRING)
    assert security == Source((SECURITY,), ("bookworm/updates",), ("main",))


def test_for_suite_when_a_stable_release_then_updates_and_security_follow():
    found = for_suite(parse_sources(DEB822), "trixie", no_file)
    assert [source.suites for source in found] == [("trixie",), ("trixie-updates",), ("trixie-security",)]
    assert {source.components for source in found} == {("main",)}
    assert found[0].signed_by == KEYRING


def test_for_suite_when_sid_then_there_is_neither_updates_nor_security():
    (source,) = for_suite(parse_sources(DEB822), "sid", no_file)
    assert source == Source((MIRROR,), ("sid",), ("main",), KEYRING)


def test_for_suite_when_the_machine_is_ubuntu_then_no_mirror_is_taken():
    ubuntu = (Source(("http://mirror.example/ubuntu",), ("noble", "noble-updates"), ("main",)),)
    assert for_suite(ubuntu, "trixie", no_file) == ()


def test_for_suite_when_other_repositories_are_configured_then_they_are_left_out():
    other = (Source(("https://vendor.example",), ("nodistro",), ("main",)),)
    found = for_suite((*other, *parse_sources(DEB822)), "bookworm", no_file)
    assert {uri for source in found for uri in source.uris} == {MIRROR, SECURITY}


def test_for_suite_when_the_address_is_a_mirror_list_then_its_addresses_are_used():
    listed = (Source(("mirror+file:/etc/apt/mirrors/debian.list",), ("bookworm",), ("main",)),)
    files = {"/etc/apt/mirrors/debian.list": f"# ours\n{MIRROR}\tpriority:1\n\n"}
    assert for_suite(listed, "trixie", files.__getitem__) == (Source((MIRROR,), ("trixie",), ("main",)),)


def test_for_suite_when_only_a_cdrom_is_configured_then_no_mirror_is_taken():
    assert for_suite((Source(("cdrom:[Debian]/",), ("bookworm",), ("main",)),), "bookworm", no_file) == ()


def test_carried_settings_when_dumped_then_proxies_go_along_and_programs_of_this_machine_do_not():
    dump = "\n".join(
        [
            'Acquire::http::Proxy "http://proxy.example:3128";',
            'Acquire::https::Proxy::mirror.example "DIRECT";',
            'Acquire::http::Proxy-Auto-Detect "/usr/local/bin/find-proxy";',
            'Acquire::Retries "3";',
            'Acquire::http "";',
            'APT::Architecture "amd64";',
        ]
    )
    assert carried_settings(dump) == (
        'Acquire::http::Proxy "http://proxy.example:3128";',
        'Acquire::https::Proxy::mirror.example "DIRECT";',
        'Acquire::Retries "3";',
    )


UBUNTU_DEB822 = """
# As the installer of Ubuntu 24.04 writes it.
Types: deb
URIs: http://de.mirror.example/ubuntu/
Suites: noble noble-updates noble-backports
Components: main restricted universe multiverse
Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg

Types: deb
URIs: http://security.mirror.example/ubuntu/
Suites: noble-security
Components: main restricted universe multiverse
Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg
"""

UBUNTU_ONE_LINE = """
# As Ubuntu 22.04 has it, on a machine with ARM processors.
deb http://ports.mirror.example/ubuntu-ports jammy main restricted
# deb-src http://ports.mirror.example/ubuntu-ports jammy main restricted
deb http://ports.mirror.example/ubuntu-ports jammy-updates main restricted
deb http://ports.mirror.example/ubuntu-ports jammy universe
deb http://ports.mirror.example/ubuntu-ports jammy-backports main restricted universe multiverse
deb http://ports.mirror.example/ubuntu-ports jammy-security main restricted
"""


def test_for_suite_when_the_machine_is_ubuntu_then_its_mirrors_serve_another_ubuntu_with_universe():
    found = for_suite(parse_sources(UBUNTU_DEB822), "resolute", no_file)
    assert [(source.uris, source.suites) for source in found] == [
        (("http://de.mirror.example/ubuntu/",), ("resolute",)),
        (("http://de.mirror.example/ubuntu/",), ("resolute-updates",)),
        (("http://security.mirror.example/ubuntu/",), ("resolute-security",)),
    ]
    assert {source.components for source in found} == {("main", "universe")}
    assert {source.signed_by for source in found} == {UBUNTU_KEYRING}


def test_for_suite_when_an_older_ubuntu_has_its_sources_in_lines_then_they_are_understood():
    found = for_suite(parse_sources(UBUNTU_ONE_LINE), "noble", no_file)
    assert [source.suites for source in found] == [("noble",), ("noble-updates",), ("noble-security",)]
    assert {source.uris for source in found} == {("http://ports.mirror.example/ubuntu-ports",)}


def test_for_suite_when_the_machine_is_debian_then_it_has_no_mirror_of_ubuntu():
    assert for_suite(parse_sources(DEB822), "noble", no_file) == ()


def test_machine_sources_when_a_mirror_of_ubuntu_is_named_then_all_pockets_come_from_it(monkeypatch):
    monkeypatch.setattr("pathlib.Path.is_file", lambda path: str(path) == UBUNTU_KEYRING)
    assert machine_sources("noble", {UBUNTU_MIRROR: "http://mirror.example/ubuntu"}) == (
        Source(
            ("http://mirror.example/ubuntu",),
            ("noble", "noble-updates", "noble-security"),
            ("main", "universe"),
            UBUNTU_KEYRING,
        ),
    )


def test_ubuntu_when_there_is_no_mirror_or_no_key_then_the_refusal_says_what_to_set():
    with pytest.raises(LabError, match="SLURMFAB_UBUNTU_MIRROR=http://MIRROR/ubuntu") as refused:
        require_ubuntu("noble", (), lambda _: True)
    assert "no packages for noble" in str(refused.value)
    with pytest.raises(LabError, match="apt-get install ubuntu-keyring"):
        require_ubuntu("noble", on_mirror("http://mirror.example/ubuntu", "noble"), lambda _: False)
    require_ubuntu("noble", for_suite(parse_sources(UBUNTU_ONE_LINE), "noble", no_file), lambda _: False)
