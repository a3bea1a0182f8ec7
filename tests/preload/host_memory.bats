#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# libc's memory in the place `pinned`: the program computes, asks and frees as without libzc.

load host.bash

setup() {
    host_setup host_copies host_contexts host_family host_stress
}

# Runs a scene bare and under a policy: what it prints must be the same.  The rest of the output of
# the second run is in $stderr.
scene() {
    local program=$PROGRAMS/${program:-host_copies}
    run -0 --separate-stderr timeout 60 "$program" "$1"
    local bare=$output
    run -0 --separate-stderr under_policy "$2" timeout 60 "$program" "$1"
    diff <(echo "$bare") <(echo "$output")
}

@test "the malloc family keeps its contract, bare" {
    run -0 "$PROGRAMS/host_family"
}

@test "the malloc family keeps its contract when everything large is placed" {
    run -0 under_policy "$PINNED" "$PROGRAMS/host_family"
}

@test "the malloc family keeps its contract when libzc watches only" {
    run -0 env ZC_POLICY=off LD_PRELOAD="$LIBZC" "$PROGRAMS/host_family"
}

@test "the malloc family keeps its contract at a limit that is soon reached" {
    run -0 under_policy "[defaults]
max_pinned = 8M
[rule all]
$PINNED" "$PROGRAMS/host_family"
}

@test "a kernel reaches a registered block by the address that bare fails" {
    need_built "$PROGRAMS/shared_calls"
    run -0 "$PROGRAMS/shared_calls" reached
    [[ $output == *"-> 700"*"the kernel saw -1" ]]
    run -0 under_policy "$PINNED" "$PROGRAMS/shared_calls" reached
    [[ $output == *"-> 0"*"the kernel saw 1"* ]]
}

@test "sixteen threads and their forked children keep their bytes" {
    run -0 under_policy "$PINNED" timeout 100 "$PROGRAMS/host_stress"
}

@test "a library that RTLD_DEEPBIND binds to libc may free what the program allocates" {
    "${CC:-gcc}" -xc -fPIC -shared -o "$BATS_TEST_TMPDIR/libplugin.so" - <<-'END'
	#include <stdlib.h>
	void take(void *p) { free(realloc(p, 3 << 20)); }
	END
    "${CC:-gcc}" -D_GNU_SOURCE -xc -o "$BATS_TEST_TMPDIR/program" - \
        -xnone "$SIM/libcuda.so.1" <<-'END'
	#include <dlfcn.h>
	#include <stdio.h>
	#include <stdlib.h>
	int cuInit(unsigned);
	int main(int argc, char **argv)
	{
	    void *before = malloc(1 << 20);
	    void (*take)(void *) = (void (*)(void *))dlsym(
	        dlopen(argv[argc - 1], RTLD_NOW | RTLD_DEEPBIND), "take");
	    take(malloc(1 << 20));
	    before = realloc(before, 2 << 20);
	    take(before);
	    printf("%d\n", cuInit(0));
	}
	END
    local -a command=("$BATS_TEST_TMPDIR/program" "$BATS_TEST_TMPDIR/libplugin.so")
    run -0 "${command[@]}"
    run -0 --separate-stderr under_policy "$PINNED" "${command[@]}"
    [[ $output == 0 && $stderr == *"requests of rule all ("*") stay pageable: a library that "* ]]
}

@test "blocks from before and after the driver was up are registered by their first copy" {
    scene roundtrip "$PINNED"
    [[ $stderr == *"registrations 2"* ]]
}

@test "a source may be overwritten when the asynchronous copy has returned" {
    scene overwrite "$PINNED"
    [[ $output == *"first content 1"* && $stderr == *"returned before the stream 1"* ]]
    scene rectangle "$PINNED"
    scene backwards "$PINNED"
}

@test "a target holds its bytes when the asynchronous copy has returned" {
    scene arrived "$PINNED"
    [[ $output == *"arrived 1"* ]]
}

@test "async = overlap gives up both, which such a program does not survive" {
    run -0 under_policy "$PINNED
async = overlap" "$PROGRAMS/host_copies" overwrite
    [[ $output == *"first content 0"* ]]
    run -0 under_policy "$PINNED
async = overlap" "$PROGRAMS/host_copies" arrived
    [[ $output == *"arrived 0"* ]]
}

@test "more than the staging memory holds keeps its order" {
    scene many "$PINNED"
    scene again "$PINNED"
    [[ $stderr == *"returned before the stream 1"* ]]
}

@test "the driver is asked about such memory as about pageable memory" {
    scene attributes "$PINNED"
}

@test "the program may register its memory itself" {
    scene register "$PINNED"
}

@test "memory that the program has freed can't be registered" {
    scene register_freed "$PINNED"
}

@test "threads may register neighbours at the same time" {
    need_built "$PROGRAMS/register_race"
    run -0 --separate-stderr under_policy "$PINNED" timeout 60 "$PROGRAMS/register_race" neighbours
    [[ -z $output && -z $stderr ]]
}

@test "a copy has arrived when it returns, though another thread's registers the block meanwhile" {
    need_built "$PROGRAMS/register_race"
    run -0 --separate-stderr under_policy "$PINNED" timeout 60 "$PROGRAMS/register_race" arrives
    [[ -z $output && -z $stderr ]]
}

@test "a captured copy reads what is there when the graph runs" {
    scene capture "$PINNED"
}

@test "a forked child has the parent's blocks" {
    scene fork "$PINNED"
}

@test "a context that goes takes the registration along, not the block" {
    program=host_contexts scene reset "$PINNED"
    [[ $stderr == *"registrations 2"* ]]
}

@test "a context that goes takes along what marks the end of its copies" {
    program=host_contexts scene staged "$PINNED"
    [[ $stderr == *"asked 0"* ]]
}

# Ten registrations of the program's, and one of each block that it copies afterwards: the next one
# that it registers has the memory of that.
@test "a context that goes takes the program's own registrations along" {
    program=host_contexts scene resets "[defaults]
max_pinned = 24M
[rule all]
$PINNED"
    [[ $stderr == *"registrations 20"* && $stderr != *"stay pageable"* ]]
}

@test "freed memory comes back registered, and zero for calloc" {
    scene pool "$PINNED"
    [[ $stderr == *"registrations 1"* ]]
}

@test "small blocks share registrations" {
    scene small "$PINNED"
    registrations=${stderr##*registrations }
    ((${registrations%%[!0-9]*} <= 8))
}

# In both: sixteen blocks of 4 MiB, and a slab for what the C++ runtime keeps for emergencies.
@test "what is too much in the pool goes in a call that waits anyway" {
    scene trim "[defaults]
max_pinned = 66M
[rule all]
$PINNED"
    [[ $stderr == *"unregistrations 12"* ]]
}

@test "what max_pinned leaves no room for stays pageable, and is said once" {
    scene trim "[defaults]
max_pinned = 22M
[rule all]
$PINNED"
    [[ $(grep -c "stay pageable: over max_pinned" <<<"$stderr") -eq 1 ]]
    [[ $stderr == *"registrations 5 "* ]]
}

@test "a driver call that fails costs speed, never bytes" {
    for call in cuMemHostRegister_v2:2:0 cuMemHostRegister_v2:2:1 cuMemHostRegister_v2:2:2 \
        cuMemHostUnregister:1:0 cuEventCreate:2:0 cuEventRecord:2:0 cuCtxGetCurrent:4:0; do
        for s in roundtrip overwrite arrived many rectangle pool trim small capture reset; do
            echo "$call in $s"
            program=$PROGRAMS/host_copies
            [[ $s != reset ]] || program=$PROGRAMS/host_contexts
            run -0 --separate-stderr "$program" "$s"
            bare=$output
            SIM_FAIL=$call run -0 --separate-stderr under_policy "[defaults]
max_pinned = 96M
[rule all]
$PINNED" timeout 60 "$program" "$s"
            diff <(echo "$bare") <(echo "$output")
        done
    done
}

@test "a block that cannot be registered is named once" {
    SIM_FAIL=cuMemHostRegister_v2:2:0 scene small "$PINNED"
    [[ $(grep -c "stay pageable: cuMemHostRegister" <<<"$stderr") -eq 1 ]]
}

@test "only blocks that a rule names are placed" {
    scene roundtrip "api = malloc
size = 5M..
place = pinned"
    [[ $stderr == *"registrations 0"* ]]
    scene roundtrip "api = malloc
module = libnobody.so
place = pinned"
    [[ $stderr == *"registrations 0"* ]]
    scene roundtrip "api = malloc
module = host_copies
size = 4M
nth = 2
place = pinned"
    [[ $stderr == *"registrations 1"* ]]
    scene roundtrip "api = malloc
place = pageable, pinned"
    [[ $stderr == *"registrations 0"* ]]
}

@test "a rule that libc's small requests alone could fit is warned of" {
    run -0 --separate-stderr under_policy "api = malloc
size = ..32K
place = pinned" "$PROGRAMS/host_copies" roundtrip
    [[ $stderr == *"host requests below 64 KiB are never converted"* ]]
}

@test "the log shows the block, its rule and what its transfers cost" {
    ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=allocs scene roundtrip "$PINNED"
    python3 - "$BATS_TEST_TMPDIR/log.jsonl" <<'PY'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
allocs = [l for l in lines if l["type"] == "alloc"]
blocks = [l for l in allocs if l["api"] == "malloc" and l["size_bytes"] >= 1 << 20]
assert len(blocks) == 3, blocks
for block in blocks:
    assert block["place"] == "pinned" and block["asked_kind"] == "Pageable", block
    assert block["converted"] and block["rule"] == "all" and block["size_bytes"] == 4 << 20, block
    before = lines[:lines.index(block)]
    assert [l["site"] for l in before if l["type"] == "site"].count(block["site"]) == 1, block
# One that is older than the driver is there before the program's first request of the device.
assert blocks[0]["block"] < next(l["block"] for l in allocs if l["api"] == "cuMemAlloc"), allocs
ids = {block["block"] for block in blocks}
frees = [l for l in lines if l["type"] == "free" and l["block"] in ids]
assert len(frees) == 3 and frees[-1]["traffic"] == [], frees
for free in frees[:-1]:
    moved = {t["dir"]: t["moved_bytes"] for t in free["traffic"]}
    assert moved == {"HtoD": 4 << 20, "DtoH": 4 << 20}, free
summary = lines[-1]
asked = {(f["dir"], f["src_kind"], f["dst_kind"]): f["asked_bytes"] for f in summary["flows"]}
assert asked[("HtoD", "Pageable", "Device")] == 8 << 20, asked
real = {(f["dir"], f["src_kind"], f["dst_kind"]): f["bytes"] for f in summary["moved_by_kind"]}
assert real[("HtoD", "Pinned", "Device")] == 8 << 20, real
PY
}

# A copy looks for its operands and finds what is there: block, registration, block again.
@test "copies enter no block into the ledger, nor does the end of a registration forget one" {
    ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=events scene register "$PINNED"
    python3 - "$BATS_TEST_TMPDIR/log.jsonl" <<'PY'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
place = {(l["type"], l.get("block")): i for i, l in enumerate(lines) if l["type"] == "alloc"}
blocks = [l for l in lines if l["type"] == "alloc" and l["size_bytes"] == 4 << 20
          and l["api"] == "malloc"]
hidden = [l for l in lines if l["type"] == "alloc" and l["api"] == "cuMemHostRegister"]
assert len(blocks) == 4 and len(hidden) == 2, (blocks, hidden)
for first, own, again in zip(blocks[::2], hidden, blocks[1::2]):
    assert first["block"] < own["block"] < again["block"] and first["site"] == again["site"]
copies = [(i, l) for i, l in enumerate(lines) if l["type"] == "transfer"
          and l["function"].startswith("cuMemcpyHtoD")]
for at, copy in copies:
    assert copy["src_block"] and place["alloc", copy["src_block"]] < at, copy
    assert lines[at - 1]["type"] != "alloc", (lines[at - 1], copy)
PY
}

@test "neither malloc nor the first CUDA call becomes a cancellation point" {
    need_built "$PROGRAMS/cancelled"
    for first in malloc init; do
        run -0 timeout 60 "$PROGRAMS/cancelled" "$first"
        bare=$output
        [[ $bare == $'came through\n0' ]]
        ZC_LOG=$BATS_TEST_TMPDIR/$first.jsonl run -0 under_policy "$PINNED" \
            timeout 20 "$PROGRAMS/cancelled" "$first"
        [[ $output == "$bare" ]]
    done
}

@test "a process without CUDA that allocates much sees nothing" {
    write_policy "$PINNED"
    mkdir "$BATS_TEST_TMPDIR/empty"
    cd "$BATS_TEST_TMPDIR/empty"
    run -0 --separate-stderr env LD_PRELOAD="$LIBZC" ZC_POLICY="$BATS_TEST_TMPDIR/policy.conf" \
        python3 -c 'print(len(bytearray(10 ** 8)))'
    [[ $output == 100000000 && -z $stderr ]]
    [[ -z $(ls -A) ]]
}

PARALLEL="[defaults]
pageable_copy = parallel"

@test "pageable_copy = parallel copies what no malloc gave, in parts" {
    scene others "$PARALLEL"
    parts=${stderr##*parts }
    ((${parts%%[!0-9]*} >= 16))
    [[ $stderr != *"not built"* ]]
}

@test "pageable_copy = parallel brings every byte of every size, through a ring of any size" {
    for limit in 50% 64M 20M 8M; do
        echo "max_pinned = $limit"
        run -0 --separate-stderr under_policy "$PARALLEL
max_pinned = $limit" "$PROGRAMS/parallel_copies" 1
        [[ $output == done ]]
        parts=${stderr##*parts }
        ((${parts%%[!0-9]*} > 50))
    done
}

@test "pageable_copy = parallel divides the ring between threads that copy at the same time" {
    run -0 --separate-stderr under_policy "$PARALLEL" "$PROGRAMS/parallel_copies" 3
    [[ $output == done ]]
}

@test "pageable_copy = parallel leaves what the CPU cannot touch to the driver" {
    scene unreachable "$PARALLEL"
}

@test "pageable_copy = parallel ends a program by the signal that ends it bare" {
    run -135 --separate-stderr timeout 60 "$PROGRAMS/host_copies" shrunk
    [[ $output == "whole 1" ]]
    run -135 --separate-stderr under_policy "$PARALLEL" timeout 60 "$PROGRAMS/host_copies" shrunk
    [[ $output == "whole 1" ]]
}

@test "pageable_copy = parallel keeps the order of the stream and the meaning of each copy" {
    for s in order roundtrip overwrite arrived many capture rectangle attributes; do
        scene "$s" "$PARALLEL"
    done
}

@test "pageable_copy = parallel goes with placed blocks" {
    for s in others order roundtrip overwrite arrived many register fork; do
        scene "$s" "$PARALLEL
[rule some]
api = malloc
place = pinned"
    done
}

@test "pageable_copy = parallel without pinned memory leaves the copies to the driver" {
    scene others "$PARALLEL
max_pinned = 1M"
    [[ $stderr == *"parts 0"* ]]
    for call in cuMemHostRegister_v2:2:0 cuEventCreate:2:0; do
        SIM_FAIL=$call scene others "$PARALLEL"
        [[ $stderr == *"parts 0"* ]]
    done
}

@test "pageable_copy = parallel gives the error of a copy that fails on the way" {
    SIM_FAIL=cuMemcpyHtoDAsync_v2:719:3 run under_policy "$PARALLEL" "$PROGRAMS/host_copies" others
    [[ $status -eq 1 && $output == *"cuMemcpyHtoD_v2 returned 719"* ]]
    SIM_FAIL=cuMemcpyDtoHAsync_v2:719:5 run under_policy "$PARALLEL" "$PROGRAMS/host_copies" others
    [[ $status -eq 1 && $output == *"cuMemcpyDtoH_v2 returned 719"* ]]
}

@test "the sample programs give the same bytes with placed host memory in every device place" {
    for program in vecadd gather pipeline pooled pitched graph; do
        for build in shared ptds; do
            file=$PWD/$ZC_BUILD/kernels/$program-$build
            need_built "$file" "$SIM/kernels/$program.so"
            sim_env "$program"
            run -0 --separate-stderr "$file"
            expected=$(json_field checksum <<<"$output")
            for place in device mapped managed; do
                echo "$program-$build, device memory in $place"
                run -0 --separate-stderr under_policy "$PARALLEL
[rule host]
$PINNED
[rule device]
api = cudaMalloc*
place = $place, device" "$file"
                [[ $(json_field verified <<<"$output") == true ]]
                [[ $(json_field checksum <<<"$output") == "$expected" ]]
            done
        done
    done
}

@test "log and driver agree to the byte on what was pinned" {
    for program in vecadd gather; do
        need_built "$ZC_BUILD/kernels/$program-shared" "$SIM/kernels/$program.so"
        sim_env "$program"
        referee "$PINNED" "$ZC_BUILD/kernels/$program-shared"
        [[ $(moved_by_kind "$BATS_TEST_TMPDIR/referee.jsonl") == *"HtoD Pinned Device"* ]]
    done
}

@test "the first copy of a large block goes by threads, and the second registers it" {
    run -0 --separate-stderr under_policy "$PINNED" "$PROGRAMS/host_copies" first
    [[ $output == "there and back 1"$'\n'"late 7" ]]
    # The ring's own memory alone is registered.
    [[ $stderr =~ in:\ 4\ registered,\ ([0-9]+)\ parts.*out:\ 0\ registered,\ ([0-9]+)\ parts ]]
    ((BASH_REMATCH[1] > 8 && BASH_REMATCH[2] > 8))
    [[ $stderr == *"in again: 1 registered, 0 parts"* ]]
    # Threads can't be had.
    [[ $stderr == *"late: 1 registered, 1 parts"* ]]
}

# Output of scene staying about its copies that were sent in parts.
parts_of() {
    scene staying "$1"
    echo "$stderr" | grep -oE '(malloc|inside|realloc) [1-9][0-9]*' | cut -d ' ' -f 1 | xargs
}

@test "threads copy what a rule leaves to libc, and what it could not register" {
    local rule="[rule some]
api = malloc, realloc
size = 4M..
place ="
    [[ $(parts_of "$PARALLEL
$rule pageable") == "malloc inside realloc" ]]
    [[ $(parts_of "$rule pageable") == "" ]]
    # Over the limit they stay with libc, and the driver has to copy them: the ring has no memory.
    [[ $(parts_of "$PARALLEL
max_pinned = 4M
$rule pinned, pageable") == "" ]]
    # If registering fails they stay in the heap.
    SIM_FAIL=cuMemHostRegister_v2:2:1 scene staying "$PARALLEL
$rule pinned, pageable"
    [[ $stderr == *"malloc "[1-9]* && $stderr != *"not built"* ]]
}

@test "a transfer that libzc sends in parts is as many copies as the driver makes of it" {
    for s in others order; do
        referee "$PARALLEL" "$PROGRAMS/host_copies" "$s"
    done
    referee "$PINNED" "$PROGRAMS/host_copies" again
    [[ $(moved_by_kind "$BATS_TEST_TMPDIR/referee.jsonl") == *"HtoD Pinned Device"* ]]
    ZC_LOG_LEVEL=events referee "$PARALLEL" "$PROGRAMS/host_copies" others
    python3 - "$BATS_TEST_TMPDIR/referee.jsonl" <<'PY'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
moved = [l for l in lines if l["type"] == "transfer" and l["outcome"] == "moved"]
assert max(l["driver_copies"] for l in moved) > 1, moved
flows = lines[-1]["moved_by_kind"]
assert sum(l["driver_copies"] for l in moved) == sum(f["calls"] for f in flows), flows
PY
}

@test "many small blocks take the memory that they touch, and are pinned where they are copied" {
    local log=$BATS_TEST_TMPDIR/log.jsonl bare
    run -0 --separate-stderr timeout 60 "$PROGRAMS/host_copies" sparse
    bare=$(sed -nE 's/.*resident ([0-9]+) .*/\1/p' <<<"$stderr")
    ZC_LOG=$log run -0 --separate-stderr under_policy "$PINNED" timeout 60 \
        "$PROGRAMS/host_copies" sparse
    echo "bare $bare; $output; $stderr"
    [[ $output == "content 1" ]]
    (($(sed -nE 's/.*resident ([0-9]+) .*/\1/p' <<<"$stderr") <= 2 * bare))
    # A unit of 2 MiB has 30 or 32 of them, and its first copies move before it is worth it.
    (($(sed -nE 's/.*registrations ([0-9]+).*/\1/p' <<<"$stderr") <= 280 / 30 + 2))
    moved_by_kind "$log"
    (($(moved_by_kind "$log" | awk '$1 " " $2 == "HtoD Pinned" { print $4 }') >= 2 * 280 - 2 * 12))
}
