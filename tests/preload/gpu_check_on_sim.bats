#!/usr/bin/env bats
# The check for real GPUs on the simulated one: what it leaves.

load common.bash

setup() {
    need_built "$LIBZC" "$ZC_BUILD/kernels/storm-shared" "$ZC_BUILD/tests/gpu/driver_facts"
    command -v python3 >/dev/null || skip "no python3"
    sim_env vecadd
    export OUT_DIR=$BATS_TEST_TMPDIR/out ZC_JOBS=1
}

# Of the builds of storm the simulation runs the one with the shared runtime.  Its places run side
# by side, and are found in their order.
@test "the check writes what each program did in each place" {
    ZC_JOBS=4 run -1 tests/gpu/run.sh kernels only=storm
    [[ $(grep -c "^| storm-shared | .* | same |" "$OUT_DIR/RESULTS.part.md") -eq 9 ]]
    places=$(sed -n "s/^| storm-shared | \([a-z]*\) .*/\1/p" "$OUT_DIR/RESULTS.part.md" | xargs)
    [[ $places == "bare none device mapped managed vmm grow pinned shared" ]]
    grep -q "^| storm-static | bare | FAILED: exit status 3 |" "$OUT_DIR/RESULTS.part.md"
    grep -q "^8 rows the same as bare, 1 failed, .* not measured\.$" "$OUT_DIR/RESULTS.part.md"
}

# Tens of programs are left as the first has ended.
@test "a check that is ended early leaves the table of the programs that have ended" {
    tests/gpu/run.sh kernels >"$BATS_TEST_TMPDIR/said" &
    local check=$!
    until grep -q "^kernels " "$BATS_TEST_TMPDIR/said"; do
        kill -0 "$check"
        sleep 0.05
    done
    kill -KILL "$check"
    wait "$check" || true
    read -r _ first _ <"$BATS_TEST_TMPDIR/said"
    grep -q "^| ${first%:}" "$OUT_DIR/RESULTS.part.md"
}
