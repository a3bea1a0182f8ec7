#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Programs that map memory themselves: it stays as they made it, and they can't tell.

load places.bash

setup() {
    placed_by handles
}

@test "a program that maps memory itself keeps it, and a rule that names it says so" {
    run -0 timeout 30 "$program" story
    bare=$output
    for rule in 'place = mapped' 'place = vmm' $'api = cuMemCreate\nplace = mapped, device'; do
        places_of "$rule" story
        [[ $codes == "$bare" && $places == $'device: -\ndevice: -' ]]
    done
    [[ $stderr == *'requests by cuMemCreate are not placed by this version'* ]]
}

@test "copies of memory that the CPU may not touch give what they give bare, in every place" {
    local rule
    run -0 timeout 30 "$program" rights
    bare=$output
    for rule in 'place = mapped' $'place = vmm, mapped\nspill = move\nchunk = 2M\nbudget = 2M' \
        'place = managed'; do
        echo "$rule"
        places_of "$rule" rights
        diff <(echo "$bare") <(echo "$codes")
    done
}
