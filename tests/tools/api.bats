#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc.h and its Python twin: programs ask libzc what their memory is in, and run without it.

load programs

setup() {
    need_python
    program=$PWD/$ZC_BUILD/tests/preload/programs/asks
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_SUMMARY=0
    unset ZC_POLICY ZC_LOG ZC_LOG_LEVEL
}

@test "a program that uses zc.h runs without libzc, which then knows nothing" {
    run -0 "$program"
    [[ $output == 'present 0 level -1
new: unknown
level -1 -1 -1 -1
used: unknown
pinned: unknown
static: unknown
freed: unknown' ]]
}

@test "a program is told what its memory is in, and its ranges are in the log" {
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=events
    run -0 under_policy $'place = vmm\ncommit = lazy' "$program"
    [[ $output == 'present 1 level 0
new: 1048577 of cuMemAlloc in vmm, Device, rule all, 0 on the device
level 1 1 0 -1
used: 1048577 of cuMemAlloc in vmm, Device, rule all, 1048577 on the device
pinned: 1048576 of cuMemHostAlloc in pinned, Pinned, rule -, 0 on the device
static: unknown
freed: unknown' ]]
    [[ $(grep -o '"type":"alloc".*"range":"outer"' "$ZC_LOG" | wc -l) == 1 ]]
    [[ $(grep -o '"type":"transfer".*"range":"inner"' "$ZC_LOG" | wc -l) == 1 ]]
}

@test "what is on the device is known of each place" {
    local place bytes expected=$'device 1048577\nvmm 1048577\nmapped 0\nmanaged -1\nshared 1048577'
    while read -r place bytes; do
        ZC_LOG=off run -0 under_policy "[rule all]
api = cuMemAlloc
place = $place
access = read
[rule host]
api = malloc
size = 1G..
place = shared" "$program"
        [[ $output == *"used: 1048577 of cuMemAlloc in $place, "*", $bytes on the device"* ]]
    done <<<"$expected"
    ZC_LOG=off run -0 under_policy $'place = vmm\nspill = move\nchunk = 2M\nbudget = 4M' \
        "$program" $((8 << 20))
    [[ $output == *"used: 8388608 of cuMemAlloc in vmm, "*", 2097152 on the device"* ]]
}

@test "zc.h finds libzc from code that is not position-independent, and from C++" {
    local -a flags=(-Wall -Wextra -Werror -fno-pie -no-pie -Iinclude)
    printf '#include "zc.h"\nint main(void) { return zc_present() ? zc_push("a") : 7; }\n' \
        >"$BATS_TEST_TMPDIR/a.c"
    cp "$BATS_TEST_TMPDIR/a.c" "$BATS_TEST_TMPDIR/a.cc"
    for file in a.c a.cc; do
        gcc -O2 "${flags[@]}" -o "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/$file"
        run -7 "$BATS_TEST_TMPDIR/a"
        run -0 env LD_PRELOAD="$LIBZC" "$BATS_TEST_TMPDIR/a"
    done
}

@test "a Python program without libzc is told that it is not there" {
    PYTHONPATH=scripts run -0 python3 -B -c '
from zclib import program
with program.named("a"):
    print(program.present(), program.query(id(program)))'
    [[ $output == "False None" ]]
}
