#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Programs that map memory themselves: a rule for cuMemCreate gives their handles host memory, and
# they can't tell.

load places.bash

RULE=$'api = cuMemCreate\nplace = mapped, device'

setup() {
    placed_by handles
}

@test "a program that maps memory itself gets the same answers from host memory" {
    run -0 timeout 30 "$program" story
    bare=$output
    places_of "$RULE" story
    [[ $codes == "$bare" ]]
    [[ $places == $'mapped: -\nmapped: -' ]]
    places_of 'place = mapped' story
    [[ $codes == "$bare" && $places == $'device: -\ndevice: -' ]]
}

@test "a program that asks whether other bus devices reach its handle is told the truth" {
    places_of 'place = mapped' wishes
    [[ $codes == *'location 1 0,'*'for other bus devices 1' ]]
    places_of "$RULE" wishes
    [[ $codes == *'location 1 0,'*'for other bus devices 0' ]]
}

@test "handles of host memory do not take the device's" {
    export SIM_MEMORY_MIB=16
    run -0 timeout 30 "$program" spill 12 12
    [[ $output == $'0\n2' ]]
    places_of "$RULE" spill 12 12
    [[ $codes == $'0\n0' && $places == $'mapped: -\nmapped: -' ]]
}

@test "handles that the device has no memory for take the next place" {
    export SIM_MEMORY_MIB=16
    places_of $'api = cuMemCreate\nplace = device, mapped' spill 12 12 2
    [[ $codes == $'0\n0\n0' ]]
    [[ $places == $'device: -\nmapped: device: out of memory\ndevice: -' ]]
    places_of $'api = cuMemCreate\nplace = device' spill 12 12
    [[ $codes == $'0\n2' && $places == 'device: -' ]]
}

@test "handles count against the budget of their rule, and against max_pinned" {
    places_of $'api = cuMemCreate\nplace = device, mapped\nbudget = 8M' spill 4 4 4
    [[ $places == $'device: -\ndevice: -\nmapped: device: over its budget' ]]
    places_of $'[defaults]\nmax_pinned = 6M\n[rule all]\n'"$RULE" spill 4 4 2
    [[ $places == $'mapped: -\ndevice: mapped: over max_pinned\nmapped: -' ]]
}

@test "a handle counts until it is released and no longer mapped" {
    places_of $'[defaults]\nmax_pinned = 6M\n[rule all]\n'"$RULE" early
    [[ $places == $'mapped: -\ndevice: mapped: over max_pinned\nmapped: -' ]]
}

@test "a rule for cuMemCreate matches by size, and takes the node that it names" {
    places_of $'api = cuMemCreate\nsize = 3M..\nplace = mapped' spill 2 4
    [[ $places == $'device: -\nmapped: -' ]]
    places_of $'api = cuMemCreate\nplace = mapped, device\nnuma = 7' spill 2
    [[ $places == 'device: mapped: cuMemCreate refuses' ]]
    places_of $'api = cuMemCreate\nplace = mapped, device\nwrite_combined = yes' spill 2
    [[ $places == 'device: mapped: handles are never write-combined' ]]
}

@test "where the driver has no handles of host memory they stay the device's" {
    # CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
    SIM_ATTR=145=0 places_of "$RULE" spill 4
    [[ $places == 'device: mapped: cuMemCreate refuses' && $codes == 0 ]]
}

@test "a policy for cuMemCreate is carried out without a message" {
    run -0 --separate-stderr under_policy "$RULE" timeout 30 "$program" spill 2
    [[ -z $stderr ]]
    ZC_LOG=off run -0 --separate-stderr under_policy $'api = cuMemCreate\nplace = mapped, vmm' \
        timeout 30 "$program" spill 2
    [[ $stderr == *"vmm"* ]]
}

@test "copies of memory that the CPU may not touch give what they give bare, in every place" {
    local rule
    run -0 timeout 30 "$program" rights
    bare=$output
    for rule in 'place = mapped' $'place = vmm, mapped\nspill = host\nchunk = 2M\nbudget = 2M' \
        'place = managed' "$RULE"$'\n[rule others]\nplace = mapped' \
        "$RULE"$'\nnth = odd\n[rule others]\nplace = vmm, mapped\nspill = host\nbudget = 2M'; do
        echo "$rule"
        places_of "$rule" rights
        diff <(echo "$bare") <(echo "$codes")
    done
}
