#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Memory that is attached lazily, and copies of growing arrays that become remaps: nothing can tell
# the difference but the bytes that no longer move.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/grow
    memory=$PWD/$ZC_BUILD/tests/preload/programs/grow_memory
    apart=$PWD/$ZC_BUILD/tests/preload/programs/grow_apart
    need_built "$LIBZC" "$program" "$memory" "$apart"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=off ZC_SUMMARY=0 SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
    growing=$'place = vmm\ngrow = yes'
}

# Runs a scenario bare and under several policies; all must succeed, print the same, unless it
# counts copies, and leave nothing live: everywhere SCENARIO
everywhere() {
    local policy bare
    rm -f "$SIM_LEAKS"
    run -0 timeout 60 "$program" "$1"
    bare=$output
    for policy in "$growing" "$growing"$'\nchunk = 2M' $'place = vmm\ncommit = lazy' 'place = vmm' \
        "$growing"$'\ngrown = yes' 'place = mapped'; do
        echo "$1 under $policy"
        rm -f "$SIM_LEAKS"
        run -0 under_policy "$policy" timeout 60 "$program" "$1"
        [[ $output == "$bare" || $bare == copies* ]]
        [[ -e $SIM_LEAKS && ! -s $SIM_LEAKS ]] || { cat "$SIM_LEAKS"; return 1; }
    done
}

# Runs a scenario under `grow`, and fails unless the driver made so many copies: copied SCENARIO N
copied() {
    run -0 under_policy "$growing" timeout 60 "$program" "$1"
    [[ $output == "copies $2" ]]
}

@test "an array that doubles keeps its bytes and is not copied" {
    everywhere doubling
    copied doubling 0
}

@test "with grown, blocks are the driver's until an array has grown, and it is remapped then" {
    local later=$growing$'\ngrown = yes'
    export SIM_TRACE=$BATS_TEST_TMPDIR/trace SIM_MEMORY_MIB=256 SIM_DEVICES=2
    run -0 under_policy "$later" "$program" doubling
    [[ $output == 'copies 2' ]] # Into the second block, and into the first of `vmm`.
    [[ $(grep -c '^cuMemAlloc_v2 ' "$SIM_TRACE") == 2 ]]
    for scenario in never_freed small_blocks part_copied other_freed no_copy elsewhere; do
        rm -f "$SIM_TRACE"
        run -0 under_policy "$later" "$program" "$scenario"
        run -1 grep -E '^cuMem(AddressReserve|Create) ' "$SIM_TRACE"
        everywhere "$scenario"
    done
}

@test "the report says to the byte what the preset for any program spares of growing arrays" {
    local scenario spared says
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=events
    for scenario in doubling:58720256 older_blocks:16777216 copied_often:16777216 no_copy:0; do
        rm -f "$ZC_LOG"
        run -0 env LD_PRELOAD="$LIBZC" "$program" "${scenario%:*}"
        says=$(python3 -B -c '
import sys
sys.path.insert(0, "scripts")
from zclib.report import engines
from zclib.report.totals import Options
print(engines.read(sys.argv[1:], Options(1)).covered.again.moved_bytes)' "$ZC_LOG")
        rm "$ZC_LOG"
        run -0 env LD_PRELOAD="$LIBZC" ZC_POLICY=policy/presets/everyday.conf "$program" \
            "${scenario%:*}"
        spared=$(tail -n 1 "$ZC_LOG" | grep -o '"elided_bytes":[0-9]*' | head -n 1)
        [[ $says == "${scenario#*:}" && $spared == "\"elided_bytes\":$says" ]]
    done
}

# python_grows POLICY PYTHON: runs Debian's python3, in which block(N) is N times 4 MiB of the GPU,
# and grow(SMALL, LARGE, N) copies N of them, frees the small block and fills the rest.
python_grows() {
    [[ -x /usr/bin/python3 ]] || skip 'no /usr/bin/python3'
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl
    run -0 under_policy "$1" /usr/bin/python3 -c '
import ctypes
cuda, libc, size = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None), 4 << 20
libc.malloc.restype = ctypes.c_void_p
def call(name, *arguments):
    assert getattr(cuda, name)(*arguments) == 0, name
def block(count):
    at = ctypes.c_void_p()
    call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(count * size))
    return at
def grow(small, large, count):
    call("cuMemcpyDtoD_v2", large, small, ctypes.c_size_t(count * size))
    call("cuMemFree_v2", small)
    call("cuMemsetD8_v2", ctypes.c_void_p(large.value + count * size), ctypes.c_ubyte(1),
         ctypes.c_size_t(count * size))
    return large
context = ctypes.c_void_p()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
'"$2"
}

@test "a rule for libc's requests may wait for a grown array, too" {
    python_grows $'api = malloc\nplace = pinned\ngrown = yes' 'small, large = block(1), block(2)
def send():
    host = ctypes.c_void_p(libc.malloc(ctypes.c_size_t(size)))
    call("cuMemcpyHtoD_v2", large, host, ctypes.c_size_t(size))
send()
grow(small, large, 1)
send()'
    [[ $(moved_by_kind "$ZC_LOG" | grep HtoD) == "HtoD Pageable Device 1 4194304
HtoD Pinned Device 1 4194304" ]]
}

@test "in Debian's python3 the preset lets blocks be exported, and spares arrays that grow" {
    python_grows "$(sed -n '/^\[/,$p' policy/presets/everyday.conf)" '
handle = ctypes.create_string_buffer(64)
array = block(1)
call("cuIpcGetMemHandle", handle, array)
for count in 1, 2, 4, 8:
    array = grow(array, block(2 * count), count)'
    [[ -z $output ]] # No call is refused.
    [[ $(moved_by_kind "$ZC_LOG" | grep DtoD) == "DtoD Device Device 2 $((12 << 20))" ]]
    tail -n 1 "$ZC_LOG" | grep -qF "\"elided_calls\":2,\"elided_bytes\":$((48 << 20)),"
}

@test "an array that doubles beside the streams of a framework is not copied either" {
    everywhere many_streams
    copied many_streams 0
}

@test "arrays that grow in turn, and other blocks between them, keep their bytes apart" {
    everywhere in_turn
}

@test "an array that grows again maps no piece more than twice" {
    export SIM_TRACE=$BATS_TEST_TMPDIR/trace SIM_MEMORY_MIB=256 # Too small to take any ahead.
    run -0 under_policy "$growing" "$program" doubling
    [[ $(grep -c '^cuMemCreate ' "$SIM_TRACE") == 6 ]]
    [[ $(grep -c '^cuMemMap ' "$SIM_TRACE") == 11 ]]
    [[ $(grep -c '^cuMemSetAccess ' "$SIM_TRACE") == 6 ]]
}

@test "an array that has grown gets the memory of its next small steps at once" {
    export SIM_TRACE=$BATS_TEST_TMPDIR/trace SIM_MEMORY_MIB=32768
    run -0 under_policy "$growing" "$program" doubling
    [[ $output == 'copies 0' ]]
    [[ $(grep -c '^cuMemCreate ' "$SIM_TRACE") == 2 ]]
    [[ $(grep -c '^cuMemMap ' "$SIM_TRACE") == 4 ]]
    [[ $(grep -c '^cuMemSetAccess ' "$SIM_TRACE") == 3 ]]
    for scenario in doubling in_turn named_bytes overtaken launch_between copy_into_both \
        grow_twice two_copies never_freed freed_in_stream_order; do
        everywhere "$scenario"
    done
}

@test "an array whose owner bounds what is on the device gets nothing ahead" {
    local policy
    export SIM_TRACE=$BATS_TEST_TMPDIR/trace SIM_MEMORY_MIB=65536
    for policy in "$growing"$'\nbudget = 1G' "[defaults]
max_device = 1G
[rule all]
$growing"; do
        rm -f "$SIM_TRACE"
        run -0 under_policy "$policy" "$program" doubling
        [[ $output == 'copies 0' && $(grep -c '^cuMemCreate ' "$SIM_TRACE") == 6 ]]
    done
}

@test "a large array that grows by little gets an eighth of its memory ahead" {
    export SIM_MEMORY_MIB=65536
    run -0 under_policy "$growing" timeout 60 "$program" small_steps
    [[ $output == 'copies 0 creates 2' ]]
}

@test "what all arrays of a device have ahead stays within a 256th of it as they grow" {
    export SIM_MEMORY_MIB=2048
    run -0 under_policy "$growing" timeout 60 "$apart" ahead_together
    echo "$output"
    [[ ${lines[0]} == '6 6 6 ahead of at most 8' && ${lines[1]} == "${lines[0]}" ]]
}

@test "an array's addresses, and those to grow to, are reserved once, whatever its steps" {
    export SIM_TRACE=$BATS_TEST_TMPDIR/trace
    run -0 under_policy "$growing" "$program" doubling
    [[ $(grep -c '^cuMemAddressReserve ' "$SIM_TRACE") == 2 ]]
}

@test "calls that name their bytes get only these mapped, a launch gets all" {
    export SIM_MEMORY_MIB=256
    everywhere named_bytes
    run -0 under_policy "$growing" "$program" named_bytes
    [[ $output == 'copies 0 maps 6 then 9' ]]
}

@test "a block that could have had an array's addresses stays apart when another grows from it" {
    everywhere overtaken
}

@test "reading the old array leaves the copy pending, a launch makes it" {
    everywhere read_old
    copied read_old 0
    everywhere launch_between
    copied launch_between 1
}

@test "waiting leaves the copy pending" {
    everywhere waits
    copied waits 0
}

@test "a set or a copy into either array after the copy is not seen in the other" {
    everywhere set_old
    everywhere set_new
    everywhere copy_into_both
}

@test "a word written by the stream itself is not seen in the copy" {
    everywhere word_write
}

@test "the new array can be freed first" {
    everywhere free_new_first
    copied free_new_first 0
}

@test "an array freed in the order of a stream, old or new, costs the other no byte" {
    everywhere freed_in_stream_order
}

@test "a block freed in the order of a stream before it was used needs no memory" {
    for keys in grow=yes commit=lazy; do
        run -0 --separate-stderr under_policy $'place = vmm\n'"$keys" timeout 60 "$program" \
            freed_untouched
        [[ -z $stderr && -e $SIM_LEAKS && ! -s $SIM_LEAKS ]]
    done
}

@test "a kernel that is launched while the process exits finds the copy made" {
    run -0 timeout 60 "$program" exiting
    for keys in grow=yes commit=lazy; do
        run -0 --separate-stderr under_policy $'place = vmm\n'"$keys" timeout 60 "$program" exiting
        [[ -z $stderr ]]
    done
}

@test "an array copied on before the old one is freed, or twice, is copied" {
    everywhere grow_twice
    everywhere two_copies
}

@test "an array grows beside another one whose copy was made" {
    everywhere beside_a_copy
}

@test "a program that ends without freeing leaves nothing pending" {
    everywhere never_freed
}

@test "what a kernel in flight before the copy writes belongs to it" {
    everywhere kernel_in_flight
    copied kernel_in_flight 0
}

@test "what a thread asks waits for no launch that waits for a kernel" {
    local policy
    for policy in 'place = device' "[rule small]
size = 1M
place = mapped
[rule all]
$growing"; do
        run -0 under_policy "$policy" timeout 30 "$program" asked_meanwhile
    done
}

@test "an update of a graph waits for no kernel" { everywhere updated_meanwhile; }

@test "a launch does not wait for work that waits for the CPU" {
    for scenario in host_work_before host_work_behind callback_behind value_behind graph_behind; do
        everywhere "$scenario"
    done
}

@test "what a kernel of another stream writes after the copy does not" {
    everywhere independent_stream
    everywhere blocking_stream
}

@test "captured work finds memory, and the copy made" {
    everywhere capture
}

@test "the driver knows every address that it is asked about" {
    program=$memory everywhere attributes
}

@test "free memory is what it would be if all memory were attached at once" {
    program=$memory everywhere free_memory
}

@test "memory that was freed in the order of a stream is free once the stream has passed" {
    run -0 timeout 60 "$memory" free_memory_in_order
    for keys in grow=yes commit=lazy commit=eager; do
        run -0 under_policy $'place = vmm\n'"$keys" timeout 60 "$memory" free_memory_in_order
    done
}

@test "threads that grow arrays at once keep their bytes apart" {
    program=$memory everywhere threads
}

@test "a launch in one thread looks at no block that another thread has not made yet" {
    program=$memory everywhere made_while_launching
}

@test "an array grows past half of the device" {
    export SIM_MEMORY_MIB=256
    run -0 "$memory" as_far_as_it_goes
    [[ $output == '128 MiB' ]]
    run -0 under_policy "$growing" "$memory" as_far_as_it_goes
    [[ $output == '256 MiB' ]]
}

@test "what other blocks have left no room for takes the next place" {
    local rule=$'[rule large]\nsize = 64M..\nplace = vmm, mapped\ncommit = lazy'
    export SIM_MEMORY_MIB=256 ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=allocs
    run -0 under_policy "$rule" "$memory" room_taken_between
    [[ $(sed -n 's/^{"type":"alloc".*"place":"\([a-z]*\)".*/\1/p' "$ZC_LOG" | xargs) == \
        "vmm device device device mapped" ]]
}

@test "a request that would take the memory which was promised is refused as it is bare" {
    local keys scene bare
    export SIM_MEMORY_MIB=256
    for scene in room_taken_between room_taken_from_a_context room_taken_by_a_handle; do
        run -0 "$memory" "$scene"
        [[ $output == *'-> 2'* ]]
        bare=$output
        for keys in commit=lazy grow=yes; do
            run -0 --separate-stderr under_policy \
                $'[rule large]\nsize = 64M..\nplace = vmm\n'"$keys" "$memory" "$scene"
            [[ $output == "$bare" && -z $stderr ]]
        done
    done
}

@test "a request for more than there are addresses is refused" {
    program=$memory everywhere too_large
}

@test "a call that finds no memory left says so by rule and block, and loses nothing" {
    run -0 --separate-stderr under_policy "$growing" "$memory" no_memory_left
    [[ ${lines[0]} == *'MemsetD8'*'-> 2' && ${lines[1]} == *'LaunchKernel'*'-> 2' ]]
    [[ $stderr == *'cuMemsetD8_v2 returned 2: block 2 (8 MiB at'*'by rule all'*'policy.conf:1'* ]]
    [[ $stderr == *'cuLaunchKernel returned 2: block 2 (8 MiB at'* ]]
    run -0 --separate-stderr under_policy "$growing" "$memory" no_memory_to_copy
    [[ ${lines[0]} == *'MemsetD8'*'-> 2' && ${lines[1]} == *'MemsetD8'*'-> 0' ]]
}

@test "a free that fails with the copy that waited for it says so once, and counts once" {
    SIM_FAIL=cuMemcpyDtoDAsync_v2:2:0 run -0 --separate-stderr under_policy "$growing" \
        "$memory" copy_refused
    [[ ${lines[0]} == *'-> 2' && ${lines[1]} == *'MemFree'*'-> 2' ]]
    [[ $(grep -c 'cuMemFree_v2 returned 2' <<<"$stderr") == 1 ]]
    [[ $stderr == *'do not trust the results: 2 calls were refused'* ]]
}

@test "a chunk is the size of each piece" {
    export SIM_TRACE=$BATS_TEST_TMPDIR/trace
    run -0 under_policy $'place = vmm\nchunk = 3M' "$memory" attributes
    [[ $(grep -c '^cuMemCreate ' "$SIM_TRACE") == 2 ]] # One of them lies on both sides of blocks.
    rm "$SIM_TRACE"
    run -0 under_policy $'place = vmm\nchunk = 1M' "$memory" attributes
    [[ $(grep -c '^cuMemCreate ' "$SIM_TRACE") == 3 ]]
    [[ $(grep -c '^cuMemSetAccess ' "$SIM_TRACE") == 1 ]]
}

@test "other devices of the bus reach the blocks of a rule that lets them, and no others" {
    local keys
    for keys in 'grow = no' 'grow = yes'; do
        run -0 under_policy "[rule first]
nth = 1
place = vmm
rdma = no
$keys
[rule rest]
place = vmm
$keys" "$memory" other_devices_of_the_bus
        [[ $output == '0 1 1' ]]
    done
}

@test "arrays of two devices that grow by turns stay each on its own" {
    export SIM_DEVICES=2
    program=$apart everywhere two_devices
}

@test "a copy that another context makes is in order with what that context did before" {
    program=$apart everywhere other_context
}

@test "a launch does not look at the arrays of a context that another thread destroys" {
    program=$apart everywhere launch_beside_destroy
    run -0 --separate-stderr under_policy "$growing" timeout 60 "$apart" launch_beside_destroy
    [[ -z $stderr ]]
}

@test "a block has the peers of its context, also at addresses that an array has left" {
    export SIM_DEVICES=2
    run -0 under_policy "$growing" timeout 60 "$apart" other_peers
    [[ $output == 'kernel 0' ]]
}

@test "an array that grows leaves what was promised to other blocks" {
    export SIM_MEMORY_MIB=512 # 2 MiB ahead.
    run -0 --separate-stderr under_policy "$growing" timeout 60 "$apart" rest_promised
    [[ -z $stderr && -e $SIM_LEAKS && ! -s $SIM_LEAKS ]]
}

@test "a block sees nothing of an array whose unmapping was refused at its free" {
    run -0 --separate-stderr under_policy "$growing" timeout 60 "$apart" not_unmapped
    [[ $stderr == *"cuMemFree_v2 returned 999 for block 2"*"do not trust the results: 1 call"* ]]
    [[ -e $SIM_LEAKS && ! -s $SIM_LEAKS ]]
}

@test "a remapped copy is elided in the log, one that was made has moved" {
    local log=$BATS_TEST_TMPDIR/log.jsonl
    export ZC_LOG=$log ZC_LOG_LEVEL=events
    run -0 under_policy "$growing" "$program" kernel_in_flight
    [[ $(grep -c '"type":"transfer".*"dir":"DtoD"' "$log") == 1 ]]
    grep -q '"type":"transfer".*"dir":"DtoD".*"outcome":"elided"' "$log"
    rm "$log"
    run -0 under_policy "$growing" "$program" launch_between
    [[ $(grep -c '"type":"transfer".*"dir":"DtoD"' "$log") == 1 ]]
    grep -q '"type":"transfer".*"dir":"DtoD".*"outcome":"moved"' "$log"
    rm "$log"
    run -0 under_policy "$growing" "$program" never_freed # Its context ends.
    [[ $(grep -c '"type":"transfer".*"dir":"DtoD"' "$log") == 1 ]]
    grep -q '"type":"transfer".*"dir":"DtoD".*"outcome":"elided"' "$log"
    grep -q '"type":"summary".*"asked_calls":1,"asked_bytes":4194304,' "$log"
}

@test "the totals of an array that grows are those of the driver" {
    referee "$growing" "$program" doubling
    referee "$growing" "$program" launch_between
}
