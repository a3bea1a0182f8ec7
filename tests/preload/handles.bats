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
        $'place = vmm, mapped\nspill = move\nchunk = 2M\nbudget = 2560K' 'place = managed'; do
        echo "$rule"
        places_of "$rule" rights
        diff <(echo "$bare") <(echo "$codes")
    done
}

@test "the log has memory that another API made, and when each block went" {
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=allocs
    run -0 under_policy $'api = cudaHostAlloc\nplace = pinned' timeout 30 "$program" logged
    python3 - "$ZC_LOG" <<'END'
import json, sys
found = []
for line in map(json.loads, open(sys.argv[1])):
    if line["type"] in ("alloc", "free"):
        copied = [row["asked_bytes"] >> 10 for row in line.get("traffic", ())]
        found.append((line["type"], line["api"], line["size_bytes"] >> 20, *copied))
assert found == [("alloc", "cuMemCreate", 4), ("alloc", "cuMemCreate", 4),
                 ("free", "cuMemCreate", 4), ("free", "cuMemCreate", 4, 4096),
                 ("alloc", "cuMemAlloc", 1), ("free", "cuMemAlloc", 1, 512),
                 ("alloc", "cuMemAlloc", 3), ("free", "cuMemAlloc", 3, 1024),
                 ("alloc", "cuMemAlloc", 5), ("free", "cuMemAlloc", 5)], found
END
}
