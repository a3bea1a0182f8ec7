#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Each place is what its name says, and copies, sets and kernels keep the order and the meaning that
# they have in device memory.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/placing
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=off ZC_SUMMARY=0
}

# The simulated driver's memory for the five requests of `kinds`: held_in PLACE WHAT
held_in() {
    run -0 under_policy "place = $1" "$program" kinds
    [[ $output == "$2" ]]
}

# A scenario prints in every place what it prints bare, and libzc says nothing.
prints_the_same() {
    local bare place
    run -0 "$program" "$1"
    bare=$output
    for place in device mapped managed vmm; do
        run -0 --separate-stderr under_policy "place = $place" "$program" "$1"
        [[ $output == "$bare" && -z $stderr ]]
    done
}

@test "without a rule the driver makes what was asked for" {
    run -0 env LD_PRELOAD="$LIBZC" "$program" kinds
    [[ $output == $'device 3\npooled 2' ]]
}

@test "device memory is the driver's own" {
    held_in device $'device 3\npooled 2'
}

@test "mapped memory is pinned host memory, and nothing lies on the device" {
    held_in mapped $'pooled 2\nhost 2\nregistered 1'
}

@test "managed memory is the driver's managed memory" {
    held_in managed $'pooled 2\nmanaged 3'
}

@test "a vmm block has a reservation, a handle and a mapping, and a rim if it fills them" {
    held_in vmm $'device 2\npooled 2\nreservation 1\nmapping 3\nhandle 2'
}

@test "rows are placed whatever the length of their elements" {
    run -0 "$program" elements
    [[ $output == $'4 1\n8 1\n16 1' ]]
    run -0 under_policy 'place = mapped' "$program" elements
    [[ $output == $'4 0\n8 0\n16 0' ]]
}

@test "a context takes all its blocks along, and their budget is there for the next one's" {
    run -0 under_policy $'place = mapped\nbudget = 520K' "$program" contexts
    [[ $output == $'0\n0\n0' ]]
    run -0 under_policy $'place = mapped\nbudget = 512K' "$program" contexts
    [[ $output == $'2\n2\n2' ]]
}

@test "requests from pools of a limited size, or of managed memory, stay what they are" {
    prints_the_same special_pools
}

@test "the log says which memory a pool gave" {
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=allocs
    run -0 env LD_PRELOAD="$LIBZC" "$program" special_pools
    [[ -n $output ]] || skip "CUDA's headers have no such pools"
    python3 - "$ZC_LOG" <<-'END'
	import json, sys
	kinds = [line["asked_kind"] for line in map(json.loads, open(sys.argv[1]))
	         if line["type"] == "alloc" and line["api"] == "cuMemAllocFromPoolAsync"]
	assert kinds == 2 * ["Device"] + 9 * ["Managed"], kinds
	END
}

@test "batches that send or give up pages are refused for device memory wherever it lies" {
    prints_the_same prefetch_batches
}

@test "a batch that sends pages is a transfer a part, and one that is refused is none" {
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=events
    run -0 env LD_PRELOAD="$LIBZC" "$program" prefetch_batches
    [[ -n $output ]] || skip "CUDA's headers have no such batches"
    python3 - "$ZC_LOG" <<-'END'
	import json, sys
	sent = [(line["function"], line["dir"], line["bytes"])
	        for line in map(json.loads, open(sys.argv[1])) if line["type"] == "transfer"]
	assert sent == [("cuMemPrefetchBatchAsync", "Prefetch", 2**21)] * 2 + [
	    ("cuMemDiscardAndPrefetchBatchAsync", "Prefetch", 2**21)], sent
	END
}

@test "a converted block is reached by a kernel on another device" {
    SIM_DEVICES=2 in_every_place "$program" peer
}

@test "synchronous copies come after the pending work of their stream" {
    in_every_place "$program" sync_order
}

@test "asynchronous calls do not wait for a stream that waits for the program" {
    in_every_place "$program" no_hang
}

# The synchronous calls that the program `unwaited` makes: sets it, and the array `calls`.
unwaited_calls() {
    unwaited=$PWD/$ZC_BUILD/tests/preload/programs/unwaited
    need_built "$unwaited"
    mapfile -t calls < <("$unwaited" list)
    [[ ${#calls[@]} -gt 0 ]]
}

@test "synchronous calls within device memory do not wait for a stream that waits for the program" {
    unwaited_calls
    for call in "${calls[@]}"; do
        in_every_place "$unwaited" "$call"
    done
}

@test "nor do they between blocks of two places" {
    local -a places=(device managed mapped vmm)
    unwaited_calls
    for call in "${calls[@]}"; do
        for i in 0 1 2 3; do
            run -0 under_policy "[rule first]
nth = 1
place = ${places[i]}
[rule second]
place = ${places[(i + 1) % 4]}" timeout 30 "$unwaited" "$call"
        done
    done
}

@test "and where the driver refuses one the message names the call that the program made" {
    unwaited_calls
    SIM_FAIL=cuMemsetD8Async:999:1,cuMemsetD8_v2:999:1 run -1 --separate-stderr \
        under_policy 'place = managed' timeout 30 "$unwaited" cuMemsetD8_v2
    [[ $stderr == "libzc: cuMemsetD8_v2 returned 999 for block 1 "*"'managed' by rule all ("* ]]
}

@test "a free waits for the device, as cuMemFree does" {
    in_every_place "$program" free_waits
}

@test "a copy to pageable memory has arrived when the call returns" {
    in_every_place "$program" arrived
}

@test "a large pageable source can be used again when the call returns" {
    in_every_place "$program" large_source
}

@test "rectangles, boxes and arrays keep every byte in its place" {
    in_every_place "$program" rectangles
    in_every_place "$program" boxes
}

@test "batches of copies keep their order and their bytes" {
    in_every_place "$program" batches
}

@test "batches that leave a block by a byte are refused, and blame no rule" {
    prints_the_same wrong_batches
}

@test "batches that the driver refuses name the rule" {
    for call in cuMemcpyBatchAsync_v2 cuMemcpy3DBatchAsync_v2; do
        SIM_FAIL=$call:999:1 run -0 --separate-stderr under_policy 'place = mapped' "$program" \
            wrong_batches
        [[ $stderr == "libzc: $call returned 999 for block 1 "*"'mapped' by rule all ("* ]]
    done
}

@test "threads with default streams of their own do not wait for each other" {
    in_every_place "$program" per_thread
}

@test "copies between a converted and an unconverted block keep their order" {
    local place
    for place in mapped managed vmm; do
        for size in 'size = ..64K' 'size = 1M..'; do
            run -0 under_policy "$size"$'\n'"place = $place" timeout 30 "$program" mixed
        done
    done
}

@test "threads that make, use and free blocks at once keep their bytes apart" {
    need_built "$ZC_BUILD/tests/preload/programs/threads"
    in_every_place "$ZC_BUILD/tests/preload/programs/threads"
}

@test "a copy of a managed block does not become one that a launch of its graph would lose" {
    local facts=$PWD/$ZC_BUILD/tests/gpu/managed_facts bare=$BATS_TEST_TMPDIR/bare
    local changed='^device (from|to) (pinned|registered), (set|updated) to pageable'
    need_built "$facts"
    timeout 60 "$facts" >"$bare"
    run -0 --separate-stderr under_policy $'api = cudaMalloc\nplace = managed' timeout 60 "$facts"
    diff <(grep -vE "$changed" "$bare") <(grep -vE "$changed" <<<"$output")
    [[ $(grep -cE "$changed: 0 0 set 1 launch 0 ran 0\$" <<<"$output") -eq 4 ]]
    [[ $(grep -cE "$changed: 0 0 updated 910 launch 0 ran 0\$" <<<"$output") -eq 4 ]]
    [[ $(grep -c "in 'managed' by rule all (.*instantiate it anew" <<<"$stderr") -eq 8 ]]
}

@test "a copy that a graph was instantiated with decides what it becomes in a managed block" {
    local facts=$PWD/$ZC_BUILD/tests/gpu/chain_facts
    need_built "$facts"
    run -0 --separate-stderr under_policy $'api = cudaMalloc\nplace = managed' timeout 60 "$facts"
    [[ $(grep -c '^device .*ran 0$' <<<"$output") -eq 56 ]]
    diff <(grep -E '^device (from|to) (gpg|ggg|.*made with g|captured g)' <<<"$output") \
        <("$facts" | grep -E '^device (from|to) (gpg|ggg|.*made with g|captured g)')
    [[ $(grep -cE '^device .* (g1|g910) ' <<<"$output") -eq 40 ]]
}

@test "requests that come while another thread reads the policy are placed as those after it" {
    local log=$BATS_TEST_TMPDIR/log.jsonl
    need_built "$ZC_BUILD/tests/preload/programs/threads"
    write_policy '[rule host]
api = malloc
place = pinned
[rule device]
place = mapped'
    yes '# So much to read that all threads come meanwhile.' | head -n 20000 \
        >>"$BATS_TEST_TMPDIR/policy.conf"
    run -0 env ZC_POLICY="$BATS_TEST_TMPDIR/policy.conf" ZC_LOG="$log" ZC_LOG_LEVEL=allocs \
        LD_PRELOAD="$LIBZC" "$ZC_BUILD/tests/preload/programs/threads" at_once
    [[ $(grep -c '"type":"alloc".*"place":"mapped"' "$log") == 24 ]]
    [[ $(grep -c '"type":"alloc".*"place":"pinned"' "$log") == 24 ]]
}

@test "streams that run late show no wrong order in any place" {
    export SIM_DELAY_US=400
    for scenario in no_hang arrived mixed rectangles boxes batches; do
        in_every_place "$program" "$scenario"
    done
}

# Runs a scenario of vmm blocks on a small device: vmm_blocks SCENARIO
vmm_blocks() {
    need_built "$ZC_BUILD/tests/preload/programs/vmm_blocks"
    export SIM_MEMORY_MIB=256 SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
    run -0 under_policy $'size = ..32M\nplace = vmm' \
        "$ZC_BUILD/tests/preload/programs/vmm_blocks" "$1"
    [[ -e $SIM_LEAKS && ! -s $SIM_LEAKS ]]
}

@test "the memory of a vmm block can be exported as a file" {
    vmm_blocks exportable
    [[ $output == 'exportable 1' ]]
}

@test "vmm blocks that threads make and free are counted once" {
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl
    vmm_blocks threads
    tail -n 1 "$ZC_LOG" | grep -q '"place":"vmm","blocks":0,"bytes":0'
}

@test "the error of a failed kernel is what calls give in every place, and blames no rule" {
    run -0 --separate-stderr "$program" failed_kernel
    bare=$output
    [[ $bare == *'-> 710'* && $bare != *'-> 0'* ]]
    for rule in 'place = mapped' 'place = managed' 'place = vmm' $'place = vmm\ncommit = lazy'; do
        # A block that is attached lazily asks for its memory behind the error.
        SIM_FAIL=cuMemCreate:710:2 run -0 --separate-stderr under_policy "$rule" "$program" \
            failed_kernel
        [[ $output == "$bare" && -z $stderr ]]
    done
}

# Lines of stderr about a kernel that wrote where nothing is: told_of POLICY CALL
told_of() {
    run -0 --separate-stderr "$program" stray_kernel "$2"
    bare=$output
    [[ $bare == *'-> 700'* && $bare != *'-> 0'* ]]
    rm -f "$BATS_TEST_TMPDIR/log"
    ZC_LOG=$BATS_TEST_TMPDIR/log run -0 --separate-stderr under_policy "$1" "$program" \
        stray_kernel "$2"
    [[ $output == "$bare" ]]
    echo "$stderr"
}

@test "an illegal address of a kernel is said once with the rules that have placed blocks" {
    for place in mapped managed vmm $'vmm\ncommit = lazy'; do
        for call in launch free host copy; do
            told_of $'[rule a]\napi = cudaMalloc\nsize = ..2M\nplace = '"$place"$'
[rule b]\napi = cudaMalloc\nplace = '"$place" "$call"
            [[ $stderr == "libzc: a kernel failed with an illegal address (700, reported by cu"* ]]
            [[ $stderr == *"1 (2 MiB) in '${place%%$'\n'*}' by rule a ("* ]]
            [[ $call == free || $stderr == *"1 (3 MiB) in "*" by rule b ("* ]]
            [[ $stderr == *"'place = device'"* && ${#stderr_lines[@]} -eq 1 ]]
            [[ $(grep -c '"type":"warn".*"code":"kernel"' "$BATS_TEST_TMPDIR/log") -eq 1 ]]
        done
    done
}

@test "an illegal address of a kernel is not libzc's where no rule has placed a block" {
    told_of 'place = device' copy
    [[ -z $stderr ]]
    told_of $'api = cudaMallocHost\nplace = pinned' copy
    [[ -z $stderr ]]
}

# Every kernel of a scene ran, and libzc said nothing: all_run RULE SCENE KERNELS
all_run() {
    run -0 --separate-stderr under_policy "$1" "$program" "$2"
    [[ $output != *700* && $(grep -c -- '-> 0' <<<"$output") -eq $3 && -z $stderr ]]
}

@test "a kernel that reads 64 KiB too far on either side works as bare" {
    for rule in 'place = device' 'place = mapped' 'place = managed' 'place = vmm'; do
        all_run "$rule" overreads 4
    done
}

@test "a kernel that reads 64 KiB too far works in vmm where the block leaves memory over" {
    for rule in 'place = vmm' $'place = vmm\nchunk = 2M'; do
        all_run "$rule" overreads_slack 3
    done
}

@test "a block that is alone can be read too far by a sixteenth of its size" {
    for rule in 'place = mapped' 'place = managed'; do
        all_run "$rule" overreads_small 2
    done
    for rule in 'place = mapped' 'place = managed' 'place = vmm' $'place = vmm\nchunk = 2M'; do
        all_run "$rule" overreads_alone 3
    done
}

@test "a kernel that reads before a block of another place is stopped, and told with the rules" {
    for place in $'vmm\ncommit = lazy' $'vmm\ngrow = yes' $'shared\naccess = read'; do
        run -0 --separate-stderr under_policy $'[rule host]\napi = malloc\nplace = shared
[rule all]\napi = cudaMalloc\nplace = '"$place" "$program" overreads_one_side
        [[ ${lines[0]} == *'-> 0' && ${lines[1]} == *'-> 700' && ${#stderr_lines[@]} -eq 1 ]]
        [[ $stderr == *"(700, reported by"*"1 (3 MiB) in '${place%%$'\n'*}' by rule all ("* ]]
    done
}

@test "calls that CUDA refuses in host functions harm no block, and blame no rule" {
    run -0 "$program" host_function
    bare=$output
    [[ $bare == *'-> 800'* && $bare != *'-> 0'* ]]
    for rule in 'place = mapped' 'place = managed' 'place = vmm' $'place = vmm\ncommit = lazy' \
        $'place = vmm\ngrow = yes' 'place = pinned'; do
        rm -f "$BATS_TEST_TMPDIR/trace"
        SIM_TRACE=$BATS_TEST_TMPDIR/trace run -0 --separate-stderr under_policy "$rule" "$program" \
            host_function
        [[ $output == "$bare" && -z $stderr ]]
    done
    # A later copy pins the host block all the same.
    grep -q 'cuMemHostRegister_v2 0' "$BATS_TEST_TMPDIR/trace"
}

@test "a block that the driver does not unmap at its free stays the program's, and names the rule" {
    export SIM_MEMORY_MIB=128 SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
    for rule in $'place = vmm\nchunk = 4M\ncommit = lazy' $'place = vmm\nchunk = 4M\ngrow = yes'; do
        run -0 --separate-stderr under_policy "$rule" "$program" refused_free
        [[ $output == $'cuMemFree(p) -> 999\ncuMemFree(p) -> 999' ]]
        [[ $stderr == "libzc: cuMemFree_v2 returned 999 for block 1 "*"'vmm' by rule all ("* ]]
        [[ -e $SIM_LEAKS && ! -s $SIM_LEAKS ]]
    done
}
