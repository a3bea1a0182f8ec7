#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Uses of pairs by the CPU, signals and the system, and everything that can be wrong with them: the
# program computes what it does with two memories, or stops with a message.

load common.bash
load pairs.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/shared_faults

setup() {
    pairs_setup
}

@test "a program's own handler gets the program's own faults, installed before or after" {
    both handler_before
    both handler_after
    [[ $output == "caught 2" ]]
}

@test "handlers of other signals may write to shared pages" {
    both inside_a_handler
}

@test "a program may replace the action of SIGSEGV" {
    both replaced
}

@test "a program may block SIGSEGV" {
    both blocked
}

@test "threads that blocked SIGSEGV before the first pair write to it, and see it blocked" {
    both blocked_before
}

@test "a program's handler may write to a pair with all signals blocked, in any thread" {
    both handler_in_thread
    [[ $output == "caught 1, guard 1" ]]
}

@test "eight threads write to one block at once" {
    both threads
    [[ $(ended one) -eq 1 ]]
}

@test "blocks of eight threads that come and go keep their bytes" {
    of shared_stress both rounds
    [[ $(sum elided_copies) -ge 100 && $(sum copied_bytes) -ge $((1 << 20)) ]]
}

@test "blocks of threads that have one side only keep their bytes" {
    of shared_stress both across
}

@test "threads that copy between two device blocks in both directions do not wait for each other" {
    of shared_stress both crossing
}

@test "kernels see what their thread copied, whatever other threads allocate and launch" {
    of shared_stress both launches
    [[ $(sum elided_copies) -ge 48 ]]
}

@test "whatever function fills memory does not reach the device" {
    of shared_io both reads
    (($(grep -c ": 8192, 1 bytes as sent, others kept 1, the device's 1$" <<<"$output") == 30))
}

@test "the kernel fills names, lengths, control data and headers" {
    of shared_io both names
    of shared_io both headers
    [[ $output == *"a descriptor 1"* ]]
}

@test "calls that wait for descriptors fill small structures" {
    of shared_waits both waits
    (($(grep -c ", 1$" <<<"$output") == 23)) # errno is kept.
}

@test "what writes a host block without libc does not reach the device" {
    cd "$BATS_TEST_TMPDIR"
    of shared_writers both raw
    (($(grep -c ": 1, in h 1, the device's 1, copied 1$" <<<"$output") == 11))
    [[ $(ended one) -ge 10 ]]
}

@test "poll and epoll_wait on shared pages can be cancelled" {
    of shared_waits both cancelled
    [[ $output == "cancelled 1"$'\n'"cancelled 1" ]]
}

@test "/proc/self/mem shows and changes what the CPU has, and not the device's" {
    of shared_waits both own_memory
    (($(grep -c "the device's 1$" <<<"$output") == 32))
}

@test "files other than /proc/self/mem may have any offset" {
    of shared_waits both sparse_file
    [[ $(sum copied_bytes) -eq 0 ]]
}

# One message, which names the block and its rule.
names_rule() {
    local all='a write to device block [0-9]* (6 MiB at .*, site .* rule device (.*policy.conf:5)'
    [[ $(grep -c "$all" <<<"$stderr") -eq 1 ]]
}

@test "a kernel that writes what was declared read fails as CUDA fails, and the rule is named" {
    for s in written_by_kernel told_by_launch; do
        scene "$s" 'access = read'
        [[ $status -eq 0 && $output == *"-> 700" ]]
        names_rule
    done
}

@test "whichever call tells first of a kernel that wrote what was declared read names the rule" {
    PROGRAM=${PROGRAM%/*}/shared_told
    for call in $("$PROGRAM"); do
        scene "$call" 'access = read'
        [[ $status -eq 0 && $output == "$call -> 700" && $stderr != *returned* ]]
        names_rule
    done
}

@test "without huge pages everything is the same" {
    both no_huge_pages
    [[ $(sum elided_copies) -eq 1 && $(sum copied_bytes) -eq $((6 << 20)) ]]
}

@test "when mappings run out the CPU and the kernel write all the same" {
    both few_mappings
    [[ $(ended one) -eq 1 ]]
}

@test "when mappings run out a set of the device block is made, or refused by name" {
    both few_mappings_set
    [[ $stderr == *"refused sets 0"* || $stderr == *"rule device ("* ]]
}

@test "where few addresses are left, blocks are shared as long as there is room" {
    ROOM_MIB=20 same few_addresses 'access = read' read
    [[ $stderr == *"over RLIMIT_AS"* && $(ended one) -eq 0 ]]
    ROOM_MIB=100 same few_addresses 'access = read' read
    [[ $(ended one) -eq 1 && $(sum copied_bytes) -eq $((6 << 20)) ]]
}

# Runs a scene under a limit of the shell's: limited_by LIMIT SCENE
limited_by() {
    printf '#!/bin/bash\nulimit %s\nexec %q "$@"\n' "$1" "$PROGRAM" >"$BATS_TEST_TMPDIR/limited"
    chmod +x "$BATS_TEST_TMPDIR/limited"
    PROGRAM=$BATS_TEST_TMPDIR/limited both "$2"
}

@test "blocks that are shared keep no descriptors" {
    PROGRAM=${PROGRAM%/*}/shared_pairs
    limited_by '-n 20' many
    [[ $(sum elided_copies) -ge 1 && $(ended own 'no file') -eq 0 ]]
}

@test "where mappings are few, some blocks have memory of their own, and the log says why" {
    unshare -m true 2>/dev/null || skip "no mounts of its own here"
    PROGRAM=${PROGRAM%/*}/shared_pairs
    echo 64 >"$BATS_TEST_TMPDIR/most"
    printf '#!/bin/bash\nexec unshare -m bash -c %q bash %q "$@"\n' \
        "mount --bind $BATS_TEST_TMPDIR/most /proc/sys/vm/max_map_count && exec \"\$@\"" \
        "$PROGRAM" >"$BATS_TEST_TMPDIR/few"
    chmod +x "$BATS_TEST_TMPDIR/few"
    PROGRAM=$BATS_TEST_TMPDIR/few same many 'access = read' read
    [[ $(sum elided_copies) -ge 1 && $(ended own 'no file') -ge 1 ]]
}

@test "where registering is refused, the device block has memory of its own" {
    SIM_FAIL=cuMemHostRegister_v2:2:0 same roundtrip 'access = read' read
    [[ $(ended own "can't be mapped for the device") -eq 1 ]]
    # One refusal may be that of the thread that registers during the fill.
    SIM_FAIL=cuMemHostRegister_v2:2:1 same roundtrip 'access = read' read
}

# CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED.
@test "where kernels can't be kept from writing, blocks lie on the device" {
    SIM_ATTR=113=0 same written_by_kernel 'access = read'
    [[ -z $pairs ]]
    grep -q '"place":"device".*"why":"shared: the device can.t keep kernels from' "$ZC_LOG"
}

@test "where the kernel does not tell what was written, blocks lie on the device" {
    unshare -m mount -t tmpfs none /proc 2>/dev/null || skip "no mounts of its own here"
    printf '#!/bin/bash\nexec unshare -m bash -c %q bash %q "$@"\n' \
        'mount -t tmpfs none /proc && exec "$@"' "$PROGRAM" >"$BATS_TEST_TMPDIR/without"
    chmod +x "$BATS_TEST_TMPDIR/without"
    PROGRAM=$BATS_TEST_TMPDIR/without same roundtrip 'access = read' read
    [[ -z $pairs ]]
    grep -q '"place":"device".*"why":"shared: the kernel does not tell which pages' "$ZC_LOG"
}

@test "a limit on pinned memory holds for host blocks that would be shared" {
    rm -f "$ZC_LOG"*
    run -0 --separate-stderr under_policy "[defaults]
max_pinned = 4M
$host_rule
[rule device]
api = cudaMalloc
size = 1M..
place = shared
access = read" "$PROGRAM" roundtrip
    [[ $stderr == *"over max_pinned"* ]]
    pairs=$(grep '^{"type":"pair"' "$ZC_LOG")
    [[ $(ended own) -eq 1 ]]
}
