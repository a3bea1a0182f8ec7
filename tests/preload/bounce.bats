#!/usr/bin/env bats
# Large copies between pinned and managed memory go by way of buffers in device memory: the bytes,
# their order and what other streams do are as without them, and so is the device's free memory.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/bounce
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=off ZC_SUMMARY=0 SIM_MEMORY_MIB=1200
    export SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
}

# Runs a scenario, by default with its blocks in managed memory, which must print the lines and
# leave nothing with the driver: prints SCENARIO LINE...
prints() {
    rm -f "$SIM_LEAKS"
    run -0 --separate-stderr under_policy "${policy-place = managed}" timeout 60 "$program" "$1"
    diff <(printf '%s\n' "${@:2}") <(echo "$output")
    [[ -z $stderr && -e $SIM_LEAKS && ! -s $SIM_LEAKS ]]
}

@test "large copies go part by part in every kind of stream and without one, byte for byte" {
    prints copies 'inside 144'
    policy='place = device' prints copies 'inside 0'
}

@test "copies that are not large, or of pages that nothing sends to the device, are the driver's" {
    prints small 'inside 0'
    policy=$'place = managed\nprefetch = none' prints copies 'inside 0'
}

@test "a copy is behind what its stream had to do, and before what comes to it later" {
    prints in_order 'inside 18'
}

@test "a copy waits for no other stream, and takes the buffers when they are free again" {
    prints two_streams 'held up: inside 6' 'beside it: inside 0' 'later: inside 6'
}

@test "without identifiers of streams each copy waits for free buffers, and is right" {
    export SIM_FAIL=cuStreamGetId:801:0
    prints two_streams 'held up: inside 6' 'beside it: inside 0' 'later: inside 6'
    prints in_order 'inside 12'
}

@test "a copy that the driver refuses is refused at once, whatever its stream waits for" {
    policy='place = device' prints refused 'cuMemcpyDtoHAsync(constant, block, SIZE, stream) -> 1'
    run -0 --separate-stderr under_policy 'place = managed' timeout 30 "$program" refused
    [[ $output == *' -> 1' && $stderr == *'cuMemcpyDtoHAsync_v2 returned 1'* ]]
    [[ -e $SIM_LEAKS && ! -s $SIM_LEAKS ]]
}

@test "nothing goes by way of buffers while a stream is captured" {
    prints captured 'inside 0'
}

@test "a call that need not wait puts no more into a stream than that takes" {
    prints enormous 'inside 0' 'waiting: inside 65'
    prints queued 'inside 60' 'later: inside 6'
}

@test "the buffers are not missing from the device, for the rule's requests and for others" {
    prints memory 'all of it'
    policy=$'size = ..64M\nplace = managed' prints memory 'all of it'
}

# The device's last memory is asked for, from the rule and from the driver.
asks_for_rest() {
    local rest='cuMemAlloc(&rest, total - 2 * (44 * MIB)) -> 0'
    prints "$1" "$rest"
    policy=$'size = ..64M\nplace = managed' prints "$1" "$rest"
}

@test "buffers that no copy uses go back at once, whatever other streams wait for" {
    asks_for_rest rest_beside
}

@test "a request that finds no memory waits for the copies that have buffers" {
    asks_for_rest rest_behind
    asks_for_rest rest_meanwhile
}

@test "where a copy may wait for the program a request that lacks its buffers names the rule" {
    run -0 --separate-stderr under_policy 'place = managed' timeout 60 "$program" rest_awaited
    [[ $output == *' -> 2' && $stderr == *'finds no memory'*"in 'managed' by rule all ("*':1)'* ]]
    [[ -e $SIM_LEAKS && ! -s $SIM_LEAKS ]]
}

@test "a copy that names contexts is the driver's, and behind what the other device has to do" {
    export SIM_DEVICES=2
    policy=$'[rule far]\ndevice = 1\nplace = mapped\n[rule near]\nplace = managed' \
        prints peers 'inside 0'
}

@test "a context takes its buffers along, also while a request of another one waits for them" {
    prints reset 'inside 24' 'inside 24'
    SIM_MEMORY_MIB=100 run -0 under_policy 'place = managed' timeout 60 "$program" context_goes
}

@test "the log counts such a copy once as asked and moved, and each of its two ways by kind" {
    export ZC_LOG=$BATS_TEST_TMPDIR/log ZC_LOG_LEVEL=events
    prints reset 'inside 24' 'inside 24'
    python3 - "$ZC_LOG" <<-'END'
	import json, sys
	size, part = 41 * 2**20 + 12345, 6
	records = [json.loads(line) for line in open(sys.argv[1])]
	sent = [r["driver_copies"] for r in records if r["type"] == "transfer"]
	assert sent == [2 * part] * 2 * 4, sent
	(summary,) = (r for r in records if r["type"] == "summary")
	assert summary["asked_bytes"] == summary["moved_bytes"] == 8 * size, summary
	moved = {(m["dir"], m["src_kind"], m["dst_kind"]): (m["calls"], m["bytes"])
	         for m in summary["moved_by_kind"]}
	assert moved == {("HtoD", "Pinned", "Device"): (6 * part, 6 * size),
	                 ("DtoD", "Device", "Managed"): (6 * part, 6 * size),
	                 ("DtoD", "Managed", "Device"): (2 * part, 2 * size),
	                 ("DtoH", "Device", "Pinned"): (2 * part, 2 * size)}, moved
	END
}
