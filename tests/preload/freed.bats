#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Frees while work that uses the block runs: cudaFree waits for it, as the driver's does, and until
# then nobody else gets the memory.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/freed
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=off ZC_SUMMARY=0 SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
}

# Runs a scenario with the given keys; nothing may stay live: freed_under KEYS SCENARIO
freed_under() {
    rm -f "$SIM_LEAKS"
    run -0 --separate-stderr under_policy "place = vmm$1" timeout 60 "$program" "$2"
    [[ -e $SIM_LEAKS && ! -s $SIM_LEAKS && -z $stderr ]] || { cat "$SIM_LEAKS"; return 1; }
}

@test "a free waits for the work that runs, on every stream of the context" {
    for scenario in one growing reset independent destroyed destroyed_in_capture; do
        for keys in '' $'\ngrow = yes'; do
            freed_under "$keys" "$scenario"
            [[ ${lines[0]} == 'free waited' ]]
        done
    done
}

@test "what an array's copy leaves out is written by no work that was given before its free" {
    freed_under $'\ngrow = yes' half_grown
    [[ ${lines[0]} == 'free waited' ]]
}

@test "an array that another device copies stays open to it until the copy is made" {
    export SIM_DEVICES=2
    run -0 timeout 60 "$program" copied_from_afar
    freed_under $'\ngrow = yes' copied_from_afar
    [[ ${lines[0]} == 'free waited' ]]
}

@test "a free during a capture that allows it leaves the capture as it is" {
    run -0 timeout 60 "$program" in_capture
    for keys in '' $'\ngrow = yes'; do
        freed_under "$keys" in_capture
        freed_under "$keys" spare_in_capture
    done
}

@test "a request fails for want of memory that a stream still has which waits for the program" {
    export SIM_MEMORY_MIB=64
    run -0 timeout 60 "$program" held_memory
    [[ $output == 'cuMemAlloc(&q, 48 * MIB) -> 2' ]]
    local bare=$output
    freed_under '' held_memory
    [[ $output == "$bare" ]]
}

@test "so does one for want of a block that is in use, until the work that uses it has ended" {
    export SIM_MEMORY_MIB=64
    run -0 timeout 60 "$program" held_block
    [[ ${lines[*]} == *'-> 2 '*'-> 0' ]]
    local bare=$output
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=allocs
    freed_under '' held_block
    [[ $output == "$bare" ]]
    run -0 jq -r 'select(.type == "alloc") | "\(.size_bytes) \(.place)"' "$ZC_LOG"
    [[ $output == $'41943040 vmm\n50331648 vmm' ]]
}

@test "freed memory counts as free once the work that used it has ended" {
    run -0 timeout 60 "$program" figures
    [[ $output == $'free\nfree' ]]
    for keys in '' $'\ngrow = yes'; do
        freed_under "$keys" figures
        [[ $output == $'free\nfree' ]]
    done
}

@test "calls that the driver has no memory for get what libzc keeps" {
    freed_under '' given_back
    [[ $output == *'cuArrayCreate('*'-> 0'*'cuModuleLoadData('*'-> 0'*'-> 0'*'-> 2' ]]
}

@test "a free whose memory the driver does not take back has its code, and is told" {
    local call
    "${CC:-gcc}" -xc -o "$BATS_TEST_TMPDIR/program" - \
        -xnone "$SIM/libcuda.so.1" <<-'END'
	#include <stdio.h>
	int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
	int cuMemAlloc_v2(unsigned long long *, size_t), cuMemFree_v2(unsigned long long);
	int main(void)
	{
	    unsigned long long p;
	    void *context;
	    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
	        return 1;
	    for (int i = 0; i < 2; i++) {
	        if (cuMemAlloc_v2(&p, 4 << 20))
	            return 1;
	        printf("%d ", cuMemFree_v2(p));
	    }
	}
	END
    for call in cuMemRelease cuMemAddressFree; do
        SIM_FAIL=$call:999:1 run -0 --separate-stderr under_policy 'place = vmm' \
            "$BATS_TEST_TMPDIR/program"
        [[ $output == '999 0 ' ]]
        [[ $stderr == *"the driver does not take back 4 MiB of 'vmm'"*'(code 999): it stays'* ]]
    done
}
