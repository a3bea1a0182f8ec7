#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The rules of form that every source file keeps, checked by machine.

bats_require_minimum_version 1.5.0

# Prints the source files of the given extensions, one a line.
sources() {
    local -a names=()
    local extension
    for extension in "$@"; do
        names+=(-o -name "*.$extension")
    done
    find include shim policy tools kernels tests scripts .ci -type f \( "${names[@]:1}" \) \
        ! -path '*/corpus/*' ! -name '.*' | sort
}

code() { sources c h S def cu cuh cpp; }
scripts() {
    sources mk bats bash sh py awk
    ls Makefile .ci/run scripts/zc
}
all_text() {
    sources c h S def cu cuh cpp bats bash sh py awk mk map conf md
    ls Makefile ./*.md docs/*.md docs/*/*.md docs/man/* .ci/run
}

# Fails with the lines on standard input as findings, if there are any.
no_findings() {
    local findings
    findings=$(cat)
    [[ -z $findings ]] || { printf '%s\n%s\n' "$1" "$findings"; return 1; }
}

# Compiles the headers and sources given on standard input for their diagnostics alone, with the
# library's own flags.  $1 compiler, $2... further flags
diagnose() {
    local -a command
    read -r -a command <"${ZC_BUILD:-build}/command"
    xargs -P 2 -n 1 "$1" "${command[@]:1}" -Werror -fsyntax-only "${@:2}" 2>&1
}

@test "no source file is longer than 800 lines" {
    sources c h S def cu cuh cpp bats bash sh py awk mk | xargs wc -l |
        awk '$1 > 800 && $2 != "total"' | no_findings "longer than 800 lines:"
}

@test "no function is longer than 60 lines" {
    sources c | xargs awk '
        FNR == 1 { start = 0 }
        /^\{/ { start = FNR }
        /^\}/ { if (start && FNR - start - 1 > 60) print FILENAME ":" start ": " FNR - start - 1
                start = 0 }' | no_findings "functions longer than 60 lines:"
}

# A backtrace shows it without its file.
@test "no function of the library that is static has the name of another module's" {
    find shim -name '*.c' ! -name '*_aarch64.c' | xargs awk '
        match($0, /^static [^=;(]*[ *][a-z_0-9]+\(/) {
            name = substr($0, RSTART, RLENGTH - 1)
            sub(/.*[ *]/, "", name)
            if (name != "__attribute__" && name in file && file[name] != FILENAME)
                print FILENAME ":" FNR ": " name ", as in " file[name]
            file[name] = FILENAME
        }' | no_findings "static functions that two modules have:"
}

# Versions of clang-format differ in what they make of the same style, so one is named.
@test "C and CUDA sources are laid out as .clang-format says" {
    command -v clang-format-14 >/dev/null || skip "no clang-format-14"
    sources c h cu cuh cpp | xargs clang-format-14 --dry-run -Werror 2>&1 |
        grep -E '(error|warning):' | no_findings "run clang-format-14 -i on:"
}

@test "no line is wider than 100 columns" {
    # The tables of .def files have one row a line, however long.
    { code | grep -v '\.def$'; sources bats bash sh py awk mk; } |
        LC_ALL=C.UTF-8 xargs grep -nE '^.{101,}$' | cut -d : -f 1,2 |
        no_findings "wider than 100 columns:"
}

@test "no comment opens with a relative clause: Who, What, Where" {
    { code; scripts; } | xargs awk '
        /([/][*]+|^[ \t]*#|  #|"""|[/][/]) (Who|What|Where) / || /"""(Who|What|Where) / ||
            (/^ *[*] (Who|What|Where) / && before ~ /^ *[/][*]+$/) {
            print FILENAME ":" FNR ": " $0
        }
        { before = $0 }' |
        no_findings "comments that open with a clause:"
}

@test "nothing is left to be done later" {
    all_text | xargs grep -nwE 'TO[D]O|FI[X]ME|X[X]X|HA[C]K' | no_findings "unfinished:"
}

# An archive has no history, and a shallow clone may not reach the first commit that kept this rule.
@test "commit subjects are no longer than 72 characters, and open with an area" {
    local first=174b90c
    git merge-base --is-ancestor "$first" HEAD 2>/dev/null || skip "no history from $first on"
    git log --no-merges --format='%h %s' "$first"..HEAD |
        grep -vE '^[0-9a-f]+ [[:alnum:]_./+-]+(, [[:alnum:]_./+-]+)*: [^ ].*$' |
        no_findings "no 'area: ' in front:"
    git log --no-merges --format=%s "$first"..HEAD |
        LC_ALL=C.UTF-8 awk 'length($0) > 72' | no_findings "longer than 72 characters:"
}

@test "the top folder has no output of a program or test" {
    git ls-files |
        grep -vE '/|^\.|^[A-Z]+\.md$|^(Containerfile|LICENSE|Makefile|pyproject\.toml)$' |
        no_findings "not files of the project:"
}

@test "the README is a front door of at most 200 lines" {
    awk 'END { if (NR > 200) print FILENAME ": " NR " lines" }' README.md |
        no_findings "what does not help a newcomer goes to docs/:"
}

@test "pages for users do not lead into the lab book, and say what it found" {
    { grep -l 'MEASURED\.md' README.md docs/*.md docs/*/*.md docs/man/* || true; } |
        grep -v -e docs/develop.md -e docs/inside.md |
        no_findings "tests/gpu/MEASURED.md is for who develops libzc:"
}

@test "the page of limits names each call that would lend memory of libzc's away" {
    sed -nE 's/^ZC_LEND_.\(([A-Za-z]+).*/\1/p' shim/driver.def | sort -u |
        while read -r call; do grep -q "$call" docs/limits.md || echo "$call"; done |
        no_findings "not in docs/limits.md:"
    grep -q '^ZC_LEND_' shim/driver.def
}

@test "the page of limits names each request that no rule can place" {
    tr -d '\n' <policy/api.def | grep -oE 'ZC_API\([^)]*(\([A-Z]+\)[^)]*)*ZC_FIT_LATER[^)]*\)' |
        grep -oE '"[^)]*' | tr -d '" ' |
        while read -r names; do
            grep -qE "${names//,/|}" docs/limits.md || echo "$names"
        done | no_findings "not in docs/limits.md:"
    [[ $(grep -c ZC_FIT_LATER policy/api.def) -ge 7 ]]
}

# Each function of the library that may report a refused call, and words of its row on the page.
refusals() {
    cat <<'END'
batch_diagnose the driver refuses them; a message names the rule
batch_leave that can't be divided: batches
before_change changing a copy in an executable graph
copy_refused the driver refuses them; a message names the rule
cuMemFreeAsync a free that the driver refuses
cuMemGetHandleForAddressRange cuMemGetHandleForAddressRange
diagnose_one A kernel that writes a block with `access = read` gets error 700
free_placed a free that the driver refuses
name_rule cuStreamWriteValue, cuStreamWaitValue on `managed`
unless_stuck ending the registration would wait for that stream for ever
vmm_diagnose kernels that write a block of `spill = fetch`
zc_diagnose_border two parts of registered memory (256 MiB each)
zc_lazy_diagnose learning in the request that the device is full
zc_pinned_forgo A call of a newer CUDA that may use such a block is refused
zc_pinned_refuse the rest is refused with 801 and a message
zc_pinned_yield or registering a part of a block, while a stream waits
zc_shared_refused `spill = move` or `fetch`, or `shared`
END
}

@test "the page of limits has a row for each kind of call that libzc may refuse" {
    find shim -name '*.c' ! -path shim/hook/wrap.c | xargs awk '
        /^ZC_BODY\(/ { name = $0; sub(/^[^(]*\(/, "", name); sub(/,.*/, "", name) }
        /^[a-zA-Z].*\(.*[^;]$/ && !/^ZC_/ {
            name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
        }
        /^ .*(zc_refusal_count|zc_diagnose(_border|_frail)?|zc_pinned_refuse)\(/ {
            print name
        }' | sort -u | diff - <(refusals | cut -d ' ' -f 1 | sort) |
        no_findings "functions that refuse calls (<), and those of refusals() here (>):"
    while read -r function row; do
        grep -qF "$row" docs/limits.md || echo "$function: $row"
    done < <(refusals) | no_findings "rows that docs/limits.md lacks:"
}

@test "links and names of files in the pages lead to a file, and to a heading in it" {
    python3 - README.md ./*.md docs/*.md docs/*/*.md kernels/*.md tests/*/*.md <<'PYTHON' |
import os, re, sys
def anchors(path):
    headings = re.findall(r"^#+ (.*)$", open(path).read(), re.M)
    return {re.sub(r"[^a-z0-9 _-]", "", h.lower()).replace(" ", "-") for h in headings}
for page in sys.argv[1:]:
    for target in re.findall(r"\]\(([^)\s]+)\)", open(page).read()):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        path = os.path.join(os.path.dirname(page), path) if path else page
        if not os.path.exists(path):
            print(f"{page}: no such file: {target}")
        elif anchor and path.endswith(".md") and anchor not in anchors(path):
            print(f"{page}: no such heading: {target}")
    for path in re.findall(r"`([a-z_/]+/[a-z_]*(?:\.(?:c|h|def|py|sh|txt))?)`", open(page).read()):
        if ("." in path or path.startswith("shim/")) and not path.startswith(("/", "build/")):
            if not any(os.path.exists(top + path) for top in ("", "shim/")):
                print(f"{page}: no such file: {path}")
PYTHON
        no_findings "links:"
}

@test "C sources hold no tabs" {
    code | xargs grep -nP '\t' | no_findings "tabs:"
}

@test "no line ends in blanks" {
    all_text | xargs grep -nE '[[:blank:]]+$' | no_findings "trailing blanks:"
}

@test "scripts of pages are as short and narrow as other sources, and open with their licence" {
    for file in scripts/zclib/report/page*.{js,css}; do
        LC_ALL=C.UTF-8 grep -nHE '^.{101,}$' "$file" | cut -d : -f 1,2
        (($(wc -l <"$file") <= 800)) || echo "$file: too long"
        [[ $(head -n 1 "$file") == '/* SPDX-License-Identifier: MIT */' ]] || echo "$file: no SPDX"
        head -n 2 "$file" | tail -n 1 | grep -q '^/\*' || echo "$file: no opening comment"
    done | no_findings "scripts of pages:"
}

@test "libraries of others are as their authors released them, with their licence" {
    cd scripts/zclib/vendor
    sed -nE 's/^\| `([^`]+)` \|.* ([0-9a-f]{64}) \|$/\2  \1/p' README.md >"$BATS_TEST_TMPDIR/sums"
    sha256sum --check --quiet "$BATS_TEST_TMPDIR/sums"
    # Each file has its sum, or is the licence of one.
    for file in *; do
        [[ $file == README.md || $file == *-LICENSE.txt ]] ||
            grep -qF "  $file" "$BATS_TEST_TMPDIR/sums" || echo "$file"
    done | no_findings "not in README.md:"
}

@test "every text file ends in a newline" {
    all_text | xargs grep -LzP '\n\z' | no_findings "no newline at the end:"
}

@test "no file names a path of somebody's machine" {
    all_text | xargs grep -nE '(^|[^A-Za-z0-9._$}/-])/(home|root|work|Users)/' |
        no_findings "private paths:"
}

# Prints the N-th line of each file given on standard input, behind its name; #! does not count.
line_of_each() {
    xargs awk -v n="$1" 'FNR == 1 { at = n + /^#!/ } FNR == at { print FILENAME ":" $0 }'
}

@test "every source file opens with its licence" {
    code | line_of_each 1 | grep -vF ':/* SPDX-License-Identifier: MIT */' |
        no_findings "no SPDX line:"
    scripts | line_of_each 1 | grep -v ':# SPDX-License-Identifier: MIT$' |
        no_findings "no SPDX line:"
}

@test "every source file opens with a comment on what it holds" {
    code | line_of_each 2 | grep -vE '^[^:]*:(/\*|//)' | no_findings "no opening comment:"
    scripts | line_of_each 2 | grep -vE '^[^:]*:(# |""")' | no_findings "no opening comment:"
}

@test "every header compiles by itself" {
    # As a file of its own a header must not say #pragma once.
    find include shim policy -name '*.h' |
        diagnose "${CC:-gcc}" -x c -Wno-unused-function /dev/null -include | no_findings "headers:"
}

@test "clang finds nothing to warn about in the library" {
    command -v clang >/dev/null || skip "no clang"
    # The demo's program takes the names of cuda.h that a program sees.
    find shim policy tools -name '*.c' ! -name '*_aarch64.c' ! -name '*_x86_64.c' \
        ! -path tools/demo/gather.c | diagnose clang | no_findings "clang:"
}

@test "the library does not rest on the sign of plain char" {
    find shim policy -name '*.c' ! -name '*_aarch64.c' ! -name '*_x86_64.c' |
        diagnose "${CC:-gcc}" -funsigned-char -Wtype-limits | no_findings "unsigned char:"
}

@test "the library's sources include no header of the standard's input and output" {
    find shim policy -name '*.[ch]' | xargs grep -nE '#include <(stdio|locale|wchar|iconv)\.h>' |
        no_findings "headers that the preloaded library must not use:"
}

@test "the headers of uthash that sources include are those of the tree" {
    code | xargs grep -hoE '#include <ut[a-z]+\.h>' | tr -d '<>' | while read -r _ header; do
        [[ $header == utime.h || -e third_party/uthash/$header ]] || echo "$header"
    done | no_findings "not in third_party/uthash:"
}

@test "policy/ knows nothing of CUDA" {
    find policy -name '*.[ch]' | xargs grep -nE '#include ([<"]cuda|"[a-z]+/)' |
        no_findings "includes in policy/:"
}

@test "rooms of shim/ include what lies below them, and no modules include each other" {
    python3 -B tests/check/includes.py | no_findings "includes that go up, or round:"
}

# Of the rooms that are kinds of memory, these headers are of no place: rights of devices, which are
# the driver's (access), and what the program's own memory is (source, maps).
@test "hook/ names no place, and includes nothing of a place's own room" {
    grep -nE 'ZC_PLACE_|#include "(host|vmm|managed|shared)/' shim/hook/* |
        grep -vE '"(vmm/access|host/(source|maps))\.h"' | no_findings "places in shim/hook/:"
    local calls
    calls=$(grep -hoE '^[a-z].*\bzc_[a-z_]+\(' shim/{host,vmm,managed,shared}/*.h |
        grep -oE 'zc_[a-z_]+\($' | tr -d '(' |
        grep -vE '^zc_(access|retreat|source|maps)' | sort -u)
    [[ $(wc -l <<<"$calls") -gt 100 ]]
    grep -nowFf <(echo "$calls") shim/hook/* | no_findings "calls of a place's own room:"
}

@test "sample programs know nothing of libzc" {
    find kernels -name '*.c' -o -name '*.h' -o -name '*.cu*' | xargs grep -niE 'libzc|\bzc_' |
        no_findings "libzc in kernels/:"
}

@test "shellcheck finds nothing in the shell scripts" {
    command -v shellcheck >/dev/null || skip "no shellcheck"
    { sources sh; ls .ci/run; } | xargs shellcheck
}

# `set -e` ignores a command that `!` negates: use `run !`, `run -1` or `!=`.
@test "no test has an assertion that cannot fail because of a !" {
    sources bats bash | xargs grep -nE '(^|;|&&|[|][|]|do|then|else)[[:blank:]]*! [[a-z]' |
        grep -vE ':[[:blank:]]*(#|(if|while|until) )' | no_findings "use 'run !':"
    command -v shellcheck >/dev/null || skip "no shellcheck"
    sources bats | xargs -P 2 -n 6 shellcheck --shell=bats --include=SC2314,SC2315
}

@test "Python scripts need the standard library alone" {
    command -v python3 >/dev/null || skip "no python3"
    # Programs under tests/gpu/apps stand for users' own, with the frameworks that users have; a
    # browser is driven by Selenium, and pytest loads its plugin by itself.  What `zc` works without
    # may be used if the user has it: its import fails with a message.
    find scripts tests -name '*.py' -not -path 'tests/gpu/apps/*' \
        -not -path tests/tools/browser.py -not -path scripts/zclib/pytest_plugin.py |
        python3 -c '
import ast, pathlib, sys
for name in sys.stdin.read().split():
    path = pathlib.Path(name)
    tree = ast.parse(path.read_text(encoding="utf-8"), name)
    names, told = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any("ImportError" in ast.dump(on) for on in node.handlers):
            told.update(part for line in node.body for part in ast.walk(line))
    for node in ast.walk(tree):
        if node in told:
            continue
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module.split(".")[0])
    beside = {other.stem for other in path.parent.glob("*.py")}
    foreign = names - beside - set(sys.stdlib_module_names) - {"zclib", "gpu"}
    if foreign:
        print(name, *sorted(foreign))' | no_findings "modules that Python does not bring:"
}

@test "cppcheck finds nothing in the library" {
    command -v cppcheck >/dev/null || skip "no cppcheck"
    # ctuPointerArith takes a pointer just past an array, which C allows, for an overflow; the shift
    # of a negative number is an arithmetic one in gcc and clang; ctuuninitvar does not see a struct
    # that is filled field by field; CastIntegerToAddressAtReturn takes the functions of signal.def,
    # which return function pointers, for ones that return int.
    cppcheck --quiet --inline-suppr --error-exitcode=1 --enable=warning,portability \
        --std=c11 --max-configs=2 -D__GNUC__=12 -D__x86_64__=1 -D__linux__=1 -D_GNU_SOURCE=1 \
        -DCUDA_VERSION=12080 \
        --suppress=missingIncludeSystem --suppress=ctuPointerArith \
        --suppress=shiftTooManyBitsSigned --suppress=ctuuninitvar \
        --suppress=CastIntegerToAddressAtReturn -Ishim -I. shim policy tools
}
