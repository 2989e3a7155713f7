"""Packages of a bundle on hosts with dnf: chosen and downloaded on one host, and a source of dnf's on the others.

The index is the primary metadata of a repository, as createrepo_c writes it. A host that gets packages has, beside
their files in the bundle's directory (`bundle_place`):

    repodata/primary.xml, repodata/repomd.xml   the index, and what leads dnf to it
    bundle.repo                                 names this directory, and nothing else
    cache                                       what dnf keeps of it; its own cache stays unchanged

Nobody checks signatures a second time there: dnf did so where the packages were downloaded, and their digests are those
of the bundle.
"""

from __future__ import annotations

import os
from typing import Any, List, Mapping, Sequence, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.program_name import FAB
from slurmfab.on_hosts.agent.core.reading import names, os_release
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.dnf import dnf, rpm_database
from slurmfab.on_hosts.agent.dnf.dnf_offer import Sources, ask
from slurmfab.on_hosts.agent.packages import bundle_place
from slurmfab.on_hosts.agent.packages.bundle_staging import Needed

INDEXER = "createrepo_c"
SECONDS = 600.0

REPOMD = """\
<?xml version="1.0" encoding="UTF-8"?>
<repomd xmlns="http://linux.duke.edu/metadata/repo">
<revision>1</revision>
<data type="primary">
<checksum type="sha256">%s</checksum>
<location href="repodata/primary.xml"/>
</data>
</repomd>
"""
SOURCE = """\
[slurmfab-bundle]
name=a bundle of slurmfab
baseurl=file://%s
enabled=1
gpgcheck=0
module_hotfixes=1
"""
"""Packages of modules are taken without the metadata of these, which is for a choice that was made already."""

RELEASE = "import dnf.rpm; print(dnf.rpm.detect_releasever(%r) or '')"

NEEDED = r"""
base.conf.reposdir = [asked["place"]]
base.conf.cachedir = asked["place"] + "/cache"
if hasattr(base.conf, "optional_metadata_types"):
    base.conf.optional_metadata_types = []
try:
    base.read_all_repos()
    base.fill_sack()
    for text in asked["again"]:
        base.reinstall(text)
    for text in asked["wanted"]:
        base.install(text)
    base.resolve()
    found = list(base.transaction.install_set) if base.transaction else []
    answer["files"] = [[os.path.basename(one.location), one.downloadsize, one.installsize, one.chksum[1].hex()]
                       for one in found]
except dnf.exceptions.Error as error:
    answer["trouble"] = str(error)
print(json.dumps(answer))
"""
"""Asks dnf's Python which packages of the bundle it would install."""


def collected(context: Context, request: Mapping[str, Any], place: str) -> Tuple[str, str]:
    """Download packages with all that they need, as for a system without any; their directory, and the index.

    `request`: `names`, `slurm` and `version` as of `collect`; `repo` and `key`: the source of Slurm's packages, missing
    for the host's own; `lent`: the digest of packages that were sent here, and go afterwards. `place`: a directory for
    all that dnf writes. Raises ResourceFailed of dnf, or without createrepo_c.
    """
    if not any(os.path.exists(folder + "/" + INDEXER) for folder in ("/usr/bin", "/usr/local/bin")):
        text = "a bundle needs the program %s here, on the host that collects it: dnf install %s"
        raise ResourceFailed(text % (INDEXER, INDEXER))
    folder = place + "/rpms"
    os.mkdir(folder)
    try:
        with Sources(context, request) as sources:
            if request.get("lent"):
                add_lent(context, request["lent"], sources.place)
            sources.fetch(texts(context, request), folder, empty_system(context, place))
    finally:
        if request.get("lent"):
            bundle_place.remove(context)
    return folder, index_of(context, folder)


def add_lent(context: Context, digest: str, sources: str) -> None:
    """Make a source of packages that were sent here; nobody checks signatures, since the deployer has the files."""
    place = context.path(bundle_place.place_of(digest))
    context.must([INDEXER, "--quiet", "--no-database", place], seconds=SECONDS)
    with open(sources + "/slurmfab-lent.repo", "w", encoding="utf-8") as file:
        file.write(SOURCE % place)


def texts(context: Context, request: Mapping[str, Any]) -> List[str]:
    """The packages for dnf; Slurm's in the version that is here, or else in the wanted one."""
    own = set(request.get("slurm", ()))
    there = [version for _, version in rpm_database.rows(dnf.printed(context, sorted(own)))] if own else []
    version = min(there, default=request.get("version", ""))
    asked = [text.partition("=") for text in request["names"]]
    found = {name: version if name in own else of_site for name, _, of_site in asked}
    return ["%s-%s" % one if one[1] else one[0] for one in found.items()]


def empty_system(context: Context, place: str) -> List[str]:
    """Options with which dnf works for a system without packages, of this host's release; no source may be away."""
    release = context.must(["python3", "-I", "-c", RELEASE % context.root]).strip()
    module = os_release(context.root).get("PLATFORM_ID", "")
    return [
        "--installroot", place + "/root",
        *(["--releasever", release] if release else []),
        *(["--setopt=module_platform_id=" + module] if module else []),
        "--setopt=*.skip_if_unavailable=0",
    ]  # fmt: skip


def index_of(context: Context, folder: str) -> str:
    """The index of the packages in a directory."""
    context.must([INDEXER, "--quiet", "--no-database", "--general-compress-type=gz", folder], seconds=SECONDS)
    import gzip

    (found,) = (name for name in names(folder + "/repodata") if name.endswith("primary.xml.gz"))
    with gzip.open("%s/repodata/%s" % (folder, found), "rt", encoding="utf-8") as file:
        return file.read()


def begin(context: Context, bundle: str, index: str, wanted: Sequence[str]) -> List[Needed]:
    """Make a bundle's directory, a source of dnf's; what dnf would install of it.

    `wanted`: names of packages. Those that a killed dnf has left are installed anew. Raises ResourceFailed if the
    bundle lacks something.
    """
    import hashlib

    place = bundle_place.make_alone(context, bundle)
    bundle_place.make_readable(place)
    bundle_place.make_readable(place + "/repodata")
    digest = hashlib.sha256(index.encode()).hexdigest()
    texts = {"repodata/primary.xml": index, "repodata/repomd.xml": REPOMD % digest, "bundle.repo": SOURCE % place}
    for name, text in texts.items():
        replace.put(os.path.join(place, name), text.encode(), os.geteuid(), os.getegid(), 0o644)
    again = dnf.killed(context).packages
    there = dict(rpm_database.rows(dnf.printed(context, wanted)))
    asked = {"place": place, "again": again, "wanted": [name for name in wanted if name not in there]}
    try:
        answer = ask(context, NEEDED, asked)
    except ResourceFailed as error:
        text = "the packages cannot be installed from the bundle: %s. If the bundle is older than the host's packages, "
        raise ResourceFailed((text + "make a new one: %s bundle") % (str(error).rstrip(".?"), FAB)) from None
    return [Needed(*one) for one in answer["files"]]
