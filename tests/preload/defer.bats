#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Frees that return before the work that uses the block has ended: `free = defer` is an unchecked
# promise of the rule, and until then nobody else gets the memory.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/defer
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=off ZC_SUMMARY=0 SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
}

# Runs a scenario with the given keys; nothing may stay live: freed_under KEYS SCENARIO
freed_under() {
    rm -f "$SIM_LEAKS"
    run -0 --separate-stderr under_policy "place = vmm$1" timeout 60 "$program" "$2"
    [[ -e $SIM_LEAKS && ! -s $SIM_LEAKS && -z $stderr ]] || { cat "$SIM_LEAKS"; return 1; }
}

@test "a free waits for the work that runs, unless its rule says that it need not" {
    for scenario in one growing reset; do
        freed_under '' "$scenario"
        [[ ${lines[0]} == 'free waited' ]]
        freed_under $'\ngrow = yes' "$scenario"
        [[ ${lines[0]} == 'free waited' ]]
    done
    for scenario in one growing reset; do
        freed_under $'\nfree = defer' "$scenario"
        [[ ${lines[0]} == 'free returned' ]]
    done
}

@test "memory of a deferred free is nobody else's before the work has ended, then serves again" {
    freed_under $'\nfree = defer' one
    [[ ${lines[1]} == 'made 3' ]] # Two blocks, and the host memory at both ends of both.
}

@test "memory whose unmapping is refused once the work has ended stays, and is told" {
    program=$PWD/$ZC_BUILD/tests/preload/programs/requests
    SIM_FAIL=cuMemUnmap:999:0 run -0 --separate-stderr under_policy $'[defaults]
max_device = 5M
[rule all]
place = vmm
free = defer' timeout 60 "$program" -f 4 5 3
    [[ $stderr == *'of '"'vmm'"' that the program has freed (code 999): it stays allocated' ]]
    [[ ${#stderr_lines[@]} == 1 ]]
}

@test "an array grows away from under a kernel that writes it" {
    freed_under $'\ngrow = yes\nfree = defer' growing
    [[ ${lines[0]} == 'free returned' ]]
}

@test "what an array's copy leaves out is written by no work that was given before its free" {
    freed_under $'\ngrow = yes\nfree = defer' half_grown
    [[ ${lines[0]} == 'free waited' ]]
}

@test "an array that another device copies stays open to it until the copy is made" {
    export SIM_DEVICES=2
    run -0 timeout 60 "$program" copied_from_afar
    freed_under $'\ngrow = yes\nfree = defer' copied_from_afar
    [[ ${lines[0]} == 'free waited' ]]
}

# How often `grow` waits for the context before its last launch, under a preset; its result must
# be that of the bare program.
waits_under() {
    local command=(timeout 60 "$ZC_BUILD/kernels/grow-shared" 8 2097152 1) bare
    run -0 --separate-stderr "${command[@]}"
    bare=$(json_field checksum <<<"$output")
    SIM_TRACE=$BATS_TEST_TMPDIR/trace run -0 --separate-stderr under_policy \
        "$(cat "policy/presets/$1.conf")" "${command[@]}"
    [[ $(json_field checksum <<<"$output") == "$bare" ]]
    [[ $(json_field verified <<<"$output") == true ]]
    waits=$(awk '/^cuCtxSynchronize/ {n++} /^cuLaunchKernel/ {last = n} END {print last + 0}' \
        "$BATS_TEST_TMPDIR/trace")
    rm "$BATS_TEST_TMPDIR/trace"
}

@test "a vector that grows waits for its kernels at each step, and not under growing-deferred" {
    need_built "$ZC_BUILD/kernels/grow-shared" "$SIM/kernels/grow.so"
    sim_env grow
    waits_under growing-arrays
    [[ $waits -eq 7 ]]
    waits_under growing-deferred
    [[ $waits -eq 0 ]]
}

@test "addresses are not taken from work that can't be waited for" {
    run -0 --separate-stderr under_policy $'place = vmm\ngrow = yes\nfree = defer' timeout 60 \
        "$program" no_waiting
    [[ $output == $'free returned\nset 999' ]]
    [[ $stderr == *'cuMemsetD8_v2 returned 999: block 3'*"can't be unmapped"* ]]
    [[ ! -s $SIM_LEAKS ]]
}

@test "streams that were destroyed with work hold no free up once that has ended" {
    freed_under $'\nfree = defer' many_destroyed
    [[ $output == 'free returned' ]]
}

@test "a free waits where no event stands for all work, or none can be made" {
    for scenario in independent destroyed destroyed_in_capture; do
        freed_under $'\nfree = defer' "$scenario"
        [[ $output == 'free waited' ]]
    done
    for call in cuEventCreate cuEventRecord; do
        SIM_FAIL=$call:2:0 freed_under $'\nfree = defer' reset
        [[ $output == 'free waited' ]]
    done
}

@test "a free waits once streams wait for the CPU, so that no later call has to" {
    for scenario in host_work semaphore; do
        freed_under $'\nfree = defer' "$scenario"
        [[ $output == 'free waited' ]]
    done
    for scenario in host_call_behind host_node_behind; do
        freed_under $'\ngrow = yes\nfree = defer' "$scenario"
        [[ $output == 'free returned' ]]
    done
}

@test "a free during a capture that allows it leaves the capture as it is" {
    run -0 timeout 60 "$program" in_capture
    for keys in '' $'\nfree = defer' $'\ngrow = yes\nfree = defer'; do
        freed_under "$keys" in_capture
        freed_under "$keys" spare_in_capture
    done
}

@test "a request fails for want of memory that a stream still has which waits for the program" {
    export SIM_MEMORY_MIB=64
    run -0 timeout 60 "$program" held_memory
    [[ $output == 'cuMemAlloc(&q, 48 * MIB) -> 2' ]]
    local bare=$output
    freed_under '' held_memory
    [[ $output == "$bare" ]]
}

@test "freed memory counts as free once the work that used it has ended" {
    run -0 timeout 60 "$program" figures
    [[ $output == $'free\nfree' ]]
    for keys in '' $'\nfree = defer' $'\ngrow = yes\nfree = defer'; do
        freed_under "$keys" figures
        [[ $output == $'free\nfree' ]]
    done
}

@test "threads that find no other memory wait for that of the same deferred frees" {
    export SIM_MEMORY_MIB=64
    freed_under $'\nfree = defer' last_memory_of_two
    [[ $output == 'free returned' ]]
}

@test "a request that finds no other memory waits for that of deferred frees" {
    export SIM_MEMORY_MIB=64
    freed_under $'\nfree = defer' last_memory
    [[ $output == 'free returned' ]]
    freed_under $'\nfree = defer\nsize = ..44M' last_memory
    [[ $output == 'free returned' ]]
    run -0 timeout 60 "$program" last_memory
}
