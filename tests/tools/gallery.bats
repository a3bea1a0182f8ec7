#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The gallery: its programs run watched, its page says what is kept, and names no machine.

load programs

setup() {
    need_gpu_programs
    need_built "$PWD/$ZC_BUILD/kernels/overlap-shared"
}

@test "the programs of the gallery run watched, and become pages that name no folder and no host" {
    local made=$BATS_TEST_TMPDIR/made into=$BATS_TEST_TMPDIR/gallery name
    SIM=1 run -0 tests/bench/run.sh gallery "$made"
    for name in gather vecadd pipeline grow wrong-policy; do
        [[ $output == *"$name: watched"* ]]
        grep -q uPlot "$made/$name.html"
        (($(stat -c %s "$made/$name.html") < 250000))
    done
    run -1 grep -lE '/(tmp|root|home|work)/|"host":"'"$(hostname)"'"' "$made"/*
    # Nothing of a simulated GPU is in the tree; the page is made all the same.
    run -0 tests/bench/run.sh gallery "$made" --keep "$into"
    run -0 tr '\n' ' ' <"$into/README.md"
    [[ $output == *"on Simulated GPU (libzc tests), and"* ]]
    [[ $output == *"[grow.html](grow.html)"* ]]
    [[ $output == *"vecadd<<<vecadd_blocks(n), VECADD_THREADS>>>"* ]]
    [[ $output == *"*Growing and appending*: **"*"** bare, **"* ]]
    run -1 grep -nE '[{](first|hand|other|process)|\bNone\b|\*\*-\*\*' "$into/README.md"
}

@test "the gallery in the tree is what the kept results, the sources and its pages give" {
    [ -e docs/gallery/README.md ] || skip "no gallery was kept"
    tests/bench/run.sh gallery docs/gallery --keep "$BATS_TEST_TMPDIR/again"
    diff -r docs/gallery "$BATS_TEST_TMPDIR/again"
    run -1 grep -l Simulated docs/gallery/*
}
