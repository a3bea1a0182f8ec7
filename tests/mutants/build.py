# SPDX-License-Identifier: MIT
"""Builds the library again with one file changed, and the unit tests on it."""

import functools
import hashlib
import multiprocessing
import os
import re
import shlex
import shutil
import subprocess
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OBJECT = ["-g0", "-Wno-error", "-w"]
# Of the library's flags those that its tests are not built with (tests/tests.mk).
NOT_TESTS = ("-fPIC", "-fvisibility=hidden", "-fno-semantic-interposition",
             "-ftls-model=initial-exec", "-D__CUDA_API_VERSION_INTERNAL")
# A test may stand for a function of the library that another one of its file needs.
FIRST_WINS = "-Wl,--allow-multiple-definition"
# These test the simulated GPU, or a program of kernels/.
NO_UNITS = ("sim_", "runtime_", "kernels_")


def unit_names():
    return [p.stem for p in sorted((ROOT / "tests/unit").glob("*.c"))
            if not p.name.startswith(NO_UNITS)]


@functools.cache
def headers_time():
    """When the last header changed."""
    return max(header.stat().st_mtime for part in ("shim", "policy", "tests")
               for header in (ROOT / part).rglob("*.h"))


def unit_code(name):
    """The text of a unit test, with that of its own header where that holds a source."""
    code = (ROOT / f"tests/unit/{name}.c").read_text()
    for line in re.findall(r'^#include "\w+_test\.h"$', code, re.M):
        header = ROOT / "tests/unit" / line.split('"')[1]
        if '"../../' in (text := header.read_text()):
            code = code.replace(line, text)
    return code


def digest(path):
    """Of a file's content."""
    return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()[:12]


def must(command, **more):
    return subprocess.run(command, cwd=ROOT, check=True, stdin=subprocess.DEVNULL, **more)


def jobs():
    return int(os.environ.get("JOBS") or 2)


def pool(begin, *args):
    """As many processes as JOBS says, in each of which begin(*args, numbers) takes a number."""
    numbers = multiprocessing.Queue()
    for number in range(jobs()):
        numbers.put(number)
    return ProcessPoolExecutor(jobs(), initializer=begin, initargs=(*args, numbers))


def beside(source):
    """Flags for what a source includes from its own folder.  Without such, none: the folder may
    have a limits.h, which the compiler's own <limits.h> would find."""
    parent = Path(source).parent
    names = re.findall(r'^#include "([^/"]+)"', (ROOT / source).read_text(), re.M)
    return ["-iquote", str(parent)] if any((ROOT / parent / n).exists() for n in names) else []


class Folder:
    """A build folder in which only the library is its own; all else is that of `build`."""

    def __init__(self, build, name):
        self.build = build
        self.path = f"{build}/mutants/{name}"
        self.compile, self.link = map(
            shlex.split, (ROOT / build / "command").read_text().splitlines()[:2])
        self.units = ROOT / build / "mutants/unit"
        (ROOT / self.path).mkdir(parents=True, exist_ok=True)
        self.tree = ROOT / self.path / "tree"
        self.clean()
        for part in ("sim", "tests", "kernels", "zc-policy", "command"):
            link = ROOT / self.path / part
            if not link.is_symlink():
                link.symlink_to(os.path.relpath(ROOT / build / part, link.parent))

    def clean(self):
        """Makes the folder that tests run in as it was: the tree's own files and folders by links,
        and nothing that a changed library has written."""
        shutil.rmtree(self.tree, ignore_errors=True)
        (self.tree / "tmp").mkdir(parents=True)
        for name in os.listdir(ROOT):
            if name not in (".git", "tmp"):
                (self.tree / name).symlink_to(ROOT / name)

    def objects(self):
        """The library's objects by source file; objects of sources that are gone are left out."""
        sources = sorted(s for part in ("shim", "policy") for s in (ROOT / part).rglob("*.[cS]"))
        names = [str(s.relative_to(ROOT)) for s in sources]
        objects = {n: (ROOT / self.build / n).with_suffix(".o") for n in names}
        return {n: o for n, o in objects.items() if o.exists()}

    def compiles(self, source, text):
        """The object of a source file with another text, or None where that is no C."""
        out = ROOT / self.path / "mutant.o"
        out.unlink(missing_ok=True)
        (ROOT / self.path / "mutant.c").write_text(text)
        done = subprocess.run([*self.compile, *OBJECT, *beside(source), "-c",
                               "-o", str(out), f"{self.path}/mutant.c"], cwd=ROOT,
                              stdin=subprocess.DEVNULL, capture_output=True)
        return out.read_bytes() if done.returncode == 0 else None

    def link_library(self, source):
        objects = [ROOT / self.path / "mutant.o" if name == source else o
                   for name, o in self.objects().items()]
        out = ROOT / self.path / "libzc.so"
        out.unlink(missing_ok=True)
        must([*self.link, "-Wl,-s", "-o", str(out), *map(str, objects)])

    def link_unit(self, name, source):
        """A unit test whose own copy of the changed file comes before the archive's, or that holds
        that file itself."""
        text = ROOT / f"tests/unit/{name}.c"
        test, objects = self.units / f"{name}.o", [f"{self.path}/mutant.o"]
        code, own = unit_code(name), f'"../../{source}"'
        if own in code:
            text, test, objects = ROOT / self.path / "unit.c", ROOT / self.path / "unit.o", []
            text.write_text(code.replace(own, f'"{ROOT / self.path}/mutant.c"'))
        if not test.exists() or test.stat().st_mtime < max(text.stat().st_mtime, headers_time()):
            test.parent.mkdir(parents=True, exist_ok=True)
            flags = [f for f in self.compile if f not in NOT_TESTS]
            made = ROOT / self.path / "made.o"  # Others may take the object meanwhile.
            must([*flags, "-Itests", "-iquote", "tests/unit", *beside(source), "-w", "-c",
                  "-o", str(made), str(text)])
            made.replace(test)
        out = ROOT / self.path / "unit" / name
        out.parent.mkdir(exist_ok=True)
        must(["gcc", "-pthread", FIRST_WINS, "-o", str(out), str(test), *objects,
              f"{self.build}/libzc.a", "-lcmocka", "-lm", "-ldl"])
        return out
