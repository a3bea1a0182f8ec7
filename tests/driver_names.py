#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The driver functions that CUDA's headers declare, and those of them that libzc's tables lack.

  driver_names.py list INCLUDE             the list that is kept in tests/driver-names.tsv
  driver_names.py missing VERSION INCLUDE  what the headers of a CUDA VERSION in the folder INCLUDE
                                           declare and neither table names, and numbers in
                                           shim/driver/newer.h that differ; 1 if there is any
  driver_names.py missing                  the same for the kept list

The tables are shim/driver.def, of what libzc catches, and shim/passthrough.def, of what it leaves
alone.  A row of the list has the exported symbol, the name that programs give to
cuGetProcAddress, the lowest CUDA version that they have to ask with for this symbol, and the ending
of its per-thread twin, or a dash.
"""
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / 'tests/driver-names.tsv'
HEADERS = ('cuda.h', 'cudaGL.h', 'cudaEGL.h', 'cudaVDPAU.h', 'cudaProfiler.h')
# Headers that those include and a machine without graphics lacks; they have no driver function.
OTHERS = ('GL/gl.h', 'EGL/egl.h', 'EGL/eglext.h', 'vdpau/vdpau.h')
TWIN = re.compile(r'_pt[sd][sz]$')


def preprocess(text, *options):
    command = [os.environ.get('CC', 'gcc').split()[0], '-E', '-P', '-x', 'c', *options, '-']
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def declared(include):
    """All symbols that the headers declare: __CUDA_API_VERSION_INTERNAL shows every ABI version."""
    with tempfile.TemporaryDirectory() as empty:
        for name in OTHERS:
            path = Path(empty, name)
            path.parent.mkdir(exist_ok=True)
            path.touch()
        present = [name for name in HEADERS if Path(include, name).exists()]
        if 'cuda.h' not in present:
            sys.exit(f'{include}: no cuda.h')
        text = preprocess(''.join(f'#include <{name}>\n' for name in present),
                          f'-I{include}', f'-I{empty}', '-D__CUDA_API_VERSION_INTERNAL')
    return set(re.findall(r'\b(cu[A-Z]\w*)\s*\(', text))


def versions(include):
    """The versions of each name, from the function types of cudaTypedefs.h and its kin.  Types of
    per-thread twins do not count: some twins are younger than their name."""
    found = defaultdict(set)
    for path in Path(include).glob('cuda*Typedefs.h'):
        for name, version in re.findall(r'\bPFN_(cu[A-Z]\w*?)_v(\d+)\b(?!_)', path.read_text()):
            found[name].add(int(version))
    return found


def renamed(include):
    """Names that cuda.h gives to another function, not to a later version of their own."""
    text = Path(include, 'cuda.h').read_text()
    return [pair for pair in re.findall(r'#\s*define (cu[A-Z]\w*)\s+(cu[A-Z]\w*)\s*$', text, re.M)
            if name_of(pair[0]) == pair[0] != name_of(pair[1])]


def name_of(symbol):
    return re.sub(r'_v\d+$', '', TWIN.sub('', symbol))


def generation(symbol):
    match = re.search(r'_v(\d+)$', symbol)
    return int(match[1]) if match else 1


def rows(include):
    symbols, known = declared(include), versions(include)
    twins = {TWIN.sub('', s): TWIN.search(s)[0] for s in symbols if TWIN.search(s)}
    names = defaultdict(list)
    for symbol in {TWIN.sub('', s) for s in symbols}:
        names[name_of(symbol)].append(symbol)
    for name, other in renamed(include):
        names[name].append(other)
    for name in sorted(names):
        # In rising order; a symbol under another name is the latest.
        generations = sorted(names[name], key=lambda s: (name_of(s) != name, generation(s)))
        first = sorted(known[name])
        if name_of(generations[-1]) != name:
            first.append(first[-1] // 1000 * 1000 + 1000)  # Only a major version gives a name away.
        if len(first) != len(generations):
            sys.exit(f'{name}: {len(generations)} symbols, but versions {first}')
        for symbol, version in zip(generations, first):
            yield symbol, name, version, twins.get(symbol, '-')


def named():
    """All symbols in either table, as the compiler sees them."""
    text = preprocess('#define ZC_ROW(name, base, params) NAMES name;\n'
                      '#define ZC_USE(name, base) NAMES name;\n'
                      '#include "driver.def"\n'
                      '#define ZC_PASSTHROUGH(reason, ...) NAMES __VA_ARGS__;\n'
                      '#include "passthrough.def"\n', f'-I{ROOT}/shim')
    return set(re.findall(r'\w+', ' '.join(re.findall(r'\bNAMES ([\w\s,]+);', text))))


def missing(version, symbols):
    lacking = sorted(set(symbols) - named())
    for symbol in lacking:
        print(f'{symbol}: declared by CUDA {version}, and in neither table: '
              'a row in shim/driver.def, or its name in shim/passthrough.def')
    return 1 if lacking else 0


def wrong_numbers(version, include):
    """Numbers of constants in libzc's declarations that are others in cuda.h."""
    ours = (ROOT / 'shim/driver/newer.h').read_text()
    theirs = dict(re.findall(r'\b(CU_\w+)\s*=\s*(0[xX][0-9a-fA-F]+|\d+)\b',
                             Path(include, 'cuda.h').read_text()))
    found = 0
    for name, number in re.findall(r'\b(CU_\w+)(?: = | \(\(\w+\))(0[xX][0-9a-fA-F]+|\d+)', ours):
        if name in theirs and int(theirs[name], 0) != int(number, 0):
            print(f'{name}: {number} in shim/driver/newer.h, {theirs[name]} in CUDA {version}')
            found = 1
    return found


def kept():
    for line in KEPT.read_text().splitlines():
        if not line.startswith('#'):
            symbol, name, version, twin = line.split('\t')
            yield symbol
            if twin != '-':
                yield symbol + twin


def main(words):
    if words[:1] == ['list'] and len(words) == 2:
        print('# Exported symbol, name, version, twin: by tests/driver_names.py list.')
        for row in rows(words[1]):
            print(*row, sep='\t')
        return 0
    if words == ['missing']:
        return missing('as kept', kept())
    if words[:1] == ['missing'] and len(words) == 3:
        return missing(words[1], declared(words[2])) | wrong_numbers(*words[1:])
    sys.exit(__doc__)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
