#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What the CPU, signals and the system do to pairs, and everything that can be wrong with them: the
# program computes what it does with two memories, or stops with a message.

load common.bash
load pairs.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/shared_faults

setup() {
    pairs_setup
}

# The scene must stop by SIGABRT, with a message that has all words: stops SCENE WORD...
stops() {
    local word
    scene "$1" ''
    shift
    [[ $status -eq 134 ]]
    for word in "$@"; do
        [[ $stderr == *"$word"* ]] || { echo "no '$word'"; return 1; }
    done
    [[ $stderr == *"rule device ("*"policy.conf:5)"* ]]
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
}

@test "blocks of eight threads that come and go keep their bytes" {
    need_built "${PROGRAM%/*}/shared_stress"
    PROGRAM=${PROGRAM%/*}/shared_stress
    both rounds
    [[ $(sum elided_copies) -ge 480 ]]
}

@test "blocks of threads that have one side only meet each other's, and keep their bytes" {
    need_built "${PROGRAM%/*}/shared_stress"
    PROGRAM=${PROGRAM%/*}/shared_stress
    both across
    [[ $(grep -vc '"host_block":null' <<<"$pairs") -ge 5 ]]
}

@test "threads that copy between two pairs in both directions do not wait for each other" {
    need_built "${PROGRAM%/*}/shared_stress"
    PROGRAM=${PROGRAM%/*}/shared_stress
    both crossing
}

@test "kernels see what their thread copied, whatever other threads allocate and launch" {
    need_built "${PROGRAM%/*}/shared_stress"
    PROGRAM=${PROGRAM%/*}/shared_stress
    same launches 'access = read'
    [[ $(sum elided_copies) -ge 48 ]]
}

# Scenes of the programs that make system calls.
io() {
    need_built "${PROGRAM%/*}/shared_io"
    PROGRAM=${PROGRAM%/*}/shared_io
    both "$@"
}

waits() {
    need_built "${PROGRAM%/*}/shared_waits"
    PROGRAM=${PROGRAM%/*}/shared_waits
    "$@"
}

@test "every function that fills memory succeeds in protected pages, unseen by the device" {
    io reads
    [[ $(sum parted_pages) -ge 60 ]] # Two of each call's pair.
    (($(grep -c ": 8192, 1 bytes as sent, others kept 1, the device's 1$" <<<"$output") == 30))
}

@test "the kernel fills names, lengths, control data and headers in protected pages" {
    io names
    [[ $(sum parted_pages) -ge 2 ]]
    io headers
    [[ $(sum parted_pages) -ge 2 ]]
    [[ $output == *"a descriptor 1"* ]]
}

@test "calls that wait for descriptors or fill small structures succeed in protected pages" {
    waits both waits
    (($(grep -c ", 1$" <<<"$output") == 23)) # errno is kept.
    [[ $(sum parted_pages) -ge 23 ]]
}

@test "poll and epoll_wait on protected pages can be cancelled" {
    waits both cancelled
    [[ $output == "cancelled 1"$'\n'"cancelled 1" ]]
}

@test "/proc/self/mem shows and changes what the CPU has, and not the device's" {
    waits both own_memory
    (($(grep -c "the device's 1$" <<<"$output") == 32))
    [[ $(sum parted_pages) -ge 28 ]] # Two of each call that writes.
}

@test "reading lost content through /proc/self/mem stops, and other files have any offset" {
    waits stops lost_memory 'the CPU reads byte 7 of host block 1'
    waits same sparse_file ''
    [[ $(sum conflicts) -eq 0 && $(sum parted_pages) -eq 0 ]]
}

@test "reading what kernels may have overwritten stops the program with a message" {
    stops lost_read 'the CPU reads byte 2097157 of host block 1 (site ' 'its content is lost' \
        'device block 2 (6 MiB, site '
    stops lost_io 'the CPU reads byte 0 of host block 1'
}

@test "writing a part of it stops the program with a message" {
    stops lost_write 'byte 5 of host block 1' 'its content is lost'
}

@test "copying it fails with a message" {
    scene lost_copy ''
    [[ $status -eq 0 && $output == *"-> 1" && $stderr == *"a copy needs byte 0 of host block 1"* ]]
}

@test "what was lost stays lost when the device block is freed" {
    stops lost_for_good 'before the program freed it'
}

@test "copying what was lost fails with a message after the device block is freed too" {
    scene lost_copied_late ''
    [[ $status -eq 0 && $output == *"-> 1"* && $output == *"-> 0"* ]]
    [[ $stderr == *"a copy needs byte 0 of host block 1"*"before the program freed it"* ]]
}

@test "calls that name a freed device block are refused as without pairs, and blame no rule" {
    same lost_and_misused ''
    [[ -z $stderr ]]
}

@test "lost blocks that nobody reads are freed and used again" {
    same lost_and_freed ''
}

@test "a thread goes on to block the signals that it blocked" {
    same signals_blocked ''
}

@test "a kernel that writes what was declared read fails as CUDA fails, and the rule is named" {
    scene written_by_kernel 'access = read'
    [[ $status -eq 0 && $output == *"-> 700" ]]
    [[ $stderr == *"a write to device block 2 (6 MiB at "*", site "*"rule device ("*"conf:5)"* ]]
}

@test "a launch that tells of a kernel that wrote what was declared read names the rule" {
    scene told_by_launch 'access = read'
    [[ $status -eq 0 && $output == *"-> 700" ]]
    [[ $stderr == *"a write to device block 2 (6 MiB at "*", site "*"rule device ("*"conf:5)"* ]]
}

@test "whichever call tells first of a kernel that wrote what was declared read names the rule" {
    PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/shared_told
    for call in $("$PROGRAM"); do
        scene "$call" 'access = read'
        [[ $status -eq 0 && $output == "$call -> 700" ]]
        [[ $(grep -c "a write to device block .* rule device (.*conf:5)" <<<"$stderr") -eq 1 ]]
        [[ $stderr != *returned* ]]
    done
}

@test "without huge pages everything is the same" {
    both no_huge_pages
    [[ $stderr == *"same address 1"* ]]
}

@test "when mappings run out the program stops with a message" {
    scene few_mappings ''
    [[ $status -eq 0 || ($status -eq 134 && $stderr == *"rule device ("*"vm.max_map_count"*) ]]
}

@test "when mappings run out a set of the device block is refused, and the host block stays" {
    scene few_mappings_set ''
    [[ $status -eq 0 && $stderr == *"refused sets "[1-9]* && $stderr == *"rule device ("* ]]
}

@test "where few addresses may be reserved, blocks stay where the program put them" {
    for room in 100 1000 100000; do
        ROOM_MIB=$room same few_addresses ''
        grep -q '"why":"[^"]*RLIMIT_AS' "$ZC_LOG"
    done
}

@test "where registering is refused, the next place of the list is taken" {
    SIM_FAIL=cuMemHostRegister_v2:2:1 device_place='shared, device' scene roundtrip ''
    [[ $status -eq 0 && $stderr == *"same address 0, device blocks 1"* ]]
    grep -q '"why":"[^"]*cuMemHostRegister refuses' "$ZC_LOG"
    SIM_FAIL=cuMemHostRegister_v2:2:0 scene roundtrip ''
    [[ $status -eq 0 && $stderr == *"same address 0, device blocks 1"* ]]
}

@test "where kernels may not be kept from writing, declared readers may" {
    SIM_ATTR=113=0 scene written_by_kernel 'access = read'
    [[ $status -eq 134 && $output == *"-> 0" && $stderr == *"its content is lost"* ]]
}

@test "blocks of other sizes than each other's are not paired by size, and the log has the rule" {
    same unequal ''
    [[ $stderr == *"same address 0"*"a host block (5 MiB) that is not its own"* ]]
    [[ $pairs == *'"host_block":null'*'"why":"no host block of its size"'* ]]
    right=$(sed -nE "s/.*'(pair = site:[0-9a-f]{8}:1)'.*/\1/p" <<<"$stderr")
    same unequal "$right"
    [[ $stderr == *"same address 1"* && $pairs == *'"why":null'* ]]
}

@test "a site in pair that does not exist is told, and nothing is lost" {
    same roundtrip 'pair = site:0badf00d:3'
    [[ $stderr == *"got no host block: 'pair' names site 0badf00d, number 3 "* ]]
    [[ $pairs == *"\"why\":\"no host block of the site in 'pair'\""* ]]
}

@test "a limit on pinned memory holds for pairs" {
    rm -f "$ZC_LOG"*
    run -0 --separate-stderr under_policy "[defaults]
max_pinned = 4M
$host_rule
[rule device]
api = cudaMalloc
size = 1M..
place = shared, mapped, device" "$PROGRAM" roundtrip
    [[ $stderr == *"same address 0, device blocks 1"*"max_pinned"* || \
       $stderr == *"max_pinned"*"same address 0, device blocks 1"* ]]
}
