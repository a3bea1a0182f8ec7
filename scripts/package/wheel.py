# SPDX-License-Identifier: MIT
"""Makes a wheel of a folder: python3 -m package.wheel FOLDER VERSION ARCHITECTURE OUTPUT.

The folder holds libzc, as `make install` laid it out, and libzc-VERSION.data.  The library does not
depend on Python, so one wheel is for all versions of it.  build_wheel() is for pip (PEP 517).
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile

from . import binaries, metadata

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

WHEEL = "Wheel-Version: 1.0\nGenerator: libzc\nRoot-Is-Purelib: false\nTag: {tag}\n"
ENTRY_POINTS = """\
[console_scripts]
zc = libzc.__main__:main

[pytest11]
zc = libzc.zclib.pytest_plugin
"""

# Folders of the installation's binaries.
SHIPPED = ("libzc/lib/libzc.so", "libzc/libexec/zc-policy", "libzc/libexec/zc-views",
           "libzc/libexec/demo/gather", "libzc/libexec/demo/libcuda.so.1")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds all by make, for pip; the wheel's name."""
    subprocess.run(["make", "-s", f"-j{os.cpu_count() or 1}", "-C", TOP, "wheel",
                    "PACKAGE_OUT=" + os.path.abspath(wheel_directory)], check=True)
    wheels = [entry for entry in os.scandir(wheel_directory)
              if entry.name.startswith("libzc-") and entry.name.endswith(".whl")]
    return max(wheels, key=lambda entry: entry.stat().st_mtime_ns).name


def main(root: str, version: str, architecture: str, out: str) -> None:
    shipped = [os.path.join(root, name) for name in SHIPPED]
    binaries.strip(shipped)
    major, minor = binaries.glibc(shipped)
    tag = f"py3-none-manylinux_{major}_{minor}_{architecture}"
    package = os.path.join(root, "libzc")
    os.rename(os.path.join(package, "zc"), os.path.join(package, "__main__.py"))
    # Elsewhere the package lies beside what is inside of it here.
    os.rename(os.path.join(package, "libzc", "__init__.py"), os.path.join(package, "__init__.py"))
    info = f"libzc-{version}.dist-info"
    for name, text in ((f"{info}/METADATA", metadata.metadata(version)),
                       (f"{info}/WHEEL", WHEEL.format(tag=tag)),
                       (f"{info}/entry_points.txt", ENTRY_POINTS)):
        os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
        with open(os.path.join(root, name), "w", encoding="utf-8") as file:
            file.write(text)
    shutil.copy(os.path.join(TOP, "LICENSE"), os.path.join(root, info, "LICENSE"))
    shutil.copy(os.path.join(TOP, "third_party", "uthash", "LICENSE"),
                os.path.join(root, info, "LICENSE.uthash"))
    os.makedirs(out, exist_ok=True)
    name = f"libzc-{version}-{tag}.whl"
    _zip(root, info, os.path.join(out, name))
    print(os.path.join(out, name))


def _zip(root: str, info: str, path: str) -> None:
    """Packs a folder, with the list of its files; the same bytes from the same files."""
    record = []
    with zipfile.ZipFile(path + ".part", "w") as wheel:
        for name in sorted(_files(root)):
            with open(os.path.join(root, name), "rb") as file:
                content = file.read()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            record.append(f"{name},sha256={digest.decode()},{len(content)}\n")
            runs = os.access(os.path.join(root, name), os.X_OK)
            _add(wheel, name, content, 0o755 if runs else 0o644)
        record.append(f"{info}/RECORD,,\n")
        _add(wheel, f"{info}/RECORD", "".join(record).encode(), 0o644)
    os.replace(path + ".part", path)


def _add(wheel: zipfile.ZipFile, name: str, content: bytes, mode: int) -> None:
    member = zipfile.ZipInfo(name)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = (0o100000 | mode) << 16
    wheel.writestr(member, content)


def _files(root: str) -> list[str]:
    return [os.path.relpath(os.path.join(folder, name), root)
            for folder, _, names in os.walk(root) for name in names]


if __name__ == "__main__":
    main(*sys.argv[1:])
