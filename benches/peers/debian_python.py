"""A private CPython 3.13 from Debian's packages, for machines that have none.

The packages are unpacked below the cache directory, with their own C library, so nothing of the system changes and the
system's distribution and age don't matter. A wrapper script in the interpreter's place starts it with that C library.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import platform
import subprocess
import tarfile
import urllib.request
from pathlib import Path

from environments import InstallError, ensure, run, say

SUITE = "trixie"
VERSION = "3.13"
PACKAGES = [
    f"python{VERSION}-minimal",
    f"libpython{VERSION}-minimal",
    f"libpython{VERSION}-stdlib",
    "libbz2-1.0",
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    "libsqlite3-0",
    "libssl3t64",
    "libstdc++6",
    "libuuid1",
    "libzstd1",
    "zlib1g",
]
# machine: (Debian's name, multiarch triplet, loader)
ARCHITECTURES = {
    "x86_64": ("amd64", "x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
    "aarch64": ("arm64", "aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
}


WRAPPER = """#!/bin/sh
exec "{libraries}/{loader}" --argv0 "$0" --library-path "{libraries}" "{binary}" "$@"
"""


def fetch(cache: Path) -> Path:
    """The interpreter's path; it is fetched if it isn't there yet."""
    if platform.system() != "Linux" or platform.machine() not in ARCHITECTURES:
        raise InstallError(f"Debian's packages don't fit {platform.system()} on {platform.machine()}")
    root = cache / f"python-{VERSION}"
    identity = {"suite": SUITE, "packages": PACKAGES, "machine": platform.machine(), "root": str(root)}
    ensure(root, identity, _make)
    return root / "usr" / "bin" / f"python{VERSION}"


def _make(root: Path) -> None:
    debian, triplet, loader = ARCHITECTURES[platform.machine()]
    say(f"fetching Python {VERSION} from Debian {SUITE} ({len(PACKAGES)} packages, into {root})")
    mirror = _mirror()
    index = _index(mirror, debian)
    for name in PACKAGES:
        if name not in index:
            raise InstallError(f"Debian {SUITE} has no package {name} for {debian}")
        filename, digest = index[name]
        _unpack(_download(f"{mirror}/{filename}", digest), root)

    libraries = root / "usr" / "lib" / triplet
    interpreter = root / "usr" / "bin" / f"python{VERSION}"
    binary = interpreter.rename(interpreter.with_name(f"python{VERSION}.binary"))
    # `--argv0` is what the interpreter takes for its own path: its library and virtual environments work as ever.
    interpreter.write_text(WRAPPER.format(libraries=libraries, loader=loader, binary=binary))
    interpreter.chmod(0o755)
    # Debian compiles bytecode when a package is configured; without it every start would be slower.
    run([interpreter, "-m", "compileall", "-q", root / "usr" / "lib" / f"python{VERSION}"], "compiling bytecode")
    run([interpreter, "-c", "import ctypes, hashlib, sqlite3, ssl, venv, zlib"], "trying the fetched Python")


def _mirror() -> str:
    """The mirror that this machine's apt uses."""
    command = ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"]
    try:
        sites = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError) as error:
        raise InstallError(f"apt names no mirror to fetch Debian's Python from: {error}") from error
    mirrors = [site for site in sites if not site.endswith("-security")]
    if not mirrors:
        raise InstallError("apt names no mirror to fetch Debian's Python from; install CPython 3.12 or newer")
    # apt checks signatures and can do without encryption; this script can't.
    return mirrors[0].rstrip("/").replace("http://", "https://", 1)


def _index(mirror: str, architecture: str) -> dict[str, tuple[str, str]]:
    """Package name → (path in the mirror, SHA-256)."""
    text = lzma.decompress(_download(f"{mirror}/dists/{SUITE}/main/binary-{architecture}/Packages.xz")).decode()
    index = {}
    for paragraph in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Package") in PACKAGES:
            index[fields["Package"]] = (fields["Filename"], fields["SHA256"])
    return index


def _download(url: str, digest: str | None = None) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=120) as response:
            data = response.read()
    except OSError as error:
        raise InstallError(f"could not fetch {url}: {error}") from error
    if digest is not None and hashlib.sha256(data).hexdigest() != digest:
        raise InstallError(f"{url} is not the file that Debian's index describes")
    return data


def _unpack(package: bytes, root: Path) -> None:
    """Unpack the data member of a .deb, an `ar` archive of tarballs."""
    offset = 8
    while offset < len(package):
        header = package[offset : offset + 60]
        name, size = header[:16].decode().strip().rstrip("/"), int(header[48:58])
        if name.startswith("data.tar"):
            with tarfile.open(fileobj=io.BytesIO(package[offset + 60 : offset + 60 + size])) as archive:
                members = [member for member in archive if not member.isdev()]
                # The `tar` filter refuses names that lead out of `root`; old Pythons lack it, the digest was checked.
                safety = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
                archive.extractall(root, members=members, **safety)
            return
        offset += 60 + size + size % 2
    raise InstallError("a Debian package without a data member")
