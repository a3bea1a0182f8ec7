# SPDX-License-Identifier: MIT
# Helpers of the tests of zc: kept logs, golden outputs, and running zc without the caller's
# settings.  Tests run in the top folder of the source tree.

bats_require_minimum_version 1.5.0

LOGS=tests/tools/logs

zc() {
    env -u NO_COLOR -u COLUMNS scripts/zc "$@"
}

# Skips the test where there is no Python that zc runs with.
need_python() {
    command -v python3 >/dev/null || skip "no python3"
}

# Compares the output of zc, messages included, with a kept one: golden NAME ARGUMENT...
# ZC_WRITE_GOLDEN=1 keeps what comes out, to be looked at before it is committed.
golden() {
    local kept=tests/tools/golden/$1
    shift
    zc "$@" >"$BATS_TEST_TMPDIR/out" 2>&1 || echo "exit status $?" >>"$BATS_TEST_TMPDIR/out"
    if [[ -n ${ZC_WRITE_GOLDEN:-} ]]; then
        cp "$BATS_TEST_TMPDIR/out" "$kept"
    fi
    diff "$kept" "$BATS_TEST_TMPDIR/out"
}

# Prints one value of zc's JSON: json EXPRESSION ARGUMENT...   The expression's `d` is the object.
json() {
    local expression=$1
    shift
    zc "$@" --json 2>/dev/null |
        python3 -c 'import json, sys
d = json.load(sys.stdin)
print(eval("(" + sys.argv[1] + ")"))' "$expression"
}
