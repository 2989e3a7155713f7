"""What the controller's apt has fetched, for the apt of hosts that reach no mirror (`packages: {through: controller}`).

On the controller, whose lists and packages its own apt fetches and verifies, in a directory that ends with the run:

{"op": "collect", "part": "lists"}   -> {"file": "KEY.gz"}, {"piece": ...} ..., {"collected": {"index": ""}}
{"op": "collect", "part": "packages", "names": ["NAME_VERSION_ARCHITECTURE.deb", ...], "most": BYTES}
    -> the same for these, or {"collected": {"index": "", "refused": BYTES}} if they have more
{"op": "collect", "part": "end"}

On the other hosts, KEY being the SHA-256 of the address at which apt looks for a file:

{"op": "bundle", "do": "begin-lists", "bundle": ..., "files": {"KEY.gz": SHA-256}}   -> {"bundle": {"lacking": [...]}}
{"op": "bundle", "do": "needed", "names": [...], "slurm": [...], "version": ...}  -> {"lacking": ["KEY NAME.deb", ...]}

There apt's sources, keys and settings stay as they are: in place of its program for http and https, it is given one
that takes files out of the directory (`METHOD`). So apt verifies signatures and digests as it does with a mirror.
"""

from __future__ import annotations

import atexit
import contextlib
import gzip
import hashlib
import os
import re
import shutil
from typing import Any, Dict, List, Mapping, Tuple
from urllib.parse import unquote

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.lifeline import Answers
from slurmfab.on_hosts.agent.core.reading import read_text
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.packages import apt, apt_errors, bundle_making, bundle_place, bundle_staging, dpkg_status

LISTS = ("-o", "Acquire::Languages=none", "-o", "Acquire::PDiffs=false")
AS_SIGNED = (*LISTS, "-o", "Acquire::GzipIndexes=false")  # with the digest that the Release file has of it
SIGNED_ALONE = tuple(
    word
    for name in (
        "APT::Get::AllowUnauthenticated",
        "APT::Get::Force-Yes",
        "Acquire::AllowInsecureRepositories",
        "Acquire::AllowWeakRepositories",
        "Acquire::AllowDowngradeToInsecureRepositories",
    )
    for word in ("-o", name + "=false")
)  # whatever the host's own settings say; those of a single source count more
ALLOWANCES = ("TRUSTED", "ALLOW_INSECURE", "ALLOW_WEAK", "ALLOW_DOWNGRADE_TO_INSECURE")
LOCAL = ("file:", "copy:", "cdrom:")  # how addresses begin at which the controller's files do not stand
SCHEMES = ("http", "https")
MIRROR_LIST = "mirror+file:"  # what stands before the path of a file with addresses (apt-transport-mirror(1))
TARGETS = "\t".join("$(%s)" % name for name in ("URI", "FILENAME", "BASE_URI", "METAKEY"))
RELEASES = ("InRelease", "Release", "Release.gpg")
LEVEL = 4  # of compression

METHOD = """\
#!/usr/bin/python3 -IS
# Gives apt the files that came from the controller; slurmfab removes it when it has installed the packages.
import gzip, hashlib, os, signal, sys, urllib.parse

signal.signal(signal.SIGINT, signal.SIG_DFL)
PLACE, MOST = os.path.dirname(os.path.abspath(sys.argv[0])), 1 << 32


def say(*lines):
    sys.stdout.write("\\n".join(lines) + "\\n\\n")
    sys.stdout.flush()


def pieces(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        yield from iter(lambda: file.read(1 << 20), b"")


def give(uri, target):
    path = os.path.join(PLACE, hashlib.sha256(urllib.parse.unquote(uri).encode()).hexdigest())
    path += "" if os.path.exists(path) else ".gz"
    if not os.path.exists(path):
        why = "404 It is not among what the controller has fetched"
        return say("400 URI Failure", "URI: " + uri, "Message: " + why, "FailReason: HttpError404")
    digest, size = hashlib.sha256(), 0
    with open(target, "wb") as out:
        for piece in pieces(path):
            size += out.write(piece)
            digest.update(piece)
            if size > MOST:
                return say("400 URI Failure", "URI: " + uri, "Message: it is too large")
    told = ("URI: " + uri, "Size: %d" % size)
    say("200 URI Start", *told)
    say("201 URI Done", *told, "Filename: " + target, "SHA256-Hash: " + digest.hexdigest())


say("100 Capabilities", "Version: 1.0", "Single-Instance: true")
message = []
for line in sys.stdin:
    if line.strip():
        message.append(line.rstrip("\\n"))
        continue
    if message and message[0].startswith("600 "):
        fields = dict(one.split(": ", 1) for one in message[1:] if ": " in one)
        give(fields["URI"], fields["Filename"])
    message = []
"""
"""The text of a program that speaks with apt as its methods do."""

HELD: List[Tuple[contextlib.ExitStack, str]] = []
"""The directory on the controller, between the requests of a run."""


def stream(request: Mapping[str, Any], context: Context, answers: Answers) -> None:
    """Do a part of it on the controller; ResourceFailed of apt, or Disconnected."""
    refused = 0
    if request["part"] == "lists":
        end()
        held = contextlib.ExitStack()
        HELD.append((held, held.enter_context(bundle_making.temporary_directory(context))))
        atexit.register(end)
        send_lists(context, HELD[0][1], answers)
    elif request["part"] == "packages":
        names = [bundle_place.checked(name) for name in request["names"]]
        refused = send_packages(context, HELD[0][1], names, int(request["most"]), answers)
    else:
        end()
    answers.send(collected={"index": "", **({"refused": refused} if refused else {})})


def end() -> None:
    """Remove the directory."""
    while HELD:
        HELD.pop()[0].close()


def send_lists(context: Context, place: str, answers: Answers) -> None:
    """Fetch the lists of all sources, and send them and what signs them."""
    own = [*bundle_making.options(place), *AS_SIGNED]
    code, output = apt.apt_get(context, [*own, "update"])
    if code != 0 or "\nErr:" in output:
        raise ResourceFailed(apt_errors.explain(output))
    listing = context.must(["apt-get", *own, "indextargets", "--format", TARGETS, "Created-By: Packages"])
    found: Dict[str, str] = {}
    for line in listing.splitlines():
        uri, path, base, key = [*line.split("\t"), "", "", ""][:4]
        found[uri] = path
        beside = path[: len(path) - len(key)]
        found.update((base + name, beside + name) for name in RELEASES)
    for uri, path in sorted(found.items()):
        address = plain(context, uri)
        if address and os.path.exists(path):
            packed = os.path.join(place, key_of(address) + ".gz")
            with open(path, "rb") as file, open(packed, "wb") as out, gzip.GzipFile("", "wb", LEVEL, out, 0) as into:
                shutil.copyfileobj(file, into)
            answers.check()
            bundle_making.send(packed, answers)
            os.unlink(packed)


def send_packages(context: Context, place: str, names: List[str], most: int, answers: Answers) -> int:
    """Fetch packages, and send them; those that no source has, as a host that lies may ask for, are left out.

    Returns their bytes if they are more than `most`; then none is fetched. Raises ResourceFailed without room for them.
    """
    folder = os.path.join(place, "archives")
    own = [*bundle_making.options(place), *AS_SIGNED]
    argv = ["apt-cache", *own, "show", "--", *map(asked, names)]
    shown = context.run(argv, seconds=apt.INSTALL_SECONDS, env=apt.ENVIRONMENT).stdout.decode(errors="replace")
    sizes = sizes_in(shown)
    there = [name for name in names if asked(name) in sizes]
    total = sum(sizes[asked(name)] for name in there)
    if total > most:
        return total
    disk = os.statvfs(folder)
    if total + bundle_staging.MARGIN > disk.f_bavail * disk.f_frsize:
        raise ResourceFailed("the disk is full: they need %d MiB below %s" % (total >> 20, folder))
    if there:
        words = ["-q", *own, "download", "--", *map(asked, there)]
        fetch = ["sh", "-c", 'cd "$0" && exec apt-get "$@"', folder, *words]
        context.run(fetch, seconds=apt.INSTALL_SECONDS, env=apt.ENVIRONMENT)
        answers.check()
    for name in there:
        if os.path.exists(os.path.join(folder, name)):
            bundle_making.send(os.path.join(folder, name), answers)
            os.unlink(os.path.join(folder, name))
    return 0


def sizes_in(shown: str) -> Dict[str, int]:
    """The bytes of the packages that apt-cache has shown, by what it is asked for as by `asked`.

    >>> sizes_in("Package: slurmd\\nArchitecture: amd64\\nVersion: 24.11.5-4\\nSize: 9\\n\\nPackage: x\\n")
    {'slurmd:amd64=24.11.5-4': 9}
    """
    found = {}
    for paragraph in shown.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if re.match(r"[A-Z][\w-]*: ", line))
        if fields.keys() >= {"Package", "Version", "Architecture"} and fields.get("Size", "").isdecimal():
            of = "" if fields["Architecture"] == "all" else ":" + fields["Architecture"]
            found["%s%s=%s" % (fields["Package"], of, fields["Version"])] = int(fields["Size"])
    return found


def asked(name: str) -> str:
    """A package for apt-get by the name of its file.

    >>> asked("slurmd_24.11.5-4_amd64.deb"), asked("adduser_3.1_all.deb"), asked("man_2%3a1.2_arm64.deb")
    ('slurmd:amd64=24.11.5-4', 'adduser=3.1', 'man:arm64=2:1.2')
    """
    package, version, architecture = name[: -len(".deb")].split("_")
    exact = re.sub("%([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), version)
    return "%s%s=%s" % (package, "" if architecture == "all" else ":" + architecture, exact)


def key_of(address: str) -> str:
    """The name of the file that apt looks for at an address; apt tells its programs the same one with fewer escapes.

    >>> key_of("http://mirror.example/a_1%2bb.deb") == key_of("http://mirror.example/a_1+b.deb")
    True
    """
    return hashlib.sha256(unquote(address).encode()).hexdigest()


def plain(context: Context, uri: str) -> str:
    """The address with http or https, of a list of mirrors in a file the first one; empty where there is none."""
    if uri.startswith(MIRROR_LIST):
        path = uri[len(MIRROR_LIST) :]
        while path not in ("", "/") and not os.path.isfile(context.path(path)):
            path = os.path.dirname(path)
        lines = (line.partition("#")[0].split() for line in read_text(context.path(path)).splitlines() if path)
        first = next((words[0] for words in lines if words), "")
        uri = first.rstrip("/") + uri[len(MIRROR_LIST) + len(path) :] if first else ""
    return uri if uri.partition("://")[0] in SCHEMES else ""


def begin(context: Context, bundle: str, files: Mapping[str, str]) -> List[str]:
    """Make the directory on a host that is to get files; which of the lists it lacks."""
    refuse_unsigned(context)
    place = bundle_place.make_beside(context, bundle)
    replace.put(os.path.join(place, "method"), METHOD.encode(), os.geteuid(), os.getegid(), 0o755)
    return [name for name in files if not bundle_staging.has(place, bundle_place.lent(name), files[name])]


def refuse_unsigned(context: Context) -> None:
    """Refuse sources whose packages no signature vouches for: with the controller between, nothing else does.

    apt is asked, which alone reads its files as it does. It tells of sources that have lists, and calls one trusted if
    these are signed or need not be; so it is shown empty ones that nobody signed. Raises ResourceFailed with the places
    of such sources, and of those of which apt tells nothing.
    """
    with bundle_making.temporary_directory(context) as place:
        ask = ["apt-get", *bundle_making.options(place), *AS_SIGNED, *SIGNED_ALONE, "indextargets", "--format"]
        there = context.must([*ask, "$(SOURCESENTRY)\t$(URI)\t$(FILENAME)\t$(METAKEY)", "--no-release-info"])
        sources = [line.split("\t") for line in there.splitlines()]
        for _, _, path, key in sources:
            for one, text in ((path, ""), (path[: len(path) - len(key)] + "Release", "Origin: nobody\n")):
                with open(one, "w") as file:
                    file.write(text)
        found = context.must([*ask, "\t".join("$(%s)" % name for name in ("SOURCESENTRY", "URI", *ALLOWANCES))])
    answers = [line.split("\t") for line in found.splitlines()]
    # An option that a source does not have stays as it was asked for.
    signed = {(entry, uri) for entry, uri, trusted, *allowed in answers if trusted == "no" and "true" not in allowed}
    unsigned = [entry for entry, uri, *_ in sources if (entry, uri) not in signed and not uri.startswith(LOCAL)]
    if unsigned:
        raise ResourceFailed(
            "%s: apt takes packages from there without a signature, and the controller could send others. Sign them, "
            "or install this host without packages: {through: controller}" % ", ".join(dict.fromkeys(unsigned))
        )


def options(context: Context, bundle: str) -> List[str]:
    """The options with which apt takes all files out of the directory of a bundle."""
    method = context.path(bundle_place.place_of(bundle)) + "/method"
    methods = ["Dir::Bin::Methods::%s=%s" % (scheme, method) for scheme in SCHEMES]
    return [*LISTS, *SIGNED_ALONE, *(word for one in (*methods, "Acquire::By-Hash=no") for word in ("-o", one))]


def needed(context: Context, request: Mapping[str, Any]) -> List[str]:
    """The packages that apt would fetch to install what is wanted, each with its key; ResourceFailed of apt."""
    from slurmfab.on_hosts.agent.packages import slurm_release

    complaints = apt.update(context)
    names = [text.partition("=")[0] for text in request["names"]]
    states = dpkg_status.states(dpkg_status.read(context.root), names)
    missing = [text for text in request["names"] if states.get(text.partition("=")[0]) != "installed"]
    missing += [text for text in request["names"] if "=" in text and text not in missing]
    try:
        exact = bundle_place.as_files(context, request["files"], missing)
        exact = slurm_release.exactly(context, exact, request["slurm"], request["version"])
        found = bundle_staging.files_for(context, (), exact)
    except ResourceFailed as error:
        why = apt_errors.explain(complaints) if complaints else "as the controller's package sources have them"
        raise ResourceFailed("%s (%s)" % (str(error).rstrip(".?"), why)) from None
    place = context.path(bundle_place.place_of(request["bundle"]))
    pairs = [(plain(context, one.uri), one) for one in found]
    lacking = [(key_of(uri), one) for uri, one in pairs if uri and not os.path.exists(os.path.join(place, key_of(uri)))]
    bundle_staging.refuse_without_room(context, sum(one.size for _, one in lacking), 0)
    return ["%s %s" % (key, one.name) for key, one in lacking]
