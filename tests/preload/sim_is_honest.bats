#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The simulated GPU answers as a real driver does: the facts that the programs of tests/gpu ask of
# both are the same but for the short lists below.  The real driver's answers are kept beside them
# in *_facts.h200.txt.

load common.bash

# New facts are asked for behind the others, and compared once a real driver's answers are kept.
KEPT=tests/gpu/driver_facts.h200.txt

setup_file() {
    local facts=$PWD/$ZC_BUILD/tests/gpu/driver_facts
    [[ -x $facts && -e $SIM/libcuda.so.1 ]] || return 0
    LD_LIBRARY_PATH=$SIM "$facts" >"$BATS_FILE_TMPDIR/all"
    head -n "$(wc -l <"$KEPT")" "$BATS_FILE_TMPDIR/all" >"$BATS_FILE_TMPDIR/bare"
    LD_LIBRARY_PATH=$SIM ZC_POLICY=off ZC_LOG=off ZC_SUMMARY=0 LD_PRELOAD=$LIBZC \
        "$facts" >"$BATS_FILE_TMPDIR/watched"
}

setup() {
    need_built "$ZC_BUILD/tests/gpu/driver_facts" "$SIM/libcuda.so.1"
    bare=$BATS_FILE_TMPDIR/bare
}

# Facts in which the simulation differs, each with the reason.
allowed() {
    sed -E 's/^ *([^ ].*[^ ])  +# .*/\1/' <<'FACTS'
    pool_reserved_bytes  # pools grow by 2 MiB here, by 32 MiB there: simulated devices may be small
    alloc_async MAPPING_SIZE  # the same
    dma_buf_of_part_of_alloc  # memory for other devices of the bus is not simulated
    flags_of_host_by_alloc_host  # small host blocks share pages there, and flags with them
    flags_of_host_mapped  # the same
    host_of_1000_is_zero_again  # the same: what the block before it held
    host_of_64_kib_is_zero_again  # the same
    copy_dtod_behind_blocking  # the manual says that it does not wait, and a program may rely on it
    copy_within_device_behind_blocking  # the same
    set_behind_blocking  # the same
    alloc_async_in_destroyed_stream  # undefined: a driver follows the handle and ends the program
    copy_async_in_destroyed_stream  # the same
    set_async_in_destroyed_stream  # the same
    free_async_in_destroyed_stream  # the same
FACTS
}

# Prints what of the first file is not in the second, without the facts that may differ.
differences() {
    diff "$1" "$2" | sed -nE 's/^[<>] ([^:]*): .*/\1/p' | sort -u | grep -vxFf <(allowed) || true
}

@test "every fact of the kept file is asked for, and in the same order" {
    diff <(sed 's/: .*//' "$KEPT") <(sed 's/: .*//' "$bare")
}

@test "the simulated GPU answers as the real driver does" {
    local name found
    found=$(differences "$KEPT" "$bare")
    [[ -z $found ]] || {
        while read -r name; do
            grep -F -m 1 "$name: " "$KEPT" | sed 's/^/real: /'
            grep -F -m 1 "$name: " "$bare" | sed 's/^/simulated: /'
        done <<<"$found"
        false
    }
}

@test "every fact that may differ does differ" {
    local pattern
    while read -r pattern; do
        diff "$KEPT" "$bare" | sed -nE 's/^< ([^:]*): .*/\1/p' | grep -xF "$pattern"
    done < <(allowed)
}

@test "without a policy libzc changes no answer" {
    diff "$BATS_FILE_TMPDIR/all" "$BATS_FILE_TMPDIR/watched"
}

# Runs view_facts, address_facts, border_facts or parts_facts on the simulated GPU, with the
# environment of the arguments.
views_simulated() {
    need_built "$ZC_BUILD/tests/gpu/$1-shared" "$SIM/kernels/view_facts.so"
    sim_env view_facts
    env "${@:2}" timeout 60 "$ZC_BUILD/tests/gpu/$1-shared"
}

# Lines of the kept files in which the simulation differs: what is printed there and here, and why.
views_that_differ() {
    sed -E 's/ +#.*//' <<'FACTS'
the CPU reads what it discarded: 0  # madvise(2) discards no page of a shared file, and the CPU's
the CPU reads what it discarded: 7  # and the GPU's mapping of one page can only share a file
FACTS
}

# Compares a program's output with its kept file; the lines that may differ are the input.
compare_views() {
    local kept=$BATS_TEST_TMPDIR/kept
    # Textures are not simulated; what is asked of them comes last.
    sed '/^# a texture$/,$d' "tests/gpu/$1.h200.txt" >"$kept"
    views_simulated "$1" | head -n "$(wc -l <"$kept")" >"$BATS_TEST_TMPDIR/bare"
    diff "$kept" "$BATS_TEST_TMPDIR/bare" >"$BATS_TEST_TMPDIR/differences" || true
    diff <(sed -n 's/^[<>] //p' "$BATS_TEST_TMPDIR/differences") -
}

@test "the simulated GPU and the CPU see the pages that hardware lets them see" {
    views_that_differ | compare_views view_facts
}

@test "host and device block find at two addresses what hardware lets them find" {
    compare_views address_facts </dev/null
}

@test "the driver crashes or refuses where it does on hardware, at borders of host handles" {
    compare_views border_facts </dev/null
}

@test "two registrations side by side are one to kernels, and two to copies and questions" {
    compare_views parts_facts </dev/null
}

# Pages that madvise(2) discards come back from the file, and the GPU keeps its own; neither is so
# where the program's call does not lead to the simulation.
@test "private mappings and views to read are what they are on hardware" {
    compare_views private_facts <<'FACTS'
a copy reads there: 7
the CPU reads there: 7
a copy reads there: 8
the CPU reads there: 8
a kernel reads there: 8
a kernel reads there: 9
a kernel reads there: 7
a kernel reads there: 0
a kernel reads there: 7
a kernel reads there: 8
FACTS
}

# A driver leaves something else in the handles of streams and events that it could not make; the
# simulated runtime does not look whether a current primary context was reset by the driver.
@test "an error leaves what it leaves on hardware" {
    compare_views sticky_facts <<'FACTS'
cuEventRecord(event, stream): cudaErrorInvalidResourceHandle
cuEventRecord(event, stream): cudaErrorIllegalAddress
cuStreamSynchronize(stream): cudaErrorInvalidResourceHandle
cuStreamSynchronize(stream): cudaErrorIllegalAddress
cudaMalloc: cudaSuccess
in the primary context: 1
cudaMalloc: cudaErrorContextIsDestroyed
in the primary context: 0
FACTS
}

@test "without a policy libzc changes no view of pinned memory, nor what an error leaves" {
    local program
    for program in view address border sticky private; do
        views_simulated ${program}_facts >"$BATS_TEST_TMPDIR/bare"
        views_simulated ${program}_facts ZC_POLICY=off ZC_LOG=off ZC_SUMMARY=0 \
            LD_PRELOAD="$LIBZC" | diff "$BATS_TEST_TMPDIR/bare" -
    done
}

# Runs copy_facts on the simulated GPU, with the environment of the arguments.
copies_simulated() {
    need_built "$ZC_BUILD/tests/gpu/copy_facts" "$SIM/libcuda.so.1"
    env LD_LIBRARY_PATH="$SIM" "$@" timeout 60 "$ZC_BUILD/tests/gpu/copy_facts"
}

@test "the simulated driver makes the copies with the CPU that a real one makes so" {
    copies_simulated | diff tests/gpu/copy_facts.h200.txt -
}

@test "without a policy libzc changes nothing about which copies the CPU makes" {
    copies_simulated ZC_POLICY=off ZC_LOG=off ZC_SUMMARY=0 LD_PRELOAD="$LIBZC" |
        diff tests/gpu/copy_facts.h200.txt -
}

@test "the simulated driver takes the graph nodes, values and textures that a real one takes" {
    local kept=tests/gpu/graph_facts.h200.txt
    need_built "$ZC_BUILD/tests/gpu/graph_facts" "$SIM/libcuda.so.1"
    env LD_LIBRARY_PATH="$SIM" timeout 60 "$ZC_BUILD/tests/gpu/graph_facts" \
        >"$BATS_TEST_TMPDIR/simulated"
    [[ $(wc -l <"$BATS_TEST_TMPDIR/simulated") -gt 50 ]]
    [[ -e $kept ]] || skip "no real driver's answers are kept yet"
    # Textures are not simulated.
    diff <(grep -v ^texture "$kept") <(grep -v ^texture "$BATS_TEST_TMPDIR/simulated")
}

@test "the simulated driver waits during captures where a real one does" {
    local kept=tests/gpu/capture_facts.h200.txt
    need_built "$ZC_BUILD/tests/gpu/capture_facts" "$SIM/libcuda.so.1"
    # Events of contexts are not simulated.
    env LD_LIBRARY_PATH="$SIM" timeout 200 "$ZC_BUILD/tests/gpu/capture_facts" |
        grep -v 'event of the context' | diff <(grep -v 'event of the context' "$kept") -
}

# The answers of a real driver that are kept and that the simulated one does not give: an H200's, or
# an H100's (the file's name says which); what is not kept was not asked there.  Where a real driver
# itself crashes (`signal 11`) the simulated one refuses.
shapes_and_questions_differ() {
    need_built "$ZC_BUILD/tests/gpu/$1" "$SIM/libcuda.so.1"
    LD_LIBRARY_PATH=$SIM timeout 60 "$ZC_BUILD/tests/gpu/$1" >"$BATS_TEST_TMPDIR/simulated"
    [[ -s tests/gpu/$1.h200.txt ]]
    cat "tests/gpu/$1".h?00.txt | grep -v ': signal 11$' |
        grep -vxFf "$BATS_TEST_TMPDIR/simulated" || true
}

@test "the simulated driver takes the copies of rows that a real one takes" {
    diff <(shapes_and_questions_differ shape_facts) /dev/null
}

@test "the simulated driver calls the streams busy that a real one calls so" {
    LD_LIBRARY_PATH=$SIM timeout 60 "$ZC_BUILD/tests/gpu/stream_facts" |
        diff tests/gpu/stream_facts.h100.txt -
}

@test "the simulated driver copies mapped host memory between devices where a real one does" {
    need_built "$ZC_BUILD/tests/gpu/peer_facts" "$SIM/libcuda.so.1"
    env LD_LIBRARY_PATH="$SIM" SIM_DEVICES=2 timeout 120 "$ZC_BUILD/tests/gpu/peer_facts" |
        diff tests/gpu/peer_facts.h200.txt -
}

@test "the simulated driver copies and sets across two devices where a real one does" {
    need_built "$ZC_BUILD/tests/gpu/far_facts" "$SIM/libcuda.so.1"
    env LD_LIBRARY_PATH="$SIM" SIM_DEVICES=2 timeout 120 "$ZC_BUILD/tests/gpu/far_facts" |
        diff tests/gpu/far_facts.h200.txt -
}

@test "the simulated driver changes the nodes of executable graphs that a real one changes" {
    need_built "$ZC_BUILD/tests/gpu/change_facts" "$SIM/libcuda.so.1"
    LD_LIBRARY_PATH=$SIM timeout 60 "$ZC_BUILD/tests/gpu/change_facts" |
        diff tests/gpu/change_facts.h200.txt -
}

@test "the simulated driver loses the copies of managed memory in graphs that a real one loses" {
    local program
    for program in managed chain; do
        need_built "$ZC_BUILD/tests/gpu/${program}_facts" "$SIM/libcuda.so.1"
        LD_LIBRARY_PATH=$SIM timeout 60 "$ZC_BUILD/tests/gpu/${program}_facts" |
            diff "tests/gpu/${program}_facts.h200.txt" -
    done
}

@test "the simulated driver answers of addresses and of the numbers of blocks as a real one" {
    diff <(shapes_and_questions_differ query_facts) /dev/null
}

@test "without a policy libzc changes nothing about them, nor about wrong shapes and questions" {
    local program
    for program in graph shape query change managed chain; do
        program=$ZC_BUILD/tests/gpu/${program}_facts
        need_built "$program" "$SIM/libcuda.so.1"
        LD_LIBRARY_PATH=$SIM timeout 60 "$program" >"$BATS_TEST_TMPDIR/bare"
        [[ $(wc -l <"$BATS_TEST_TMPDIR/bare") -gt 50 ]]
        env LD_LIBRARY_PATH="$SIM" ZC_POLICY=off ZC_LOG=off ZC_SUMMARY=0 LD_PRELOAD="$LIBZC" \
            timeout 60 "$program" | diff "$BATS_TEST_TMPDIR/bare" -
    done
}
