# SPDX-License-Identifier: MIT
"""Makes a Debian package of a folder: python3 -m package.deb FOLDER VERSION ARCHITECTURE OUTPUT.

The folder holds what `make install` put below /usr.  DEBFULLNAME and DEBEMAIL name who packs, as
for Debian's own tools.
"""

from __future__ import annotations

import email.utils
import gzip
import hashlib
import os
import subprocess
import sys

from . import binaries, date, metadata

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

CONTROL = """\
Package: libzc
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {kib}
Depends: libc6 (>= {glibc}), python3 (>= 3.9)
Suggests: binutils
Section: utils
Priority: optional
{home}Description: memory placement and copy accounting for CUDA programs
 libzc is preloaded into a CUDA program that can't or should not be changed. It
 gives each allocation the kind of memory that a policy names (pinned, mapped,
 managed, virtual or shared with the host), and reports every byte that the
 program asked to copy, and what became of it.
 .
 The command zc runs programs under it, reads its logs and checks policies.
"""
COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: libzc

Files: *
Copyright: 2026 The libzc authors
License: Expat
{mit}

Files: third_party/uthash/*
Copyright: 2003-2021 Troy D. Hanson
License: BSD-1-Clause
{bsd}

Files: scripts/zclib/vendor/*
Copyright: 2022 Leon Sorokin
License: Expat
"""
CHANGELOG = """\
libzc ({version}) unstable; urgency=medium

  * Package of libzc {upstream}; its changes are in changelog.gz.

 -- {maintainer}  {date}
"""
# As dh_python3 writes them.
POSTINST = """\
#!/bin/sh
set -e
if command -v py3compile >/dev/null 2>&1; then
    py3compile -p libzc /usr/share/libzc
fi
"""
PRERM = """\
#!/bin/sh
set -e
if command -v py3clean >/dev/null 2>&1; then
    py3clean -p libzc
fi
"""
BINARIES = ("libzc.so", "zc-policy", "zc-views", "gather", "libcuda.so.1")
TRIGGERS = "activate-noawait ldconfig\n"
# The library is preloaded by its bare name and linked by nothing, so its name has no version; the
# package is its authors' own; and reports name the lines of the demo's program.
OVERRIDES = """\
libzc: shared-library-lacks-version
libzc: initial-upload-closes-no-bugs
libzc: unstripped-binary-or-object [usr/libexec/libzc/demo/gather]
"""


def main(root: str, upstream: str, architecture: str, out: str) -> None:
    version = upstream + "-1"
    maintainer = (f"{os.environ.get('DEBFULLNAME', 'The libzc authors')} "
                  f"<{os.environ.get('DEBEMAIL', 'libzc@noreply.invalid')}>")
    shipped = [os.path.join(root, name) for name in _files(root)
               if os.path.basename(name) in BINARIES]
    binaries.strip(shipped)
    for path in shipped:
        os.chmod(path, 0o644 if ".so" in path else 0o755)
    command = os.path.join(root, "usr/bin/zc")
    _write(command, _read(command).decode().replace("/usr/bin/env python3", "/usr/bin/python3", 1),
           0o755)
    for name in _files(root):
        if name.startswith("usr/share/man/"):
            _gzip(os.path.join(root, name + ".gz"), _read(os.path.join(root, name)))
            os.remove(os.path.join(root, name))
    modules = os.path.join(root, "usr/lib/python3/dist-packages")
    os.makedirs(modules)
    os.symlink("../../../share/libzc/libzc", os.path.join(modules, "libzc"))
    doc = os.path.join(root, "usr/share/doc/libzc")
    os.makedirs(doc)
    when = date.committed()
    _gzip(doc + "/changelog.gz", _read(os.path.join(TOP, "CHANGELOG.md")))
    _gzip(doc + "/changelog.Debian.gz", CHANGELOG.format(
        version=version, upstream=upstream, maintainer=maintainer,
        date=email.utils.formatdate(when, localtime=False)).encode())
    os.makedirs(os.path.join(root, "usr/share/lintian/overrides"))
    _write(os.path.join(root, "usr/share/lintian/overrides/libzc"), OVERRIDES)
    _write(doc + "/copyright", COPYRIGHT.format(
        mit=_field(_read(os.path.join(TOP, "LICENSE")).decode().partition("authors\n")[2]),
        bsd=_field(_read(os.path.join(TOP, "third_party/uthash/LICENSE")).decode()
                   .partition("reserved.\n")[2])))
    control = os.path.join(root, "DEBIAN")
    os.makedirs(control)
    sums = [f"{hashlib.md5(_read(os.path.join(root, name))).hexdigest()}  {name}\n"
            for name in sorted(_files(root))]
    size = sum(os.path.getsize(os.path.join(root, name)) for name in _files(root))
    url = metadata.project_url()
    _write(control + "/control", CONTROL.format(
        home=f"Homepage: {url}\n" if url else "", version=version,
        architecture=ARCHITECTURES[architecture], maintainer=maintainer,
        kib=size // 1024 + 1, glibc="%d.%d" % binaries.glibc(shipped)))
    _write(control + "/md5sums", "".join(sums))
    _write(control + "/triggers", TRIGGERS)
    _write(control + "/postinst", POSTINST, 0o755)
    _write(control + "/prerm", PRERM, 0o755)
    for folder, _, _ in os.walk(root):
        os.chmod(folder, 0o755)
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, f"libzc_{version}_{ARCHITECTURES[architecture]}.deb")
    # The same bytes whatever the date, and the number of processors, which xz's blocks depend on.
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(when), "DPKG_DEB_THREADS_MAX": "1"}
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root, path], check=True, env=env,
                   stdout=subprocess.DEVNULL)
    print(path)


def _field(text: str) -> str:
    """Text as a field of many lines has it."""
    return "\n".join(f" {line}" if line else " ." for line in text.strip().splitlines())


def _files(root: str) -> list[str]:
    return [os.path.relpath(os.path.join(folder, name), root)
            for folder, _, names in os.walk(root) for name in names]


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _write(path: str, text: str, mode: int = 0o644) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def _gzip(path: str, content: bytes) -> None:
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(content)
    os.chmod(path, 0o644)


if __name__ == "__main__":
    main(*sys.argv[1:])
