#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Changes of programs to the pages of their own blocks (madvise, mmap over them, munmap, mremap,
# mprotect): with `pinned` and with pairs they see what they see bare.

load common.bash
load pairs.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/own_pages

setup() {
    pairs_setup
}

# A scene bare, and with host blocks in `pinned`.
pinned() {
    run -0 --separate-stderr timeout 60 "$PROGRAM" "$1"
    bare=$output
    rm -f "$SIM_LEAKS"
    run -0 --separate-stderr under_policy "api = malloc, posix_memalign
place = pinned" timeout 60 "$PROGRAM" "$1"
    diff <(echo "$bare") <(echo "$output")
    [[ -z $stderr && -e $SIM_LEAKS && ! -s $SIM_LEAKS ]]
}

# The same, and with pairs.
everywhere() {
    pinned "$1"
    both "$1"
}

@test "pages that the program needs no more are zeroes to the next copy" {
    everywhere discarded
    [[ $(sum elided_copies) -ge 1 ]]
    both discarded_lost
}

@test "other advice changes nothing that the program sees" {
    everywhere advised
}

@test "blocks whose pages the kernel filled at once share them all the same" {
    everywhere populated
    (($(sum elided_copies) >= 3))
}

@test "fresh memory over a block is what the next copy brings, and faults are the program's" {
    everywhere mapped_fresh
}

@test "a file over a block is what copies read and write" {
    everywhere mapped_file
}

@test "pages that are unmapped are gone, and nobody else's memory lies there" {
    everywhere unmapped
}

@test "pages may leave a block, and come back" {
    everywhere moved
}

@test "a collector's write barriers see each page once" {
    everywhere barriers
}

@test "copies run into barriers as copies of pageable memory do" {
    everywhere barriers_and_copies
}

@test "guard pages stay closed, and what lies beside them is open" {
    everywhere guards
    everywhere guards_and_kernels
}

@test "blocks that were changed are freed, and the next ones have nothing of it" {
    everywhere freed
}

@test "blocks that are registered together are changed apart" {
    pinned small
}

@test "guards of the kernel's over a block fault, and are zeroes when they are removed" {
    everywhere kernel_guards
}

@test "a segment of shared memory over a block is what the next copy brings" {
    everywhere segment
}

@test "a forked child has its parent's changes, and makes its own" {
    everywhere forked
}

@test "threads change blocks of their own at the same time" {
    everywhere threads
}

@test "what the kernel refuses is refused as bare" {
    everywhere refused
}

# Lines of a run that differ from those of a bare one.
raw_under() {
    run -0 --separate-stderr under_policy "$1" timeout 60 "$PROGRAM"
    diff <(echo "$bare") <(echo "$output") | sed -n 's/^> //p' >"$BATS_TEST_TMPDIR/differ"
    [[ -z $stderr && -s $BATS_TEST_TMPDIR/differ ]]
}

@test "system calls of the program's own on placed blocks are exact where limits.md says so" {
    PROGRAM=${PROGRAM%/*}/raw_calls
    run -0 timeout 60 "$PROGRAM"
    bare=$output
    [[ $(grep -c 'back right' <<<"$bare") == 15 ]]
    raw_under $'api = malloc\nsize = 1M..\nplace = pinned'
    run ! grep -E '^mprotect|copied 0' "$BATS_TEST_TMPDIR/differ"
    raw_under $'api = malloc\nsize = 1M..\nplace = shared
[rule d]\napi = cudaMalloc\nplace = shared\naccess = read'
    run ! grep -E '^mprotect|^(mmap|mremap).*copied [12]|back wrong' "$BATS_TEST_TMPDIR/differ"
}
