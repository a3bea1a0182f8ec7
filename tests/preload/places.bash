# SPDX-License-Identifier: MIT
# Programs whose log tells where each block lay: a file says `placed_by PROGRAM` in its setup().

load common.bash

# placed_by PROGRAM of tests/preload/programs
placed_by() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/$1
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_SUMMARY=0 ZC_LOG_LEVEL=allocs
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
}

# Runs the program under a policy; prints "place: why" of each block or mapping, and fails where
# something leaks: places_of POLICY ARGUMENT...
places_of() {
    rm -f "$ZC_LOG" "$SIM_LEAKS"
    run -0 --separate-stderr under_policy "$1" timeout 30 "$program" "${@:2}"
    [[ -e $SIM_LEAKS && ! -s $SIM_LEAKS ]] || { cat "$SIM_LEAKS"; return 1; }
    codes=$output
    places=$(python3 -c 'import json, sys
for line in open(sys.argv[1]):
    line = json.loads(line)
    if line["type"] == "alloc": print(line["place"] + ": " + (line["why"] or "-"))' "$ZC_LOG")
    echo "$places"
}

# Prints "size spilled place why" of each block, sizes in MiB.
spilled_blocks() {
    python3 -c 'import json, sys
for line in open(sys.argv[1]):
    line = json.loads(line)
    if line["type"] == "alloc":
        print(line["size_bytes"] >> 20, line.get("spilled_bytes", 0) >> 20, line["place"],
              line["why"] or "-")' "$ZC_LOG"
}

# Prints "place bytes peak" of the summary, in MiB.
peaks() {
    python3 -c 'import json, sys
for place in json.loads(list(open(sys.argv[1]))[-1])["places"]:
    print(place["place"], place["bytes"] >> 20, place["peak_bytes"] >> 20)' "$ZC_LOG"
}

# A program under a policy, in a log of its own, with what it says shown:
# run_moving POLICY SECONDS PROGRAM ARGUMENT...
run_moving() {
    rm -f "$ZC_LOG"
    run -0 --separate-stderr under_policy "$1" timeout "${@:2}"
    echo "$output"
    echo "$stderr"
}
