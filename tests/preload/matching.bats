#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Every match key of a rule chooses the requests that it names, and no others.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/matching
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_SUMMARY=0 ZC_LOG_LEVEL=allocs SIM_DEVICES=2
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl
}

# Prints a field of the log's alloc lines that a rule took, by default their sizes, on one line.
taken() {
    python3 -c 'import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
print(*[line[sys.argv[2]] for line in lines if line["type"] == "alloc" and line["rule"]])' \
        "$ZC_LOG" "${1:-size_bytes}"
}

# Runs the program under a rule with a key, and checks which sizes the rule took: rule KEY SIZES
rule() {
    rm -f "$ZC_LOG"
    run -0 --separate-stderr under_policy "$1
place = mapped" timeout 30 "$program"
    [[ -z $stderr ]] || { echo "$stderr"; return 1; }
    echo "$1: $(taken), expected $2"
    [[ $(taken) == "$2" ]]
}

@test "api takes runtime, driver and glob names for the same request" {
    rule 'api = cudaMalloc' '1000 2000 3000 8000'
    rule 'api = cuMemAlloc_v2' '1000 2000 3000 8000'
    rule 'api = cuMemAlloc*' '1000 2000 3000 8000'
}

@test "size takes ranges, both ends included" {
    rule 'size = 2000..4000' '2000 3000'
    rule 'size = 7000..' '8000'
    rule 'size = 1000, 8000' '1000 8000'
}

@test "module takes the caller's object" {
    rule 'module = matching' '1000 2000 3000 8000'
    rule 'module = libfoo.so*' ''
}

@test "exe takes the program's file name" {
    rule 'exe = match*' '1000 2000 3000 8000'
    rule 'exe = python3*' ''
}

@test "exe looks through links, for requests of libc and of the driver alike" {
    need_built "$ZC_BUILD/kernels/vecadd-shared" "$SIM/kernels/vecadd.so"
    sim_env vecadd
    ln -s "$PWD/$ZC_BUILD/kernels/vecadd-shared" "$BATS_TEST_TMPDIR/alias"
    run -0 --separate-stderr under_policy '[rule host]
api = malloc
exe = vecadd-*
size = 1M..
place = pinned
[rule device]
api = cudaMalloc
exe = vecadd-*
place = mapped' timeout 30 "$BATS_TEST_TMPDIR/alias"
    [[ " $(taken place) " == *' pinned '* && " $(taken place) " == *' mapped '* ]]
}

@test "rank, local_rank and host take the process as its launcher tells it" {
    all='1000 2000 3000 8000'
    rule 'rank = 0
local_rank = 0' "$all"
    export SLURM_PROCID=0 SLURM_LOCALID=0 TORCHELASTIC_RUN_ID=none RANK=5 LOCAL_RANK=1
    rule 'rank = 4..5
local_rank = 1' "$all"
    rule 'rank = 0' ''
    rule "host = $(uname -n)" "$all"
    rule 'host = no-such-host*' ''
    grep -qF '"rank":5,"rank_source":"torchrun","local_rank":1,"world":null,"local_world":null,'\
'"job":null' "$ZC_LOG"
}

@test "thread takes the name of the calling thread" {
    rule 'thread = loader-*' '3000'
    [[ $(taken thread_name) == loader-7 ]]
}

@test "device takes the current device" {
    rule 'device = 1' '8000'
}

@test "zc explain says of a log what the rules take in a process" {
    rule 'api = cuMemAlloc*' '1000 2000 3000 8000'
    for key in 'thread = load*' 'device = 1' 'size = 2000..4000'; do
        printf '[rule r]\napi = *\n%s\nplace = vmm\n' "$key" >"$BATS_TEST_TMPDIR/p.conf"
        run -0 scripts/zc explain "$BATS_TEST_TMPDIR/p.conf" "$ZC_LOG"
        explained=$(grep -c ' r:1 ' <<<"$output")
        mv "$ZC_LOG" "$BATS_TEST_TMPDIR/kept.jsonl"
        ZC_POLICY=$BATS_TEST_TMPDIR/p.conf LD_PRELOAD=$LIBZC run -0 timeout 30 "$program"
        [[ $explained == "$(taken | wc -w)" && $explained -gt 0 ]] || { echo "$key"; return 1; }
        mv "$BATS_TEST_TMPDIR/kept.jsonl" "$ZC_LOG"
    done
}

@test "nth takes the n-th request that fits the rest" {
    rule 'api = cudaMalloc
nth = 2' '2000'
    rule 'api = cudaMalloc
nth = 1, 3..' '1000 3000 8000'
}

@test "site takes one call path, by the id that the log prints" {
    rule 'size = 2000' '2000'
    site=$(taken site)
    rule "site = $site" '2000'
}

@test "the first rule that fits wins" {
    rm -f "$ZC_LOG"
    run -0 under_policy '[rule big]
size = 7000..
place = managed
[rule all]
place = mapped' timeout 30 "$program"
    [[ $(taken place) == 'mapped mapped mapped managed' ]]
}

@test "what a library that exports memory requests stays the driver's, unless a rule names it" {
    "${CC:-gcc}" -shared -fPIC -xc -o "$BATS_TEST_TMPDIR/libnccl.so.2" - <<-'END'
	#include <stddef.h>
	int cuMemAlloc_v2(unsigned long *, size_t);
	int request(unsigned long *address) { return cuMemAlloc_v2(address, 2 << 20) + 0 * *address; }
	END
    "${CC:-gcc}" -xc -o "$BATS_TEST_TMPDIR/rank" - -xnone "$BATS_TEST_TMPDIR/libnccl.so.2" \
        "$SIM/libcuda.so.1" -Wl,-rpath,"$BATS_TEST_TMPDIR" <<-'END'
	#include <stdio.h>
	int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
	int request(unsigned long *), cuIpcGetMemHandle(void *, unsigned long);
	int main(void)
	{
	    void *context;
	    unsigned long address = 0;
	    char handle[64];
	    int error = cuInit(0) | cuDevicePrimaryCtxRetain(&context, 0) | cuCtxSetCurrent(context);
	    printf("%d\n", error | request(&address) | cuIpcGetMemHandle(handle, address));
	}
	END
    run -0 --separate-stderr under_policy '[rule all]
place = vmm' "$BATS_TEST_TMPDIR/rank"
    [[ $output == 0 && -z $stderr ]]
    [[ $(taken place) == device && $(taken why) == *'a library that exports memory'* ]]
    rm "$ZC_LOG"
    run -0 under_policy '[rule all]
module = libnccl*
place = vmm' "$BATS_TEST_TMPDIR/rank"
    [[ $(taken place) == vmm ]]
}
