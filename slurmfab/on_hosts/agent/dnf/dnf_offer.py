"""Which versions dnf would install of Slurm's packages here, from this host's sources or from another one.

dnf's own Python is asked, in a process of its own; it reads the sources' metadata, resolves, and changes nothing
but dnf's cache of these.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import Any, Dict, List, Mapping, Sequence

from slurmfab.on_hosts.agent.core.reading import names
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.dnf import dnf, dnf_errors, slurm_versions
from slurmfab.on_hosts.agent.dnf.slurm_repository import FOLDER, KEY, NAME, PATH
from slurmfab.on_hosts.agent.packages.slurm_release import fits

SECONDS = 600.0

HEAD = r"""
import json, os, sys, dnf
asked = json.load(sys.stdin)
base = dnf.Base()
base.conf.read()
if asked["root"] != "/":
    base.conf.installroot = asked["root"]
    base.conf.cachedir = asked["root"] + "/var/cache/dnf"
    base.conf.reposdir = [asked["root"] + "/etc/yum.repos.d"]
base.conf.install_weak_deps = False
for unknown in [name for name, value in base.conf.substitutions.items() if value is None]:
    del base.conf.substitutions[unknown]
answer = {}
def version(one):
    return "%s-%s" % (one.version, one.release)
"""
"""The beginning of a program that uses dnf's Python: `base`, and `asked`, which it reads from its input."""

PROGRAM = r"""
base.conf.reposdir = [asked["sources"]]
base.conf.disable_excludes = [asked["own"]]
if hasattr(base.conf, "optional_metadata_types"):
    base.conf.optional_metadata_types = ["filelists"]
try:
    base.read_all_repos()
    for repo in base.repos.iter_enabled():
        repo.metadata_expire = 0
    base.fill_sack()
    found = {}
    for package in sorted(base.sack.query().available().filter(name=asked["names"]), reverse=True):
        found.setdefault(package.name, []).append(version(package))
    answer["found"] = found
    for text in asked["wanted"]:
        base.install(text)
    if asked["wanted"]:
        base.resolve(allow_erasing=True)
    new = [one for one in base.transaction or () if one.action in dnf.transaction.FORWARD_ACTIONS]
    gone = [one.name for one in base.transaction or () if one.action == dnf.transaction.PKG_REMOVE]
    obsolete = [one.name for one in base.transaction or () if one.action == dnf.transaction.PKG_OBSOLETED]
    answer["new"] = {one.name: version(one) for one in new}
    answer["removed"] = sorted(set(gone + obsolete))
    answer["files"] = [path for one in new if one.name in asked["names"] for path in one.pkg.files]
except dnf.exceptions.Error as error:
    answer["trouble"] = str(error)
print(json.dumps(answer))
"""


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Which versions of Slurm's installed packages dnf would install; as `slurmfab.on_hosts.agent.upgrade.offer`.

    Of `request`, `repo`: the text of the source's file; missing for the host's own sources.
    """
    own = slurm_versions.versions(context, request["names"])
    answer: Dict[str, Any] = {"versions": {}, "others": {}, "removed": [], "offered": [], "plugins": [], "trouble": ""}
    if not own:
        return {**answer, "trouble": "none of Slurm's packages is installed here"}
    try:
        with Sources(context, request) as sources:
            found = sources.ask(sorted(own), ())["found"]
            answer["offered"] = list(dict.fromkeys(one for versions in found.values() for one in versions))[:20]
            chosen = choose(found, request.get("version", ""))
            if not chosen:
                return answer
            told = sources.ask(sorted(own), ["%s-%s" % pair for pair in sorted(chosen.items())])
    except ResourceFailed as error:
        return {**answer, "trouble": str(error)}
    new: Dict[str, str] = told["new"]
    plugin = re.compile(r"(?:%s)/([a-z][a-z0-9_]*)\.so" % "|".join(request["plugins"]))
    plugins = {match.group(1) for match in map(plugin.fullmatch, told["files"]) if match}
    return {
        **answer,
        "versions": {name: version for name, version in new.items() if name in own},
        "others": {name: version for name, version in new.items() if name not in own},
        "removed": told["removed"],
        "plugins": sorted(one for one in plugins if not one.startswith("lib")),
    }


def choose(found: Mapping[str, Sequence[str]], wanted: str) -> Dict[str, str]:
    """The newest of each package's versions, newest first, that is wanted: any, exact, or `26.05*`."""
    fitting = {name: [one for one in versions if fits(one, wanted)] for name, versions in found.items()}
    return {name: versions[0] for name, versions in fitting.items() if versions}


def ask(context: Context, program: str, asked: Mapping[str, Any]) -> Dict[str, Any]:
    """What a program answers that uses dnf's Python, and is asked on its input; ResourceFailed of dnf."""
    given = json.dumps({**asked, "root": os.path.abspath(context.root)}).encode()
    done = context.run(["python3", "-I", "-c", HEAD + program], stdin=given, seconds=SECONDS)
    try:
        answer: Dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise ResourceFailed(dnf_errors.explain((done.stdout + b"\n" + done.stderr).decode(errors="replace"))) from None
    if "trouble" in answer:
        raise ResourceFailed(dnf_errors.explain(answer["trouble"]))
    return answer


class Sources:
    """A directory with the files of the host's sources, that of Slurm's packages replaced by the wanted one."""

    def __init__(self, context: Context, request: Mapping[str, Any]) -> None:
        self.context, self.request, self.place = context, request, ""

    def __enter__(self) -> Sources:
        import tempfile

        self.place = tempfile.mkdtemp(prefix="slurmfab-")
        text = self.request.get("repo", "")
        for name in names(self.context.path(FOLDER)):
            if name.endswith(".repo") and not (text and name == os.path.basename(PATH)):
                shutil.copy(os.path.join(self.context.path(FOLDER), name), self.place)
        if text:
            key = self.place + "/key.asc"
            source = "%s/%s.repo" % (self.place, NAME)
            for path, content in ((source, text.replace(KEY, key)), (key, self.request["key"])):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.place)

    def ask(self, packages: List[str], wanted: Sequence[str]) -> Dict[str, Any]:
        """What dnf's Python answers about packages, and about the installation of some; ResourceFailed of dnf."""
        asked = {"sources": self.place, "own": NAME, "names": packages, "wanted": list(wanted)}
        return ask(self.context, PROGRAM, asked)

    def fetch(self, packages: Sequence[str], folder: str, more: Sequence[str] = ()) -> List[str]:
        """Download packages (`NAME-VERSION`) and what they need; the paths, ResourceFailed of dnf.

        `more`: further options of dnf.
        """
        options = [*more, "--setopt=reposdir=" + self.place, "--downloadonly", "--downloaddir=" + folder]
        code, output = dnf.dnf(self.context, [*options, "install", *packages])
        if code != 0:
            raise ResourceFailed(dnf_errors.explain(output))
        return [os.path.join(folder, name) for name in names(folder) if name.endswith(".rpm")]


def unpack(context: Context, packages: Sequence[str], source: Mapping[str, Any], place: str, root: str) -> None:
    """Download packages (`NAME=VERSION`) and unpack them below a root, without their scripts; ResourceFailed of dnf."""
    archives = place + "/archives"
    for folder in (archives, root):
        os.makedirs(folder, exist_ok=True)
    with Sources(context, source) as sources:
        files = sources.fetch([one.replace("=", "-", 1) for one in packages], archives)
    alone = ("--install", "--nodeps", "--noscripts", "--notriggers", "--nosignature")  # dnf has checked signatures
    context.must(["rpm", "--root", root, *alone, *files], seconds=SECONDS)
