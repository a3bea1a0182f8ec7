# SPDX-License-Identifier: MIT
"""Entries of libzc in indexes of packages: its description, addresses, keywords and classifiers.

PROJECT_URL is where the project lives, as `make release PROJECT_URL=https://HOST/OWNER/NAME` says.
Without one a package names no address, and its description no page that the reader does not have.
"""

from __future__ import annotations

import os
import re
from typing import Iterator

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

SUMMARY = "Memory placement and copy accounting for unmodified CUDA programs"
KEYWORDS = ("cuda", "gpu", "memory", "memcpy", "pinned", "zero-copy", "managed", "profiler",
            "ld_preload", "pytorch", "numpy")
CLASSIFIERS = ("Development Status :: 4 - Beta",
               "Environment :: Console",
               "Environment :: GPU :: NVIDIA CUDA :: 12",
               "Environment :: GPU :: NVIDIA CUDA :: 13",
               "Intended Audience :: Developers",
               "Intended Audience :: Science/Research",
               "Intended Audience :: System Administrators",
               "License :: OSI Approved :: MIT License",
               "Operating System :: POSIX :: Linux",
               "Programming Language :: C",
               "Programming Language :: Python :: 3",
               "Topic :: Scientific/Engineering :: Artificial Intelligence",
               "Topic :: Software Development :: Debuggers",
               "Topic :: System :: Hardware",
               "Topic :: System :: Monitoring")
# Python packages that zc takes, each for one option.
EXTRAS = {"dask": "dask", "mpi": "mpi4py",
          "opentelemetry": "opentelemetry-exporter-otlp-proto-http", "parquet": "pyarrow",
          "ray": "ray"}
PAGES = (("Documentation", "/blob/{tag}/README.md"), ("Source", ""), ("Issues", "/issues"),
         ("Changelog", "/blob/{tag}/CHANGELOG.md"))

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")


def project_url() -> str:
    """The project's address, without a slash at its end; "" where it was not named."""
    url = os.environ.get("PROJECT_URL", "").rstrip("/")
    if url and not re.fullmatch(r"https://[\w.-]+(:\d+)?(/[\w.~-]+)+", url):
        raise SystemExit(f"package: PROJECT_URL='{url}': give it as https://HOST/OWNER/NAME")
    return url


def described(readme: str, url: str, tag: str) -> str:
    """The README as a page by itself: its links lead to the project, or where that has no address
    are their text."""
    def absolute(link: re.Match) -> str:
        image, text, target = link["image"], link["text"], link["target"]
        if "://" in target or target.startswith(("#", "mailto:")):
            return link[0]
        if not url:
            return "" if image else text
        return f"{image}[{text}]({url}/{'raw' if image else 'blob'}/{tag}/{target})"
    return LINK.sub(absolute, readme)


def fields(version: str, url: str) -> Iterator[tuple[str, str]]:
    """The fields in front of the description."""
    yield "Metadata-Version", "2.1"
    yield "Name", "libzc"
    yield "Version", version
    yield "Summary", SUMMARY
    if url:
        yield "Home-page", url
        for name, path in PAGES:
            yield "Project-URL", f"{name}, {url}{path.format(tag=f'v{version}')}"
    yield "Author", "The libzc authors"
    yield "License", "MIT"
    yield "Keywords", ",".join(KEYWORDS)
    for classifier in CLASSIFIERS:
        yield "Classifier", classifier
    yield "Requires-Python", ">=3.9"
    for extra, needs in EXTRAS.items():
        yield "Provides-Extra", extra
        yield "Requires-Dist", f'{needs} ; extra == "{extra}"'
    yield "Description-Content-Type", "text/markdown"


def metadata(version: str) -> str:
    """A wheel's file METADATA."""
    with open(os.path.join(TOP, "README.md"), encoding="utf-8") as file:
        readme = file.read()
    url = project_url()
    head = "".join(f"{name}: {value}\n" for name, value in fields(version, url))
    return f"{head}\n{described(readme, url, f'v{version}')}"
