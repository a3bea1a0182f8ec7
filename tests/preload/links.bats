#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Large copies over the links of several GPUs are, to the program, the driver's own copies.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/links
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_SUMMARY=0 SIM_DEVICES=2 SIM_TRACE=$BATS_TEST_TMPDIR/trace
}

# Runs a scenario, which ends with status 1 where something is not as it should be, with so many
# links: linked SCENARIO LINKS
linked() {
    rm -f "$SIM_TRACE"
    run -0 --separate-stderr under_policy $'[defaults]\nlinks = '"$2" timeout 60 "$program" "$1"
    [[ -z $output ]]
}

# The same, and bare.
scene() {
    run -0 timeout 60 "$program" "$1"
    [[ -z $output ]]
    linked "$@"
}

# Copies between peers that the driver was asked for.
relayed() {
    grep -c '^cuMemcpyPeerAsync ' "$SIM_TRACE" || true
}

@test "every byte of copies of many sizes comes over two links, three and four" {
    run -0 timeout 60 "$program" sizes
    for links in 2 3 4; do
        SIM_DEVICES=$links linked sizes "$links"
        (($(relayed) >= 4 * 8 * (links - 1)))
        [[ -z $stderr ]]
    done
    [[ $(grep -c '^cuCtxEnablePeerAccess 0' "$SIM_TRACE") == 3 ]]
    run ! grep -q '^cuCtxEnablePeerAccess 704' "$SIM_TRACE"
}

@test "each link gets an equal part of a copy, to the GPU and from it" {
    SIM_DEVICES=3 linked equal 3
    [[ -z $stderr ]]
}

@test "memory that is registered in parts comes over several links as well" {
    run -0 --separate-stderr under_policy $'[defaults]\nlinks = 2\n[rule a]
api = cudaHostAlloc\nplace = pinned' timeout 60 "$program" parts
    [[ -z $stderr ]]
    (($(relayed) > 0))
    run ! grep -q '^cuMemcpy.*Async [^0]' "$SIM_TRACE"
}

@test "what malloc gave comes over several links, and keeps its meaning" {
    run -0 --separate-stderr under_policy $'[defaults]\nlinks = 2\n[rule a]
api = malloc\nplace = pinned' timeout 60 "$program" staged
    [[ -z $stderr && $(relayed) == $((8 * 4)) ]]
    SIM_DEVICES=1 run -0 --separate-stderr under_policy $'[defaults]\nlinks = 2\n[rule a]
api = malloc\nplace = pinned' timeout 60 "$program" staged
    [[ $stderr == *'keep to its own link'* ]]
}

@test "a copy over several links stands in its stream as one copy" {
    for delay in 0 2000; do
        SIM_DELAY_US=$delay scene order 2
        (($(relayed) > 0))
    done
}

@test "a copy over several links waits for no other stream" {
    SIM_DEVICES=3 scene apart 3
    (($(relayed) > 0))
}

@test "random copies of several streams and threads, over several links, are those of one link" {
    run -0 timeout 60 "$program" lanes_in_turns
    run -0 timeout 60 "$program" lanes_at_once
    for seed in ${SEEDS:-1 2}; do
        export SEED=$seed
        for devices in 2 4; do
            SIM_DEVICES=$devices linked lanes_in_turns "$devices"
            (($(relayed) > 0))
            SIM_DEVICES=$devices SIM_DELAY_US=300 linked lanes_at_once "$devices"
        done
    done
}

@test "random copies with a call that fails at each step are those of one link, or say so" {
    for seed in ${SEEDS:-1 2 3}; do
        for devices in 2 4; do
            rm -f "$SIM_TRACE"
            SEED=$seed SIM_DEVICES=$devices run -0 --separate-stderr under_policy \
                $'[defaults]\nlinks = '"$devices" timeout 60 "$program" lanes_failing
            [[ -z $output ]]
            run ! grep -v '^libzc: .* link\|^$' <<<"$stderr"
            (($(relayed) > 0))
        done
    done
}

@test "the program that times copies over links gets each byte back, and figures of each size" {
    local names
    run -0 --separate-stderr under_policy $'[defaults]\nlinks = 2' \
        timeout 60 "$ZC_BUILD/tests/preload/programs/links_speed" 0 32 64
    [[ -z $stderr ]] && (($(relayed) > 0))
    names=$(sed 's/ [0-9.]*$//' <<<"$output" | sort | xargs)
    [[ $names == "first_64 from_32 from_64 from_queued_32 from_queued_64 to_32 to_64 \
to_queued_32 to_queued_64" ]]
}

@test "a stream that waits for the program holds nothing of the other device" {
    scene freed_there 2
    [[ $(relayed) == 16 ]]
}

@test "a program finds the other device as it left it" {
    scene unseen 2
    (($(relayed) > 0))
}

@test "a program gets the memory of the other device that links took" {
    SIM_MEMORY_MIB=512 scene full 2
    [[ $(grep -c '^cuCtxDestroy_v2 0' "$SIM_TRACE") == 1 ]]
}

@test "copies over several links go on behind a fork" {
    scene forked 2
    (($(relayed) > 0))
}

@test "copies of other memory and shapes, of batches and graphs, keep to one link" {
    SIM_DEVICES=4 linked others 4
    [[ $(relayed) == 12 ]] # Of three copies of cudaMalloc's memory.
    scene shapes 2
    [[ $(relayed) == 0 ]]
    run ! grep -q '^cuCtxCreate' "$SIM_TRACE"
    scene captured 2
    [[ $(relayed) == 0 ]]
}

# The process ends with what the program prints: one call of a copy fails in turn.
@test "a peer's call that fails is made up for by the own link, and said" {
    local call nth hurt
    for call in cuCtxCreate_v2 cuMemAlloc_v2 cuStreamCreate cuEventCreate cuEventRecord \
        cuEventQuery cuStreamWaitEvent cuCtxEnablePeerAccess cuMemcpyPeerAsync \
        cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuCtxPushCurrent_v2 cuDeviceCanAccessPeer \
        cuDeviceGetP2PAttribute cuDeviceGetCount cuEventDestroy_v2; do
        hurt=0
        for nth in 1 2 3 4 6 10; do
            run -0 --separate-stderr under_policy $'[defaults]\nlinks = 2' \
                timeout 60 "$program" call_fails "$call" "$nth"
            # The own link's call comes first, and its code is the program's.
            [[ -z $output || $nth == 1 && $call == cuMemcpy[HD]to[HD]Async_v2 ]]
            [[ -z $output || -z $stderr ]]
            [[ -z $stderr || $stderr == 'libzc: '*' link'* ]]
            [[ -z $output$stderr ]] || hurt=1
        done
        [[ $hurt == 1 || $call == cuCtxPushCurrent_v2 || $call == cuEventDestroy_v2 ]] || {
            echo "no effect: $call"
            return 1
        }
    done
}

@test "an idle peer's link is taken once copies have paid for it, a busy one's never" {
    linked many idle
    (($(relayed) > 0 && $(relayed) < 34 * 2 * 4))
    linked busy idle
    [[ $(relayed) == 0 ]]
    OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 \
        OMPI_COMM_WORLD_LOCAL_SIZE=2 linked order idle
    [[ $(relayed) == 0 && $stderr == *'other ranks of the job use'* ]]
}

@test "links = idle gives a peer's context back once copies are small, and makes it again" {
    linked rested idle
    [[ $(grep -c '^cuCtxDestroy_v2 0' "$SIM_TRACE") == 1 ]]
    [[ $(grep -c '^cuCtxCreate_v2 0' "$SIM_TRACE") == 2 ]]
    linked rested 2
    run ! grep -q '^cuCtxDestroy' "$SIM_TRACE"
}

@test "an idle peer that another process has memory on keeps its link, and libzc nothing there" {
    SIM_MEMORY_MIB=4096 SIM_TAKEN_MIB=500 linked many idle
    (($(relayed) > 0))
    SIM_MEMORY_MIB=4096 SIM_TAKEN_MIB=2000 linked many idle
    [[ $(relayed) == 0 && $(grep -c '^cuCtxDestroy_v2 0' "$SIM_TRACE") == 1 ]]
    [[ $stderr == 'libzc: '*'the link of device 1 is not used any more: another process has '* ]]
    SIM_MEMORY_MIB=4096 SIM_TAKEN_MIB=2000 linked many 2
    (($(relayed) > 0))
}

@test "of GPUs below one port of the host, by sysfs, links = idle takes one" {
    local folder=/tmp/$BASHPID # Short, and without capitals: a part of bus ids.
    mkdir "$folder"
    for bus in 01 02; do
        ln -s "../pci0000:00/0000:00:01.0/0000:$bus:00.0" "$folder/$bus:00.0"
    done
    for bus in 03 04; do
        ln -s "../pci0000:80/0000:80:01.0/0000:$bus:00.0" "$folder/$bus:00.0"
    done
    export SIM_BUS=../../../..$folder/
    linked many idle
    [[ $(relayed) == 0 && $stderr == *'keep to its own link: the others share a PCIe port'* ]]
    SIM_DEVICES=4 linked many idle
    (($(relayed) > 0))
    [[ $(grep -c '^cuCtxCreate_v2 0' "$SIM_TRACE") == 1 ]]
    linked many 2
    (($(relayed) > 0))
    rm -r "$folder"
}

@test "the log has the links of each copy, its bytes once, and what a peer cost" {
    export ZC_LOG=$BATS_TEST_TMPDIR/log ZC_LOG_LEVEL=events
    scene order 2
    python3 - "$ZC_LOG" <<'END'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
large = [line for line in lines if line["type"] == "transfer" and line["bytes"] == 32 << 20
         and line["dir"] != "Memset"]
assert [line["links"] for line in large] == [2, 2, 2], large
assert all(line["driver_copies"] == 5 for line in large), large
notes = [line for line in lines if line["type"] == "warn" and line["code"] == "links"]
assert len(notes) == 1 and "48 MiB there, made in" in notes[0]["text"], notes
summary = lines[-1]
moved = {row["dir"]: row["bytes"] for row in summary["moved_by_kind"]}
assert moved["HtoD"] == 32 << 20 and moved["PtoP"] == 48 << 20, moved
END
}

@test "a policy whose links have no effect says why, once" {
    SIM_DEVICES=1 linked order idle
    [[ $stderr == *'copies of device 0 keep to its own link: the process sees no other GPU' ]]
    SIM_ATTR=20=3 linked order 2 # CU_COMPUTEMODE_EXCLUSIVE_PROCESS
    [[ $stderr == *'its own link: its compute mode gives a GPU to one process' ]]
    SIM_PEERS=none linked order 2
    [[ $stderr == *'its own link: it reaches no peer' ]]
    SIM_PEERS=pcie linked order 2
    [[ $stderr == *'its own link: no NVLink leads to another' ]]
    [[ $(grep -c '^cuCtxCreate' "$SIM_TRACE") == 0 ]]
    SIM_DEVICES=1 linked order own
    [[ -z $stderr ]]
}
