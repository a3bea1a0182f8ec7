#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc.h: the device memory of blocks is given back for a while, and comes back at the same addresses.

load places.bash

setup() {
    placed_by paused
    export ZC_LOG_LEVEL=summary
}

# Runs a scene under a policy: scene POLICY NAME
scene() {
    rm -f "$ZC_LOG"
    run -0 --separate-stderr under_policy "$1" timeout 60 "$program" "$2"
}

@test "blocks give their memory back and get it again, with what was in them, of whatever kind" {
    local keys
    export SIM_KERNEL_US=20000
    for keys in '' $'\nchunk = 2M' $'\ncommit = lazy' $'\ngrow = yes' $'\nfree = defer'; do
        scene "place = vmm$keys" keeps
        [[ $output == 'mib_paused("layer", ZC_KEEP) -> 2
mib_paused("weights", ZC_KEEP) -> 12
mib_paused("weights", 0) -> 0
mib_paused("nobody", ZC_KEEP) -> 0
free: 14 more
block: paused 1, 0 on the device
beside: paused 0, 12582912 on the device
zc_resume("weights") -> 0
zc_resume("weights") -> 0
block: paused 0, 12582912 on the device
mib_paused(NULL, 0) -> 26
leaks 0' ]]
        [[ $stderr == 'libzc: zc_pause of range nobody finds no block: '*"'place = vmm'"* ]]
        [[ $stderr != *$'\n'* ]]
    done
    run -0 python3 -c 'import json, sys
for line in map(json.loads, open(sys.argv[1])):
    if line["type"] in ("pause", "resume") and line["blocks"]:
        assert line["blocked_ns"] > 0
        print(line["type"], line["range"], line["blocks"], line["bytes"], line["kept_bytes"])
    if line["type"] == "summary":
        for row in line["moved_by_kind"]:
            if "Pinned" in row.values():
                print(row["dir"], row["calls"], row["bytes"])
' "$ZC_LOG"
    [[ $output == 'pause layer 1 2097152 1000
pause weights 1 12582912 12582912
resume weights 2 14680064 12583912
pause None 3 27262976 0
resume None 3 27262976 0
HtoD 2 12583912
DtoH 2 12583912' ]]
}

@test "of a split block the part on the device is given back" {
    scene $'place = vmm\nspill = host\nchunk = 2M\nbudget = 8M' keeps
    [[ $output == *'weights", ZC_KEEP) -> 8'*'free: 8 more'*'paused 1, 0 on'*'leaks 0' ]]
}

@test "other memory stays, and a program without libzc runs as it is" {
    local keeps='free: 0 more
block: paused 0, 12582912 on the device'
    scene 'place = device' keeps
    [[ $output == *"$keeps"* ]]
    run -0 "$program" keeps
    [[ $output == *$'free: 0 more\nblock: paused -1'*'leaks 0' ]]
}

@test "an array that grows is paused between its copies" {
    scene $'place = vmm\ngrow = yes' grows
    [[ $output == $'8: 8\n6: 6\n14: 14\n8: 8\nleaks 0' && -z $stderr ]]
}

@test "calls that name a paused block are refused in a message" {
    scene 'place = vmm' refused
    [[ $(grep -c -- '-> 401' <<<"$output") == 8 && $output == *'zc_resume("weights") -> 0' ]]
    [[ $(grep -c 'for block 1 (12 MiB at .* was paused by zc_pause of range weights' <<<"$stderr") \
        == 8 ]]
    [[ $stderr == *'8 calls were refused'* ]]
    scene 'place = vmm' by_kernel
    [[ $output == *'-> 700' && $stderr == *'1 of them (12 MiB) are paused by zc_pause'* ]]
}

@test "paused blocks can be freed, and go with their context" {
    local keys
    for keys in '' $'\ncommit = lazy' $'\nfree = defer'; do
        scene "place = vmm$keys" freed
        [[ $output == $'cuMemFree(old) -> 1\ncuMemFree(old) -> 1\nleaks 0' && -z $stderr ]]
    done
}

# full POLICY CODE REASON: a block finds the device or a limit full by another one.
full() {
    scene "$1" full
    [[ $output == "another -> $2
mib_paused(\"weights\", ZC_KEEP) -> 12
zc_resume(\"weights\") -> 2
block: paused 1, 0 on the device
zc_resume(\"weights\") -> 0" ]]
    [[ $stderr == "libzc: zc_resume of range weights leaves 1 of its blocks "*": $3 (code 2)" ]]
}

@test "a block that finds no room stays paused and loses nothing" {
    SIM_MEMORY_MIB=20 full 'place = vmm' 2 'cuMemCreate refuses'
    full $'[defaults]\nmax_device = 16M\n[rule all]\nplace = vmm, device' 0 'over max_device'
    full $'place = vmm, device\nbudget = 12M' 0 'over its budget'
}

@test "what is kept counts for max_pinned" {
    scene $'[defaults]\nmax_pinned = 13M\n[rule all]\nplace = vmm' keeps
    [[ $output == *'layer", ZC_KEEP) -> 2'*'weights", ZC_KEEP) -> 12'* ]]
    scene $'[defaults]\nmax_pinned = 8M\n[rule all]\nplace = vmm' full
    [[ $output == *'weights", ZC_KEEP) -> 0'*'block: paused 0, 12582912 on the device'* ]]
    [[ $stderr == *'zc_pause of range weights leaves 1 of its blocks '*': over max_pinned'* ]]
}

@test "whatever call of the driver fails, a block is paused or not, and keeps its bytes" {
    local keys
    for keys in $'\nchunk = 2M' $'\ngrow = yes'; do
        scene "place = vmm$keys" fails
        [[ $output == $'stayed 1 waited 1\nleaks 0' ]]
    done
}

@test "threads may pause and resume the same blocks while others come and go, and fork" {
    scene 'place = vmm' threads
    [[ $output == 'leaks 0' ]]
}

@test "nothing is paused while a stream is being captured" {
    scene 'place = vmm' captured
    [[ $output == $'mib_paused("weights", ZC_KEEP) -> 0\nzc_resume("weights") -> 900' ]]
    [[ $(grep -c 'does nothing while a stream is being captured' <<<"$stderr") == 2 ]]
}

@test "devices that had access to a block have it again" {
    SIM_DEVICES=2 scene 'place = vmm' peers
    [[ $output == $'mib_paused("weights", ZC_KEEP) -> 12\nzc_resume("weights") -> 0' ]]
}

@test "a block stays while its memory is exported, and afterwards" {
    scene 'place = vmm' exported
    [[ $output == 'exported: paused 0, 12582912 on the device' ]]
    [[ $stderr == *'leaves 1 of its blocks as they are: the program has exported its memory'* ]]
}
