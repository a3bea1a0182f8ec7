#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The tool behind `make check-mutants` changes code and nothing else, and tells what the tests that
# it runs see from what they do not see.

bats_require_minimum_version 1.5.0

setup() {
    command -v python3 >/dev/null || skip "no python3"
    BUILD=${ZC_BUILD:-build}
    cd tests || return 1
}

python() { PYTHONPATH=. python3 -B - "$@"; }

@test "mutations change one line of code, and no comment, string, directive or message" {
    python <<'PYTHON'
from mutants import operators

TEXT = '''/* a < b */
#define LESS(a, b) ((a) < (b))
static int less(int a, const char *b)
{
    const char *s = "a < b && c";
    if (a < 1 && *b == 'x') { // a + b
        count += a;
        zc_message(ZC_WARN, "less", "it is %d", a + 1);
    }
    return a - 1;
}
'''
found = sorted((m.line, m.operator, m.after) for m in operators.mutants_of("toy.c", TEXT))
assert found == sorted([
    (6, "< to <=", "if (a <= 1 && *b == 'x') { // a + b"),
    (6, "and to or", "if (a < 1 || *b == 'x') { // a + b"),
    (6, "== to !=", "if (a < 1 && *b != 'x') { // a + b"),
    (6, "constant + 1", "if (a < 2 && *b == 'x') { // a + b"),
    (6, "negate", "if (!(a < 1 && *b == 'x')) { // a + b"),
    (7, "+= to -=", "count -= a;"),
    (7, "drop", ";"),
    (10, "- to +", "return a + 1;"),
    (10, "constant + 1", "return a - 2;")]), found
names = {m.after: m.id for m in operators.mutants_of("toy.c", TEXT)}
moved = {m.after: m.id for m in operators.mutants_of("toy.c", "int x;\n" + TEXT)}
assert names == moved and len(set(names.values())) == len(names)
PYTHON
}

@test "a mutant is caught, survives, hangs, or is the same code" {
    [[ -e ../$BUILD/libzc.a && -e ../$BUILD/command ]] || skip "no library"
    printf 'test\t0\t0.1\tpolicy_glob\ntest\t1\t0.1\tbase_json\n' >"$BATS_TEST_TMPDIR/table"
    python "$BUILD" "$BATS_TEST_TMPDIR/table" <<'PYTHON'
import sys
from pathlib import Path
from mutants import operators, runner

FILE = "policy/glob.c"
table = runner.Table(Path(sys.argv[2]))
table.unmeasured = set()
worker = runner.Worker(sys.argv[1], "-test", table, 4)

def result(tests, before, after):
    text = (runner.ROOT / FILE).read_text()
    line = text[:text.index(before)].count("\n") + 1
    whole = text.split("\n")[line - 1]
    table.of[FILE, "toy"], table.cost = tests, dict.fromkeys(tests, 0.1)
    return worker.result(operators.Mutant("", FILE, line, "toy", "", "", "",
                                          whole.replace(before, after)))

END = "return a.n == 0;"
assert result(["policy_glob"], END, "return a.n != 0;") == ("caught", "policy_glob")
assert result(["base_json"], END, "return a.n != 0;") == ("survived", "")
assert result(["base_json"], END, "return a.n < 1;") == ("same code", "")
assert result(["base_json"], END, "return a.n ==;") == ("no C", "")
# A change that changes nothing is seen by no test: each is built as it is elsewhere.
units = ["driver_launch", "host_pagemap", "ledger_site", "log_lines", "policy_glob"]
assert result(units, END, "return a.n == 0 || a.n > (size_t)1 << 60;") == ("survived", "")
assert all(worker.passes(unit, worker.folder.path) for unit in units)
loop = "while (a.n > 0 && a.at[0] == '*')"
assert result(["policy_glob"], loop, "while (true)") == ("caught", "policy_glob")
PYTHON
}

@test "a unit test sees a change of the source that its header holds" {
    [[ -e ../$BUILD/libzc.a && -e ../$BUILD/command ]] || skip "no library"
    python "$BUILD" <<'PYTHON'
import sys
from mutants import operators, runner

FILE, BEFORE = "shim/copy/links.c", "__atomic_exchange_n(&link->claimed, 1, "
table = runner.Table()
assert not {"copy_links", "copy_links_idle"} & table.unmeasured
table.tests = lambda mutant: ["copy_links_idle"]
table.room_tests = lambda mutant: []
lines = (runner.ROOT / FILE).read_text().split("\n")
at, line = next((i, line) for i, line in enumerate(lines) if BEFORE in line)
worker = runner.Worker(sys.argv[1], "-header", table, 4)
changed = operators.Mutant("", FILE, at + 1, "link_claim", "", "", "", line.replace("!", ""))
assert worker.result(changed) == ("caught", "copy_links_idle")
PYTHON
}

@test "functions, tests and mutants that were named by hand are there" {
    python <<'PYTHON'
import re
from mutants import operators, runner, tests
from mutants.build import unit_names

numbers = {m.id for m in operators.all_mutants()}
functions = {(m.file, m.function) for m in operators.all_mutants()}
also = runner.Table().also
named = {t for some in also.values() for t in some}
gone = [*(f for f in also if f not in functions),
        *(t for t in named - set(unit_names())
          if t.partition(" ")[2] not in tests.names(t.partition(" ")[0])),
        *(n for n in re.findall(r"^\| (\w{10}) \|", runner.EXPLAINED.read_text(), re.M)
          if n not in numbers)]
assert not gone, gone
PYTHON
}

@test "a change is run against the tests that run its line, or the last one before it" {
    python "$BATS_TEST_TMPDIR/table" <<'PYTHON'
import sys
from pathlib import Path
from mutants import measure, operators, runner

FILE = "policy/glob.c"
places = {at: line for (file, line), at in operators.lines_of_functions().items() if file == FILE}
function = max({f for f, _ in places}, key=lambda f: sum(f == g for g, _ in places))
lines = sorted(line for (f, _), line in places.items() if f == function)
first, far = lines[0], lines[5]
assert places[function, 0] == first and places[function, far - first] == far

def record(test, cpu, *lines):
    return {"test": test, "cpu": cpu, "lines": {FILE: list(lines)}}

records = [record("policy_glob", 0.1, first, far), record("policy_keys", 0.2, first),
           record("policy_match", 0.3, far), record("policy_text", 100.0, first)]
rows = measure.rows_of(records, {(FILE, function)})
assert rows[FILE, function] == ["policy_glob", "policy_keys", "policy_match", "policy_text"]
measure.KEPT = Path(sys.argv[1])
measure.write({r["test"]: r["cpu"] for r in records}, rows, {FILE: "0"})
table = runner.Table(measure.KEPT)
table.unmeasured = set()

def own(line):
    return set(table.tests(operators.Mutant("", FILE, line, function, "", "", "", "")))

assert {"policy_keys"} <= own(first) and "policy_match" not in own(first)
assert own(lines[1]) == own(lines[4]) == own(first)
assert "policy_match" in own(far) and not {"policy_keys", "policy_text"} & own(far)
assert own(lines[-1]) == own(far)
PYTHON
}

@test "the lines that a program ran are those of its branches" {
    mkdir "$BATS_TEST_TMPDIR/shim"
    cd "$BATS_TEST_TMPDIR" || return 1
    cat >shim/toy.c <<'END'
#include <unistd.h>
int main(int n, char **v)
{
    if (n > 1)
        n += 1;
    else
        n += 3;
    if (n == 3 && !fork())
        _exit(v == 0);
    return v == 0;
}
END
    "${CC:-gcc}" -D_GNU_SOURCE -O0 -g -c -o seen.o "$OLDPWD/mutants/seen.c"
    "${CC:-gcc}" -O0 -g -fsanitize-coverage=trace-pc -o toy shim/toy.c seen.o
    for words in '' more; do
        head -c 2M /dev/zero >seen
        # shellcheck disable=SC2086 # No word, or one.
        ZC_SEEN=$PWD/seen ./toy $words
        mv seen "seen-$words"
    done
    cd "$OLDPWD" || return 1
    python "$BATS_TEST_TMPDIR" <<'PYTHON'
import sys
from pathlib import Path
from mutants import measure
folder = Path(sys.argv[1])
known = measure.branches(folder / "toy")
ran = [measure.ran((folder / name).read_bytes(), known)["shim/toy.c"]
       for name in ("seen-", "seen-more")]
assert set(ran[0]) - set(ran[1]) == {7}, ran
assert set(ran[1]) - set(ran[0]) == {5, 9}, ran
PYTHON
}

@test "a survivor of its function's tests is run against the room's others" {
    [[ -e ../$BUILD/libzc.a && -e ../$BUILD/command ]] || skip "no library"
    printf 'test\t0\t0.1\tpolicy_parse\ntest\t1\t0.1\tpolicy_glob\nfunction\t%s\tend\t0\n' \
        policy/glob.c >"$BATS_TEST_TMPDIR/table"
    python "$BUILD" "$BATS_TEST_TMPDIR/table" <<'PYTHON'
import sys
from pathlib import Path
from mutants import operators, runner
table = runner.Table(Path(sys.argv[2]))
mutant = operators.Mutant("", "policy/glob.c", 1, "end", "", "", "", "")
table.unmeasured, table.cost = set(), {"policy_parse": 0.1, "policy_glob": 0.1, "base_json": 0.1}
assert "base_json" not in [*table.tests(mutant), *table.room_tests(mutant)]
assert not set(table.tests(mutant)) & set(table.room_tests(mutant))
assert {"policy_parse", "policy_glob"} == {*table.tests(mutant), *table.room_tests(mutant)}
table.cost["policy_glob"] = runner.ROOM + 1
assert "policy_glob" not in table.room_tests(mutant)
PYTHON
}

@test "a file that has changed since it was measured, or has another function, is told" {
    python "$BATS_TEST_TMPDIR/table" <<'PYTHON'
import sys
from pathlib import Path
from mutants import build, operators, runner
path = Path(sys.argv[1])
def stale(digest, function):
    path.write_text(f"file\tpolicy/glob.c\t{digest}\nfunction\tpolicy/glob.c\tend\n")
    return runner.Table(path).stale(
        [operators.Mutant("", "policy/glob.c", 1, function, "", "", "", "")])
now = build.digest("policy/glob.c")
assert stale(now, "end") == []
assert stale(now, "other") == stale("0", "end") == ["policy/glob.c"]
PYTHON
}

@test "what a test with a changed library writes where it runs is gone, and not in the tree" {
    python "$BUILD" "$BATS_TEST_TMPDIR/writes.bats" <<'PYTHON'
import sys
from pathlib import Path
from mutants import build, tests
folder = build.Folder(sys.argv[1], "-written")
Path(sys.argv[2]).write_text("""@test "it" {
    [ -e shim/base/version.h ] && [ -d "$BATS_TEST_TMPDIR" ]
    echo x >off; mkdir -p made/deep; [ -e "$PWD/off" ]
}
""")
before = set(build.ROOT.iterdir())
assert tests.run(f"{sys.argv[2]} it", folder.path, 100, folder)[0] == "passed"
assert set(build.ROOT.iterdir()) == before and not (folder.tree / "off").exists()
assert sorted(p.name for p in folder.tree.iterdir() if not p.is_symlink()) == ["tmp"]
PYTHON
}

@test "a test that loops ends by itself where the tool was killed" {
    python "$BUILD" "$BATS_TEST_TMPDIR/bound.bats" <<'PYTHON'
import sys
from pathlib import Path
from mutants import build, tests
folder = build.Folder(sys.argv[1], "-bound")
Path(sys.argv[2]).write_text('@test "it" { (($(ulimit -Ht) == 4 * 30)); }')
assert tests.run(f"{sys.argv[2]} it", folder.path, 30, folder)[0] == "passed"
PYTHON
}
