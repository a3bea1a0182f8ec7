#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The manual pages: right in form, and about everything there is.

load common

setup() {
    need_python
}

# Prints the long options of a subcommand.
options() {
    zc "$1" --help | grep -oE '^ +-.*' | grep -oE -- '--[a-z_-]+' | sort -u
}

commands() {
    zc --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

# The text of a page without its markup.
page() {
    sed -E 's/^\.\\".*//; s/^\.[A-Z][a-z]+ //; s/ (Ns|Ar|Cm|Fl|Pa|No|Op) / /g' "docs/man/$1"
}

@test "mandoc finds nothing wrong with the pages" {
    command -v mandoc >/dev/null || skip "no mandoc"
    run -0 mandoc -Tlint -W warning docs/man/*
    [[ -z $output ]]
}

@test "man formats the pages without a warning" {
    command -v man >/dev/null || skip "no man"
    for file in docs/man/*; do
        MANWIDTH=80 run -0 man --warnings -l -Tutf8 "$file"
        [[ $output != *warning:* ]]
    done
}

@test "zc(1) has every command and every option" {
    [[ $(commands | wc -l) -ge 7 ]]
    for command in $(commands); do
        grep -q "^\.Ss zc $command$" docs/man/zc.1
        for option in $(options "$command"); do
            [[ $option == --help ]] && continue
            sed -n "/^\.Ss zc $command$/,/^\.S[sh] /p" docs/man/zc.1 |
                grep -qE -- "Fl -${option#--}( |$)" || { echo "$command $option"; return 1; }
        done
    done
}

@test "the tables of keys are what policy/keys.def says" {
    run -0 scripts/keytables.py --check
    copy=$BATS_TEST_TMPDIR/copy
    mkdir -p "$copy/docs" "$copy/policy" "$copy/scripts"
    cp -r docs/policy.md docs/man "$copy/docs"
    cp scripts/keytables.py "$copy/scripts"
    sed 's/CUDA ordinal of the/number of the/' policy/keys.def >"$copy/policy/keys.def"
    run -1 "$copy/scripts/keytables.py" --check
    [[ $output == *"-| \`device\`"*"CUDA ordinal"*"+| \`device\`"*"Number of the"* ]]
    [[ $output == *"-CUDA ordinal"*"+Number of the"* ]]
    "$copy/scripts/keytables.py"
    run -0 "$copy/scripts/keytables.py" --check
}

@test "the manual, the page and the sample policy have every key with all its words" {
    run -0 python3 - docs/man/policy.conf.5 docs/policy.md policy/policy.conf <<'PYTHON'
import re, subprocess, sys
sys.path.insert(0, "scripts")
from zclib import policies
manual, page, sample = (open(path).read() for path in sys.argv[1:])
for key in policies.keys():
    item = re.search(rf"^\.It Ic {key.name} .*?(?=^\.It|^\.El)", manual, re.M | re.S)
    row = re.search(rf"^\| [^|\n]*`{key.name}`[^|\n]*\|.*$", page, re.M)
    assert item and row and re.search(rf"^# *{key.name} *=|^{key.name} *=", sample, re.M), key.name
    if "|" in key.values or "none" in key.values:
        for word in set(re.findall(r"[a-z_-]{2,}", key.values)) - {"percent", "path", "nth"}:
            assert word in item.group().lower() and word in row.group(), (key.name, word)
PYTHON
}

@test "the log's reference has every code of a message" {
    run -0 python3 - docs/log.md <<'PYTHON'
import glob, re, sys
page = open(sys.argv[1]).read()
codes = set()
for path in glob.glob("shim/**/*.c", recursive=True):
    codes |= set(re.findall(r'zc_message\(\s*ZC_[A-Z]+,\s*"([^"]*)"', open(path).read()))
assert len(codes) > 10, codes
rows = "".join(re.findall(r"^\|[^|]*\|", page.partition("### warn")[2].partition("### ")[0], re.M))
missing = sorted(code for code in codes if f"`{code}`" not in rows)
assert not missing, missing
PYTHON
}

@test "libzc(7) has every variable" {
    for variable in $(grep -oE '"ZC_[A-Z_]+"' shim/base/options.h | tr -d '"'); do
        grep -q "^\.It Ev $variable$" docs/man/libzc.7 || { echo "$variable"; return 1; }
    done
}

@test "the commands of the pages' examples are there" {
    for command in $(grep -hoE '(^\.Dl \$|;) zc [a-z]+' docs/man/* | grep -oE '[a-z]+$'); do
        commands | grep -qx "$command"
    done
}
