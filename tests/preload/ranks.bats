#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The ranks of a job on a host have an equal part of max_pinned each, and those that share a GPU of
# max_managed and max_device; a process that no launcher started has all of them.

load places.bash

setup() {
    placed_by requests
}

# Places blocks as one of so many ranks on this host: ranked RANKS POLICY ARGUMENT...
ranked() {
    OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=$1 places_of $'[defaults]\n'"${@:2}"
}

# How many ranks there must be for N to share each GPU, where the host has real ones.
share_gpus() {
    local folders=(/proc/driver/nvidia/gpus/*/)
    [[ -d ${folders[0]} ]] || folders=(one)
    echo $(($1 * ${#folders[@]}))
}

@test "each rank has its part of max_pinned, and is told so where that is in the way" {
    local policy=$'max_pinned = 20M\n[rule all]\nplace = mapped'
    places_of "[defaults]"$'\n'"$policy" 6 1
    [[ $places == $'mapped: -\nmapped: -' && -z $stderr ]]
    run ! grep '"code":"budgets"' "$ZC_LOG"
    ranked 1 "$policy" 6 1
    [[ $places == $'mapped: -\nmapped: -' ]]
    ranked 4 "$policy" 6 4 1 1
    [[ $places == $'device: mapped: over max_pinned\nmapped: -\nmapped: -\n'* ]]
    ranked 4 "$policy" 3 3 2
    [[ $places == $'mapped: -\ndevice: mapped: over max_pinned\nmapped: -' ]]
    [[ $stderr == 'libzc: no room for 3 MiB: over max_pinned. This process is one of 4 that share'\
' the limit, and may take 2 MiB more.'* ]]
    grep -q '"code":"budgets"' "$ZC_LOG"
}

@test "a percentage of the host's memory is divided, too" {
    local most=() mib ranks=1024
    for mib in 8 1; do
        until ranked $ranks $'max_pinned = 50%\n[rule all]\nplace = mapped' $mib &&
            [[ $places == 'device: mapped: over max_pinned' ]]; do
            ranks=$((2 * ranks))
        done
        most+=($ranks)
    done
    echo "${most[@]}"
    # Available memory changes meanwhile.
    ((most[1] >= 4 * most[0] && most[1] <= 16 * most[0]))
}

@test "ranks that share a GPU have a part of its limits, others all of it" {
    local limit few=1 many
    many=$(share_gpus 4)
    for limit in managed:'max_managed = 20M' vmm:'max_device = 20M' device:'max_device = 20M'; do
        local place=${limit%%:*} policy
        policy=${limit#*:}$'\n[rule all]\nplace = '$place', mapped'
        ranked $few "$policy" 6 6
        [[ $places == "$place: -"$'\n'"$place: -" ]]
        ranked "$many" "$policy" 6 4
        [[ $places == "mapped: $place: over max_"*$'\n'"$place: -" ]]
    done
    # Of two GPUs each rank has one.
    many=$(share_gpus 1)
    ((many > 1)) || many=2
    SIM_DEVICES=2 ranked $many $'max_device = 20M\n[rule all]\nplace = vmm, mapped' 12
    [[ $places == 'vmm: -' ]]
}

@test "ranks that share a GPU have a part of what it has free in managed memory" {
    local many
    many=$(share_gpus 4)
    SIM_MEMORY_MIB=32 ranked "$many" $'\n[rule all]\nplace = managed, mapped' 9 4
    [[ $places == 'mapped: managed: over max_managed, or over what is free on the device'$'\n'\
'managed: -' ]]
}

# Runs `requests` under a policy in the background, as process $1, beside others on one GPU.
beside() {
    mkdir -p "$BATS_TEST_TMPDIR/$1" # A policy of its own, which no other process overwrites.
    SIM_BESIDE=$BATS_TEST_TMPDIR/device ZC_LOG=$BATS_TEST_TMPDIR/$1.jsonl \
        BATS_TEST_TMPDIR=$BATS_TEST_TMPDIR/$1 under_policy "$2" \
            timeout 60 "$program" "${@:3}" >"$BATS_TEST_TMPDIR/$1.out" \
        2>"$BATS_TEST_TMPDIR/$1.err" &
}

# Prints "place:spilled MiB" of the blocks of a process, and how often each came.
lay_of() {
    jq -r 'select(.type == "alloc") | "\(.place):\((.spilled_bytes // 0) / 1048576)"' \
        "$BATS_TEST_TMPDIR/$1.jsonl" | sort | uniq -c | xargs
}

@test "a percentage of a device is of what it has free when the process begins, beside others" {
    export SIM_MEMORY_MIB=40
    local move=$'[defaults]\nmax_device = 50 %\n[rule all]\nplace = vmm\nspill = move\nchunk = 2M'
    beside one "$move" 4 4 4 4 4 4 '?' "=$BATS_TEST_TMPDIR/go"
    local first=$!
    while [[ ! -e $BATS_TEST_TMPDIR/go.here ]]; do kill -0 $first && sleep 0.05; done
    # 20 of 40 MiB are taken: the next process has 10 of the others.
    beside two "$move" 4 4 4 4 '?'
    wait $!
    : >"$BATS_TEST_TMPDIR/go"
    wait $first
    [[ $(lay_of one) == '5 vmm:0 1 vmm:4' && $(lay_of two) == '2 vmm:0 2 vmm:4' ]]
    [[ $(xargs <"$BATS_TEST_TMPDIR/one.out") == '0 0 0 0 0 0 0 of 20' ]]
    [[ $(xargs <"$BATS_TEST_TMPDIR/two.out") == '0 0 0 0 0 of 10' ]]
}

@test "processes that begin at once on one device have what they ask for, whatever each may take" {
    export SIM_MEMORY_MIB=40
    local percent
    for percent in 50 90; do
        local go=$BATS_TEST_TMPDIR/go$percent
        local move="[defaults]
max_device = $percent%
[rule all]
place = vmm
spill = move
chunk = 2M"
        beside one "$move" 2 "=$go.one" 4 4 4 4 4 4 4 4 "=$go.last"
        local first=$!
        beside two "$move" 2 "=$go.two" 4 4 4 4 4 4 4 4 "=$go.last"
        local second=$!
        while [[ ! -e $go.one.here || ! -e $go.two.here ]]; do sleep 0.05; done
        : >"$go.one"
        : >"$go.two"
        : >"$go.last"
        wait $first
        wait $second
        [[ $(sort -u "$BATS_TEST_TMPDIR/one.out" "$BATS_TEST_TMPDIR/two.out") == 0 ]]
        if ((percent == 50)); then # 2 + 16 MiB of 20, or of 19, because one began first
            [[ $(lay_of one) == '5 vmm:0 4 vmm:4' && $(lay_of two) == '5 vmm:0 4 vmm:4' ]]
        fi
    done
}

@test "cudaMemGetInfo tells of no more than max_device, and what that leaves" {
    export SIM_MEMORY_MIB=40
    for place in device vmm; do
        places_of "[defaults]"$'\nmax_device = 16M\n[rule all]\nplace = '$place '?' 4 '?' 8 '?'
        [[ $(xargs <<<"$codes") == '16 of 16 0 12 of 16 0 4 of 16' ]]
        places_of "[defaults]"$'\nmax_device = 80M\n[rule all]\nplace = '$place '?' 4 '?'
        [[ $(xargs <<<"$codes") == '40 of 40 0 36 of 40' ]]
    done
    # Memory that lies elsewhere counts as if it were there, as without a limit.
    places_of $'[defaults]\nmax_device = 16M\n[rule all]\nplace = vmm, mapped\nspill = move
chunk = 2M' 12 '?' 8 '?' -f 4 '?'
    [[ $(xargs <<<"$codes") == '0 4 of 16 0 0 of 16 0 0 of 16' ]]
    # The part of a rank.
    local few
    few=$(share_gpus 2)
    ranked "$few" $'max_device = 50%\n[rule all]\nplace = vmm' 4 '?'
    [[ $(xargs <<<"$codes") == '0 6 of 10' ]]
}

@test "an integrated device has what the host has available, also where files fill its memory" {
    export SIM_MEMORY_MIB=40 SIM_ATTR=18=1
    # Another process stands for the files.
    beside files $'[defaults]\nlog_level = allocs' 30 "=$BATS_TEST_TMPDIR/go"
    local first=$!
    while [[ ! -e $BATS_TEST_TMPDIR/go.here ]]; do kill -0 $first && sleep 0.05; done
    beside one $'[defaults]\nmax_device = 50%\n[rule all]\nplace = vmm, mapped' '?' 4 4
    wait $!
    [[ $(xargs <"$BATS_TEST_TMPDIR/one.out") == '20 of 20 0 0' ]]
    SIM_ATTR=18=0 beside one $'[defaults]\nmax_device = 50%\n[rule all]\nplace = vmm, mapped' \
        '?' 4 4
    wait $!
    [[ $(xargs <"$BATS_TEST_TMPDIR/one.out") == '5 of 5 0 0' ]]
    : >"$BATS_TEST_TMPDIR/go"
    wait $first
}
