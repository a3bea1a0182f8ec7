#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The processes of a user on a host share max_pinned, max_managed and max_device: what all of them
# hold stays within the limit, reaches it, and what a killed process held is there for the others.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/node
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_LOG_LEVEL=allocs ZC_SUMMARY=0
    export ZC_BUDGETS=$BATS_TEST_TMPDIR/budgets ZC_LOG=$BATS_TEST_TMPDIR/log.%p.jsonl
}

# Eight processes, of which four are killed: together POLICY BLOCKS BYTES [heap]
together() {
    rm -f "$BATS_TEST_TMPDIR"/log.*
    run -0 --separate-stderr under_policy "$1" timeout 60 "$program" 8 "${@:2}"
}

# Prints for a place the MiB that all processes got, and those that the four that ended as they
# should had at the end, then why others were passed over.  Blocks of malloc are in the place
# `pinned` if the driver copies them as pinned.  granted PLACE
granted() {
    python3 - "$1" "$BATS_TEST_TMPDIR"/log.*.jsonl <<'EOF'
import json, sys
total = living = 0
whys = set()
for path in sys.argv[2:]:
    lines = [json.loads(line) for line in open(path)]
    if sys.argv[1] == "pinned":
        got = sum(line["bytes"] for line in lines
                  if line["type"] == "transfer" and line["real_src_kind"] == "Pinned")
    else:
        got = sum(line["size_bytes"] for line in lines
                  if line["type"] == "alloc" and line["place"] == sys.argv[1])
    whys |= {line["why"] for line in lines if line["type"] == "alloc" and line["why"]}
    total += got
    if lines[-1]["type"] == "summary":
        living += got
print(total >> 20, living >> 20, *sorted(whys), sep="\n")
EOF
}

@test "what eight processes place stays within each limit and reaches it, also after kill -9" {
    local limits='[defaults]
max_pinned = 20M
max_managed = 20M
max_device = 20M
[rule all]
place = '
    for place in mapped managed vmm device; do
        local other=mapped
        [[ $place != mapped ]] || other=managed
        together "$limits$place, $other" 4 $((1 << 20))
        run -0 granted $place
        echo "$place: $output"
        # What the killed ones had is there once more.
        ((lines[1] == 20 && lines[0] > 20 && lines[0] <= 40))
        [[ $output == *"$place: over max_"*" beside other processes"* ]]
    done
}

@test "blocks of malloc count once they can be pinned, also those from before the first CUDA call" {
    export ZC_LOG_LEVEL=events
    together $'[defaults]\nmax_pinned = 20M\n[rule host]\napi = malloc\nsize = 2M\nplace = pinned' \
        4 $((2 << 20)) heap
    run -0 granted pinned
    echo "$output"
    ((lines[1] == 20 && lines[0] > 20 && lines[0] <= 40))
    grep -q 'code":"budgets","text":"max_pinned: no room for' "$BATS_TEST_TMPDIR"/log.*.jsonl
}
