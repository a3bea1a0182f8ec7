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
    # What is available changes meanwhile.
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
