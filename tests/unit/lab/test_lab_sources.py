"""Where lab hosts get their packages from: this machine's sources, with another suite."""

from slurmfab.lab.sources import Source, carried_settings, for_suite, parse_sources, render

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
