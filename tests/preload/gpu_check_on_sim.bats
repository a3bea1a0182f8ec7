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
    ZC_JOBS=4 run -1 tests/gpu/run.sh kernels together only=storm
    [[ $(grep -c "^| storm-shared | .* | same |" "$OUT_DIR/RESULTS.part.md") -eq 9 ]]
    places=$(sed -n "s/^| storm-shared | \([a-z]*\) .*/\1/p" "$OUT_DIR/RESULTS.part.md" | xargs)
    [[ $places == "bare none device mapped managed vmm grow pinned shared" ]]
    grep -q "^| storm-static | bare | FAILED: exit status 3 |" "$OUT_DIR/RESULTS.part.md"
    grep -q "^8 rows the same as bare, 1 failed, .* not measured\.$" "$OUT_DIR/RESULTS.part.md"
}

@test "a message of a refusal is kept without the folder of the run" {
    need_built "$ZC_BUILD/kernels/rewrite-shared" "$SIM/kernels/sampled.so"
    sim_env sampled
    run -0 tests/gpu/run.sh kernels together only=rewrite-shared
    grep "^| rewrite-shared | shared | refused: .* by rule device (policy.conf" \
        "$OUT_DIR/RESULTS.part.md"
    run -1 grep -F "($BATS_TEST_TMPDIR" "$OUT_DIR/RESULTS.part.md"
    run -1 grep -F "(/" "$OUT_DIR/RESULTS.part.md"
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

# A part of a check of version $1 with rows of storm: part VERSION PLACE RESULT...
part() {
    local version=$1
    printf -- '- %s: a day; a GPU\n\n' "$version"
    for ((i = 2; i < $#; i += 2)); do
        echo "| storm | ${!i} | ${@:i + 1:1} | 0.1 | 1 | 2 | 3 | 4 | 0 | $version |"
    done
}

@test "kept results take the newer rows and keep the others, each with its version" {
    cd "$BATS_TEST_TMPDIR"
    local results=$BATS_TEST_DIRNAME/../gpu/results.py
    printf 'Head.\n<!-- results: begin -->\n<!-- results: end -->\nTail.\n' >kept.md
    part aaa bare same mapped same vmm "refused: a rule" >first.md
    part bbb mapped "FAILED: other bytes" vmm "skipped: no GPU" >second.md
    part aaa bare same | sed "s/storm/later/" >>first.md
    "$results" first.md second.md --into kept.md
    [[ $(head -n 1 kept.md) == Head. && $(tail -n 1 kept.md) == Tail. ]]
    grep -q "^0 rows the same as bare, 1 failed, 1 refused, .* 4 rows agree" kept.md
    [[ $(grep "^- " kept.md) == "- aaa: a day; a GPU"$'\n'"- bbb: a day; a GPU" ]]
    [[ $(sed -n 's/^| storm | \([a-z]*\) .* | \([a-z]*\) |$/\1 \2/p' kept.md | xargs) == \
        "bare aaa mapped bbb vmm aaa" ]]
    part ccc bare same mapped same vmm same none same >third.md
    sed "s/storm/later/" third.md >fourth.md
    "$results" third.md fourth.md --into kept.md
    [[ $(grep "^- " kept.md) == "- ccc: a day; a GPU" ]]
    # The rows of a program stay together.
    [[ $(sed -n 's/^| \(storm\|later\) .*/\1/p' kept.md | uniq | xargs) == "storm later" ]]
    echo "| storm | bare | same |" >short.md
    cp kept.md before.md
    run -1 "$results" short.md --into kept.md
    [[ $output == *"short.md: not a row of results"* ]]
    cmp before.md kept.md
}
