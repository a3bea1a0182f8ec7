#!/usr/bin/env bats
# The simulated GPU answers as a real driver does: the facts of tests/gpu/driver_facts.def, asked of
# both, are the same but for the short list below.  The real driver's answers are kept in
# tests/gpu/driver_facts.h200.txt.

load common.bash

KEPT=tests/gpu/driver_facts.h200.txt

# Facts in which the simulation differs, as extended regular expressions, each with the reason.
allowed() {
    sed -E 's/^ *([^ ].*[^ ])  +# .*/^(\1)$/' <<'FACTS'
    [a-z_0-9]+ MEMORY_BLOCK_ID  # whether blocks share physical memory is the driver's own affair
FACTS
}

# Prints what of the first file is not in the second, without the facts that may differ.
differences() {
    diff "$1" "$2" | sed -nE 's/^[<>] (.*): .*/\1/p' | sort -u | grep -vxEf <(allowed) || true
}

@test "every fact of the kept file is asked for, and in the same order" {
    need_built "$ZC_BUILD/tests/gpu/driver_facts"
    sim_env none
    "$ZC_BUILD/tests/gpu/driver_facts" | sed 's/: .*//' >"$BATS_TEST_TMPDIR/names"
    sed 's/: .*//' "$KEPT" | diff - "$BATS_TEST_TMPDIR/names"
}

@test "the simulated GPU answers as the real driver does" {
    need_built "$ZC_BUILD/tests/gpu/driver_facts"
    sim_env none
    "$ZC_BUILD/tests/gpu/driver_facts" >"$BATS_TEST_TMPDIR/facts"
    found=$(differences "$KEPT" "$BATS_TEST_TMPDIR/facts")
    [[ -z $found ]] || {
        while read -r name; do
            grep -F -m 1 "$name: " "$KEPT" | sed 's/^/real: /'
            grep -F -m 1 "$name: " "$BATS_TEST_TMPDIR/facts" | sed 's/^/simulated: /'
        done <<<"$found"
        false
    }
}

@test "under libzc without a policy the answers are the driver's own" {
    need_built "$ZC_BUILD/tests/gpu/driver_facts"
    sim_env none
    "$ZC_BUILD/tests/gpu/driver_facts" >"$BATS_TEST_TMPDIR/bare"
    env ZC_POLICY=off ZC_LOG=off ZC_SUMMARY=0 LD_PRELOAD="$LIBZC" \
        "$ZC_BUILD/tests/gpu/driver_facts" >"$BATS_TEST_TMPDIR/watched"
    diff "$BATS_TEST_TMPDIR/bare" "$BATS_TEST_TMPDIR/watched"
}
