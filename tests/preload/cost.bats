#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The cost of libzc per call: instructions and system calls against kept bounds, so that growth is
# seen when it comes.  Nothing is timed.  How deep the ledger's tree of blocks is differs with their
# addresses, by some 30 instructions a look-up, and as much again where a block enters or leaves.

load common.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/cost

setup() {
    need_built "$LIBZC" "$PROGRAM" "$SIM/kernels/driver_saxpy.so"
    [[ $ZC_BUILD != *debug* ]] || skip "not optimized"
    sim_env driver_saxpy
    timeout 60 "$PROGRAM" >"$BATS_TEST_TMPDIR/bare" || status=$?
    [[ ${status:-0} -ne 77 ]] || skip "this system lets no process step another one"
    [[ ${status:-0} -eq 0 ]]
}

# Runs the calls under libzc with a policy, and compares what it added to each with the bounds on
# standard input: instructions, system calls, call.
within_bounds() {
    ZC_POLICY=$1 ZC_LOG=off ZC_SUMMARY=0 LD_PRELOAD=$LIBZC timeout 60 "$PROGRAM" \
        >"$BATS_TEST_TMPDIR/watched"
    awk -F'\t' '
        FILENAME == ARGV[1] { instructions[$1] = $2; calls[$1] = $3; next }
        FILENAME == ARGV[2] {
            more[$1] = $2 - instructions[$1]
            asks[$1] = $3 - calls[$1]
            next
        }
        {
            split($0, bound, / +/)
            name = $0
            sub(/^ *[0-9]+ +[0-9]+ +/, "", name)
            if (!(name in more)) { print "no call \"" name "\" was counted"; bad = 1; next }
            kept[name] = 1
            if (more[name] > bound[1] || asks[name] > bound[2]) {
                printf "%s: %d instructions and %d system calls more than bare, of %d and %d\n",
                    name, more[name], asks[name], bound[1], bound[2]
                bad = 1
            }
        }
        END {
            for (name in more)
                if (!(name in kept)) { print "no bound for \"" name "\""; bad = 1 }
            exit bad
        }' "$BATS_TEST_TMPDIR/bare" "$BATS_TEST_TMPDIR/watched" -
}

@test "a library that watches adds no more instructions and system calls to a call than before" {
    within_bounds off <<-'END'
	230 0 HtoD stack
	230 0 DtoH stack
	230 0 HtoDAsync stack
	230 0 DtoHAsync stack
	230 0 HtoD malloc
	230 0 DtoH malloc
	230 0 HtoDAsync malloc
	230 0 DtoHAsync malloc
	230 0 HtoD large
	230 0 DtoH large
	230 0 HtoDAsync large
	230 0 DtoHAsync large
	240 0 HtoD pinned
	240 0 DtoH pinned
	240 0 HtoDAsync pinned
	240 0 DtoHAsync pinned
	230 0 DtoD
	230 0 Memset
	230 0 MemsetAsync
	30 0 Launch
	180 0 attribute of device memory
	180 0 attribute of host memory
	910 0 cuMemAlloc 4 KiB
	760 0 cuMemFree 4 KiB
	10 0 malloc 100 B
	20 0 free 100 B
	10 0 malloc 1 MiB
	10 0 malloc 16 MiB
	20 0 free 1 MiB
	20 0 free 16 MiB
	10 0 mmap
	20 0 munmap
	END
}

@test "the preset everyday adds no more instructions and system calls to a call than before" {
    within_bounds "$PWD/policy/presets/everyday.conf" <<-'END'
	230 0 HtoD stack
	230 0 DtoH stack
	230 0 HtoDAsync stack
	230 0 DtoHAsync stack
	230 0 HtoD malloc
	230 0 DtoH malloc
	230 0 HtoDAsync malloc
	230 0 DtoHAsync malloc
	1950 0 HtoD large
	1950 0 DtoH large
	1950 0 HtoDAsync large
	1950 0 DtoHAsync large
	240 0 HtoD pinned
	240 0 DtoH pinned
	240 0 HtoDAsync pinned
	240 0 DtoHAsync pinned
	230 0 DtoD
	230 0 Memset
	230 0 MemsetAsync
	30 0 Launch
	220 0 attribute of device memory
	220 0 attribute of host memory
	1180 0 cuMemAlloc 4 KiB
	890 0 cuMemFree 4 KiB
	10 0 malloc 100 B
	20 0 free 100 B
	10 0 malloc 1 MiB
	1440 0 malloc 16 MiB
	20 0 free 1 MiB
	1690 1 free 16 MiB
	10 0 mmap
	20 0 munmap
	END
}
