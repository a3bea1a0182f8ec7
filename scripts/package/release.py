# SPDX-License-Identifier: MIT
"""Completes the folder of a release: python3 -m package.release FOLDER VERSION COMMAND...

`make release` has put the packages and the source archive there.  Beside them come recipes for an
image, conda-forge and Spack, the notes, where all of it comes from, and the sums.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys

from . import metadata

TOP = metadata.TOP
RECIPES = os.path.join(TOP, "scripts", "package", "recipes")
TOOLS = ("gcc", "aarch64-linux-gnu-gcc", "ld", "make", "python3", "dpkg-deb")


def read(*path: str) -> str:
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def notes(version: str) -> str:
    """The changelog's text about the version, with links that lead somewhere by themselves."""
    found = re.search(rf"^## {re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)",
                      read(TOP, "CHANGELOG.md"), re.M | re.S)
    if not found:
        raise SystemExit(f"release: CHANGELOG.md has no section '## {version}'")
    return metadata.described(found[1].strip() + "\n", metadata.project_url(), f"v{version}")


def image(version: str) -> str:
    """The Containerfile's second stage, with the Debian package that lies beside it."""
    stage = read(TOP, "Containerfile").partition("FROM ${BASE}\n")[2]
    copied = re.sub(r"^COPY --from=build \S+ ",
                    f"ARG TARGETARCH\nCOPY libzc_{version}-1_${{TARGETARCH}}.deb ", stage,
                    flags=re.M)
    if copied == stage:
        raise SystemExit("release: the Containerfile's second stage copies no package")
    return (f"# SPDX-License-Identifier: MIT\n# An image with libzc {version}, beside its Debian "
            "packages: podman build -t zc .   docker build -f Containerfile -t zc .\n"
            "# BASE is one of Debian's kin with glibc 2.34 and Python 3.9 or newer.\n"
            "ARG BASE=debian:bookworm-slim\n\nFROM ${BASE}\n" + copied)


def recipe(name: str, folder: str, version: str) -> str:
    values = {"VERSION": version, "URL": metadata.project_url(), "SUMMARY": metadata.SUMMARY,
              "SHA256": digest(os.path.join(folder, f"libzc-{version}.tar.gz"))}
    return re.sub(r"@([A-Z0-9]+)@", lambda found: values[found[1]], read(RECIPES, name + ".in"))


def digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def said(*command: str) -> str:
    """The first line that a command prints; "" where there is no such command."""
    try:
        ran = subprocess.run(command, check=False, stdout=subprocess.PIPE, cwd=TOP,
                             stderr=subprocess.DEVNULL, encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return ran.stdout.partition("\n")[0].strip()


def provenance(folder: str, version: str, command: list[str]) -> dict:
    """An in-toto statement with SLSA's predicate of what was made from what and how; who builds
    signs it.  Without times, so that the same commit and tools give the same bytes."""
    url = metadata.project_url()
    tools = {tool: text for tool in TOOLS if (text := said(tool, "--version"))}
    return {"_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": name, "digest": {"sha256": digest(os.path.join(folder, name))}}
                        for name in sorted(os.listdir(folder))],
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {
                "buildDefinition": {
                    "buildType": f"{url}/blob/v{version}/Makefile",
                    "externalParameters": {"command": command, "tag": f"v{version}"},
                    "internalParameters": {"tools": tools},
                    "resolvedDependencies": [{
                        "uri": f"git+{url}@refs/tags/v{version}",
                        "digest": {"gitCommit": said("git", "rev-parse", "HEAD")}}]},
                "runDetails": {"builder": {"id": f"{url}/blob/v{version}/scripts/package"}}}}


def write(folder: str, name: str, text: str) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def main(folder: str, version: str, *command: str) -> None:
    for name, text in (("NOTES.md", notes(version)), ("Containerfile", image(version)),
                       ("recipe.yaml", recipe("recipe.yaml", folder, version)),
                       ("package.py", recipe("package.py", folder, version))):
        write(folder, name, text)
    write(folder, "provenance.json",
          json.dumps(provenance(folder, version, list(command)), indent=1) + "\n")
    write(folder, "SHA256SUMS", "".join(f"{digest(os.path.join(folder, name))}  {name}\n"
                                        for name in sorted(os.listdir(folder))))
    print("\n".join(sorted(os.listdir(folder))))


if __name__ == "__main__":
    main(*sys.argv[1:])
