# SPDX-License-Identifier: MIT
"""Runs the programs in all places, prints what failed, and writes the rows of results."""

import ctypes
import datetime
import importlib.metadata
import os
import re
import sys
import tempfile

from . import programs, results
from .runner import Runner
from .schedule import side_by_side

SECTIONS = ("kernels", "apps", "samples", "tools")


def machine():
    """One line on the GPU and the software."""
    driver = ctypes.CDLL("libcuda.so.1")
    name, version = ctypes.create_string_buffer(256), ctypes.c_int()
    driver.cuInit(0)
    driver.cuDeviceGetName(name, len(name), 0)
    driver.cuDriverGetVersion(ctypes.byref(version))
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    parts = [f"{count.value} x GPU {name.value.decode()}" if count.value > 1 else
             f"GPU {name.value.decode()}"]
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as text:
            parts.append("driver " + re.search(r"\d+\.\d+(\.\d+)?", text.read()).group(0))
    except (OSError, AttributeError):
        parts.append("driver of unknown version")
    parts.append(f"CUDA {version.value // 1000}.{version.value % 1000 // 10}")
    for package in ("torch", "cupy-cuda13x", "cupy-cuda12x", "jax", "numba", "numpy"):
        try:
            parts.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            pass
    return ", ".join(parts)


def kept(row, version, date):
    """A row as it is kept."""
    values = (row.program.name, row.place, row.result, round(row.seconds, 1),
              *(row.counts or [None] * 4), row.effect, row.referee, version)
    return {**dict(zip(results.ROW, values)), "date": date}


def write_part(path, found, check):
    """The rows of all programs that have ended."""
    rows = [kept(row, check["libzc"], check["date"])
            for rows in sorted(found, key=in_order) for row in rows]
    results.write(path, results.text([check], rows))  # whoever ends the check finds a whole one


def in_order(rows):
    """The sort key of a program's rows."""
    return SECTIONS.index(rows[0].program.section), rows[0].program.name


def report(rows):
    """One line for a program, and one for each of its rows that is not in order."""
    same = [row for row in rows if row.place != "bare" and row.result == "same"]
    agree = sum(row.referee == "0" for row in rows)
    print(f"{rows[0].program.section} {rows[0].program.name}: same in {len(same)} places, "
          f"referee agrees in {agree}, {sum(row.seconds for row in rows):.0f} s")
    for row in rows:
        if row.result != "same":
            print(f"    {row.place}: {row.result[:300]}")
        if row.referee not in ("-", "0"):
            print(f"    {row.place}: referee: {row.referee[:300]}")
    sys.stdout.flush()


def chosen(words):
    """The programs that the words of the command line ask for, the longest ones first."""
    build, libraries = os.environ["ZC_BUILD"], os.environ["ZC_CUDA_LIBRARIES"]
    quick = "quick" in words
    sections = [word for word in words if word in SECTIONS] or SECTIONS
    here = os.path.dirname(os.path.abspath(__file__))
    found = programs.apps(here, quick)
    found += programs.samples(os.environ.get("ZC_SAMPLES"), libraries)
    found += [] if quick else programs.tools(here, build, libraries)
    found += programs.kernels(build, libraries, quick)
    only = [word[len("only="):] for word in words if word.startswith("only=")]
    return [program for program in found if program.section in sections
            and (not only or any(name in program.name for name in only))]


def main(words):
    asked = [word[len("place="):] for word in words if word.startswith("place=")]
    unknown = [word for word in words if word not in ("quick", "referee", "together", *SECTIONS)
               and not word.startswith(("only=", "place="))]
    unknown += [f"place={place}" for place in asked if place not in programs.PLACES]
    if unknown:
        sys.exit(f"tests/gpu/run.sh: unknown words: {' '.join(unknown)}")
    quick = "quick" in words
    places = asked or (programs.QUICK_PLACES if quick else programs.PLACES)
    out = os.environ["OUT_DIR"]
    failed = os.path.join(out, "failed")
    os.makedirs(failed, exist_ok=True)
    todo = chosen(words)
    now = datetime.datetime.now(datetime.timezone.utc)
    check = {"libzc": os.environ.get("ZC_COMMIT", "unknown"), "date": f"{now:%Y-%m-%d %H:%M} UTC",
             "machine": machine() + ("; quick check" if quick else "")}
    rows = []
    with tempfile.TemporaryDirectory(prefix="zc-gpu-") as top:
        runner = Runner(os.environ["ZC_BUILD"], os.environ["ZC_CUDA_LIBRARIES"], top, failed)

        def referee(program):
            if program.section == "tools":  # CUPTI has one user at a time
                return "no"
            judged = program.section != "samples" or "referee" in words
            return ("with" if quick or "together" in words else "apart") if judged else "no"

        for found in side_by_side(runner, todo, places, referee,
                                  int(os.environ.get("ZC_JOBS", "6"))):
            rows.append(found)
            write_part(os.path.join(out, "results.part.jsonl"), rows, check)
            report(found)
    flat = [row for found in rows for row in found]
    print(results.totals([kept(row, "", "") for row in flat]))
    return 1 if any(row.failed for row in flat) or not flat else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
