"""Stand-ins for enroot, pyxis and Apptainer in labs, as Debian packages; each one says that it is a stand-in.

None of the three is in all of Debian's suites. These read the same settings and take the same words of a user, and run
a command in a directory tree that they unpack from an image (squashfs), by means of unshare(1). The one for pyxis is a
plugin of Slurm's, which this machine's gcc translates for the Slurm of a suite.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

VERSION = "0.0~standin1"
"""The version of the packages; each real one is newer."""

SPANK_VERSIONS: Mapping[str, str] = {"bookworm": "0x160508", "trixie": "0x180b05"}
"""By suite, the version of Slurm that a plugin has to name: two hexadecimal digits for each part (slurm/spank.h)."""

ENTER = r"""
unpack() { unsquashfs -quiet -no-progress -no-xattrs -d "$2" "$1" >/dev/null; } # IMAGE DIRECTORY
enter() { # ROOT COMMAND...: runs it with ROOT as its root directory, as the same user
    root=$1
    shift
    for one in dev proc sys tmp; do mkdir -p "$root/$one"; done
    BINDS=$binds ROOT=$root USER_ID=$(id -u) GROUP_ID=$(id -g) exec unshare --user --map-root-user --mount sh -c '
        mount --rbind "$ROOT" "$ROOT"
        for one in dev proc sys tmp $BINDS; do mount --rbind "/$one" "$ROOT/$one" || exit 1; done
        exec unshare --user --map-user="$USER_ID" --map-group="$GROUP_ID" --root="$ROOT" --wd=/ "$@"' sh "$@"
}
"""
"""Functions of the shell that the stand-ins share."""

ENROOT = (
    r"""#!/bin/bash
# STAND-IN for enroot in a lab: runs commands in a directory tree, and fetches no images.
# It reads enroot.conf and its drop-ins as the real one does: what comes first counts.
for file in /etc/enroot/enroot.conf /etc/enroot/enroot.conf.d/*.conf; do
    [ -e "$file" ] || continue
    while IFS=$' \t=' read -r key value; do
        [[ $key =~ ^ENROOT_[A-Z_]+$ ]] || continue
        [ -n "${!key}" ] || export "$key=$(eval echo "$value")"
    done <"$file"
done
: "${ENROOT_DATA_PATH:=$HOME/.local/share/enroot}" "${ENROOT_CACHE_PATH:=$HOME/.cache/enroot}"
: "${ENROOT_RUNTIME_PATH:=/run/enroot}"
export ENROOT_DATA_PATH ENROOT_CACHE_PATH ENROOT_RUNTIME_PATH
(umask 077 && mkdir -p "$ENROOT_CACHE_PATH" "$ENROOT_DATA_PATH" "$ENROOT_RUNTIME_PATH") || exit 1
"""
    + ENTER
    + r"""
word=$1
shift
case $word in
    version) echo "0.0 (stand-in in a slurmfab lab)" ;;
    create)
        name=
        while [ $# -gt 1 ]; do case $1 in -n|--name) name=$2; shift 2 ;; *) shift ;; esac; done
        unpack "$1" "$ENROOT_DATA_PATH/$name" ;;
    list) ls "$ENROOT_DATA_PATH" ;;
    remove) [ "$1" != -f ] || shift; rm -rf "$ENROOT_DATA_PATH/${1:?}" ;;
    start)
        export ENROOT_ROOTFS=$ENROOT_DATA_PATH/$1
        if [ -f "$1" ]; then
            # As the real one: an image has a container of its own for as long as the command runs.
            ENROOT_ROOTFS=$ENROOT_DATA_PATH/pyxis_${SLURM_JOB_ID:-0}.$$
            unpack "$1" "$ENROOT_ROOTFS" || exit 1
        fi
        [ -d "$ENROOT_ROOTFS" ] || { echo "[ERROR] No such file or directory: $1" >&2; exit 1; }
        export ENROOT_ENVIRON=$ENROOT_RUNTIME_PATH/environment ENROOT_MOUNTS=$ENROOT_RUNTIME_PATH/fstab
        : >"$ENROOT_ENVIRON"
        for hook in /etc/enroot/hooks.d/*.sh; do [ ! -x "$hook" ] || "$hook" || exit 1; done
        image=$1
        shift
        (enter "$ENROOT_ROOTFS" "$@")
        code=$?
        [ ! -f "$image" ] || rm -rf "$ENROOT_ROOTFS"
        exit $code ;;
    *) echo "Stand-in for enroot in a slurmfab lab: create, list, remove, start and version." >&2; exit 1 ;;
esac
"""
)

PMI_HOOK = """#!/usr/bin/env bash
# STAND-IN for a hook of enroot's in a lab.
echo "SLURM_HOOK={}" >>"$ENROOT_ENVIRON"
"""

APPTAINER = (
    r"""#!/bin/bash
# STAND-IN for Apptainer in a lab: runs commands in a directory tree, or in one from an image, which it also fetches.
"""
    + ENTER
    + r"""
[ "$1" != --version ] || { echo "apptainer version 0.0 (stand-in in a slurmfab lab)"; exit; }
logins=$HOME/.apptainer-standin.json
case "$1 $2" in
    "registry login") # --username USER docker://PLACE; the real one asks for a password, too
        exec skopeo login --authfile "$logins" --username "$4" --password-stdin "${5#docker://}" ;;
    pull*) # FILE docker://IMAGE
        set -e
        place=$(mktemp -d)
        skopeo copy -q --authfile "$logins" "$3" "oci:$place/image:x"
        umoci unpack --rootless --image "$place/image:x" "$place/bundle"
        mksquashfs "$place/bundle/rootfs" "$2" -quiet -no-progress >/dev/null
        chmod -R u+rwX "$place" && exec rm -rf "$place" ;;
    exec*)
        shift
        for name in ${!APPTAINERENV_*}; do export "${name#APPTAINERENV_}=${!name}"; done ;;
    *) echo "Stand-in for Apptainer in a slurmfab lab: exec, pull, registry login and --version." >&2; exit 1 ;;
esac
binds=
while [ "${1#-}" != "$1" ]; do
    case $1 in --bind=*) binds="$binds ${1#--bind=/}" ;; esac
    shift
done
image=$1
shift
[ ! -d "$image" ] || enter "$image" "$@"
place=$(mktemp -d "${APPTAINER_TMPDIR:-${TMPDIR:-/tmp}}/standin.XXXXXX") && unpack "$image" "$place/root" || exit 255
(enter "$place/root" "$@")
code=$?
rm -rf "$place"
exit $code
"""
)

PYXIS_C = r"""
/* STAND-IN for pyxis in a lab: srun --container-image=IMAGE starts the task by the stand-in for enroot.
 * No header is needed: these are the declarations of slurm/spank.h, the same in Slurm 22.05 and 24.11. */
typedef struct spank_handle *spank_t;
struct spank_option {
    char *name, *arginfo, *usage;
    int has_arg, val;
    int (*callback)(int val, const char *argument, int is_remote);
};
enum { S_JOB_UID = 0, S_JOB_GID = 1, S_JOB_ARGV = 9, S_JOB_ENV = 10, EEXIST = 17 };
extern int spank_option_register(spank_t, struct spank_option *);
extern int spank_get_item(spank_t, int, ...);
extern int spank_remote(spank_t);
extern void slurm_error(const char *, ...);
extern int snprintf(char *, unsigned long, const char *, ...), strncmp(const char *, const char *, unsigned long);
extern int mkdir(const char *, unsigned), chown(const char *, unsigned, unsigned), *__errno_location(void);
extern int execve(const char *, char **, char **);

const char plugin_name[] = "pyxis";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM;
const unsigned int spank_plugin_version = 1;

static char image[4096], runtime[4096] = "/run/pyxis";

static int take(int val, const char *argument, int is_remote) {
    if (val == 1) snprintf(image, sizeof image, "%s", argument);
    return 0;
}

static struct spank_option options[] = {
    {"container-image", "IMAGE", "[stand-in for pyxis] run the task in this image", 1, 1, take},
    {"container-mount-home", 0, "[stand-in for pyxis] no effect", 0, 2, take},
    {"no-container-mount-home", 0, "[stand-in for pyxis] no effect", 0, 3, take},
};

int slurm_spank_init(spank_t spank, int count, char **words) {
    for (int number = 0; number < count; number++) {
        if (strncmp(words[number], "runtime_path=", 13)) {
            slurm_error("pyxis: unknown configuration option: %s", words[number]);
            return -1;
        }
        snprintf(runtime, sizeof runtime, "%s", words[number] + 13);
    }
    for (int number = 0; number < 3; number++)
        if (spank_option_register(spank, &options[number])) return -1;
    return 0;
}

/* As in pyxis: root makes the directory of the user in its own one, which is there before. */
int slurm_spank_init_post_opt(spank_t spank, int count, char **words) {
    unsigned uid, gid;
    char path[5000];
    if (!image[0] || spank_remote(spank) != 1) return 0;
    if (spank_get_item(spank, S_JOB_UID, &uid) || spank_get_item(spank, S_JOB_GID, &gid)) return -1;
    snprintf(path, sizeof path, "%s/%u", runtime, uid);
    if ((mkdir(path, 0700) && *__errno_location() != EEXIST) || chown(path, uid, gid)) {
        slurm_error("pyxis: couldn't mkdir %s", path);
        return -1;
    }
    return 0;
}

int slurm_spank_task_init(spank_t spank, int count, char **words) {
    static char *command[4096];
    char **task, **environment;
    int length, used = 0;
    if (!image[0]) return 0;
    if (spank_get_item(spank, S_JOB_ARGV, &length, &task) || spank_get_item(spank, S_JOB_ENV, &environment)) return -1;
    command[used++] = "/usr/bin/enroot";
    command[used++] = "start";
    command[used++] = image;
    for (int number = 0; number < length && used < 4095; number++) command[used++] = task[number];
    execve(command[0], command, environment);
    slurm_error("pyxis: cannot start /usr/bin/enroot");
    return -1;
}
"""

NEEDS = "bash, squashfs-tools, util-linux"

CONTROL = """\
Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: slurmfab lab <root@localhost>
Depends: {depends}
Description: STAND-IN for {name} in a slurmfab lab; it is not {name}
"""


def enroot(folder: Path) -> Path:
    """Write the package of the stand-in for enroot; returns its path."""
    files = {"usr/bin/enroot": ENROOT.encode(), "etc/enroot/enroot.conf": b"# STAND-IN\n"}
    for hook in ("50-slurm-pmi", "50-slurm-pytorch"):
        files[f"usr/share/enroot/hooks.d/{hook}.sh"] = PMI_HOOK.format(hook).encode()
    return package(folder, "enroot", files, depends=NEEDS)


def pyxis(folder: Path, suite: str) -> Path:
    """Write the package of the stand-in for pyxis for the Slurm of a suite; returns its path.

    Raises:
        FileNotFoundError: there is no gcc.
    """
    with tempfile.TemporaryDirectory() as place:
        source, target = Path(place, "pyxis.c"), Path(place, "pyxis.so")
        source.write_text(PYXIS_C)
        words = ("gcc", "-shared", "-fPIC", "-O1", "-nostdlib", "-fno-builtin", "-fno-stack-protector", "-w")
        _run(*words, f"-DSLURM={SPANK_VERSIONS[suite]}", "-o", str(target), str(source))
        plugin = f"usr/lib/{_run('gcc', '-print-multiarch')}/slurm/spank_pyxis.so"
        files = {plugin: target.read_bytes(), "usr/share/pyxis/pyxis.conf": f"required /{plugin}\n".encode()}
        return package(folder, "nvslurm-plugin-pyxis", files, depends="enroot")


def apptainer(folder: Path) -> Path:
    """Write the package of the stand-in for Apptainer; returns its path."""
    return package(folder, "apptainer", {"usr/bin/apptainer": APPTAINER.encode()}, depends=NEEDS)


def package(folder: Path, name: str, files: Mapping[str, bytes], depends: str) -> Path:
    """Write a Debian package.

    Args:
        folder: where to.
        files: the content of each by its path; those in a `bin` and scripts can be executed.
        depends: the packages that it needs.

    Returns:
        The path of the package.
    """
    architecture = _run("dpkg", "--print-architecture")
    target = folder / f"{name}_{VERSION}_{architecture}.deb"
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place, "tree")
        control = CONTROL.format(name=name, version=VERSION, architecture=architecture, depends=depends)
        for path, content in {"DEBIAN/control": control.encode(), **files}.items():
            file = tree / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(0o755 if "/bin/" in path or path.endswith(".sh") else 0o644)
        settings = [path for path in files if path.startswith("etc/")]
        (tree / "DEBIAN/conffiles").write_text("".join(f"/{path}\n" for path in settings))
        _run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(tree), str(target))
    return target


def _run(*words: str) -> str:
    """What a program prints."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
