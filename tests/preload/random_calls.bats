#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A program of random calls sees under every policy what it sees bare, to the character, or the call
# that gives another answer has been named in a message.  SEEDS="5 6" chooses other seeds; a failure
# prints the seed and the policy to repeat.

load common.bash

HOST='api = malloc, calloc, realloc, posix_memalign'
PINNED='api = cudaHostAlloc, cudaMallocHost'

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/random_calls
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=off ZC_SUMMARY=0 SIM_DEVICES=2
    export SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
    bare=$BATS_TEST_TMPDIR/bare placed=$BATS_TEST_TMPDIR/placed
}

same_or_loud() {
    awk -v bare="$bare" -f tests/preload/same_or_loud.awk "$placed"
}

# Runs the seeds bare and under a policy: random POLICY [ARGUMENT OF THE PROGRAM...]
random() {
    local seed
    for seed in ${SEEDS:-3 11 28}; do
        timeout 60 "$program" "$seed" "${@:2}" >"$bare"
        under_policy "$1" timeout 60 "$program" "$seed" "${@:2}" >"$placed" 2>&1 || true
        same_or_loud || {
            echo "seed $seed ${*:2} under:" "$1"
            diff <(grep -v '^libzc: ' "$placed" | sort -sn -k1,1) \
                <(sort -sn -k1,1 "$bare") | head -20
            return 1
        }
    done
}

@test "random calls give the same bare, however late the streams are" {
    local seed delay
    for seed in ${SEEDS:-3 11 28}; do
        timeout 60 "$program" "$seed" >"$bare"
        for delay in 500 1000 5000; do
            SIM_DELAY_US=$delay timeout 60 "$program" "$seed" >"$placed"
            diff "$placed" "$bare"
        done
    done
}

@test "random calls give the same with device memory in each place" {
    for place in device mapped managed vmm; do
        random "place = $place"
    done
}

@test "random calls give the same under auto, which decides about call paths as they come" {
    local seed
    export XDG_CACHE_HOME=$BATS_TEST_TMPDIR
    for seed in ${SEEDS:-3 11 28}; do
        timeout 60 "$program" "$seed" 300 2 large >"$bare"
        LD_PRELOAD=$LIBZC ZC_POLICY=auto timeout 60 "$program" "$seed" 300 2 large \
            >"$placed" 2>&1 || true
        same_or_loud
    done
    LD_PRELOAD=$LIBZC ZC_POLICY=auto ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl \
        timeout 60 "$program" 4 600 1 large
    grep -q '"code":"auto"' "$BATS_TEST_TMPDIR/log.jsonl"
}

@test "random calls of two threads give each of them the same with memory in each place" {
    for place in device mapped managed vmm pinned; do
        random "place = $place" 200 2
    done
}

@test "random calls give the same with blocks in device and host memory" {
    local keys
    for keys in '' $'\ncommit = lazy'; do
        random $'place = vmm\nspill = move\nchunk = 2M\nbudget = 3M'"$keys"
    done
}

@test "random calls of two devices give the same with the blocks of both in host memory" {
    SEEDS=${SEEDS:-1 4 7} random $'place = vmm\nspill = move\nchunk = 2M\nbudget = 4K' 300 1 large
}

@test "random calls give the same with memory that is attached lazily and grown" {
    random $'place = vmm\ngrow = yes\nchunk = 2M'
}

@test "random calls give the same with host memory pinned, and some blocks elsewhere" {
    random "[rule host]
$HOST
place = pinned
[rule pinned]
$PINNED
place = pinned
[rule small]
size = 100K..500K
place = mapped
[rule large]
size = 700K..
place = vmm
grow = yes"
}

@test "random calls give the same with parallel copies of pageable memory" {
    export ZC_LOG=$BATS_TEST_TMPDIR/log.%p ZC_LOG_LEVEL=events
    for rule in '' $'\n[rule some]\nnth = 1..5, 9, 11..20\nplace = mapped'; do
        SEEDS=${SEEDS:-2 4 28} random $'[defaults]\npageable_copy = parallel'"$rule"
    done
    [[ -n ${SEEDS-} ]] || for side in src dst; do
        grep -q "\"${side}_kind\":\"Pageable\".*\"real_${side}_kind\":\"Pinned\"" \
            "$BATS_TEST_TMPDIR"/log.*
    done
}

@test "random calls give the same with host memory in each place, after forks and new rights" {
    for place in pinned shared; do
        SEEDS=${SEEDS:-13 14 28} random "[rule host]
$HOST
place = $place
[rule device]
api = cudaMalloc
place = shared, device
access = read" 300 1 read fork
    done
}

@test "random calls give the same where both sides of a copy are one" {
    local threads
    export ZC_LOG=$BATS_TEST_TMPDIR/log.%p ZC_LOG_LEVEL=allocs
    for threads in 1 2; do
        SEEDS=${SEEDS:-5 6 9} random "[rule host]
$HOST
place = shared
[rule device]
api = cudaMalloc
place = shared
access = read" 200 "$threads" read
    done
    [[ -n ${SEEDS-} ]] || grep -q '"pair".*"elided_copies":[1-9]' "$BATS_TEST_TMPDIR"/log.*
}
