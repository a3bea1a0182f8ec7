#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What libzc adds to a call: instructions and system calls against kept bounds, so that growth is
# seen when it comes.  Nothing is timed.

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
	1030 1 HtoD stack
	1040 1 DtoH stack
	1050 1 HtoDAsync stack
	1060 1 DtoHAsync stack
	1220 1 HtoD malloc
	1240 1 DtoH malloc
	1240 1 HtoDAsync malloc
	1260 1 DtoHAsync malloc
	1220 1 HtoD large
	1240 1 DtoH large
	1240 1 HtoDAsync large
	1260 1 DtoHAsync large
	970 0 HtoD pinned
	990 0 DtoH pinned
	990 0 HtoDAsync pinned
	1010 0 DtoHAsync pinned
	930 0 DtoD
	760 0 Memset
	780 0 MemsetAsync
	50 0 Launch
	280 0 attribute of device memory
	260 0 attribute of host memory
	910 0 cuMemAlloc 4 KiB
	630 0 cuMemFree 4 KiB
	10 0 malloc 100 B
	20 0 free 100 B
	10 0 malloc 1 MiB
	10 0 malloc 32 MiB
	20 0 free 1 MiB
	20 0 free 32 MiB
	440 0 mmap
	330 0 munmap
	END
}

@test "the preset everyday adds no more instructions and system calls to a call than before" {
    within_bounds "$PWD/policy/presets/everyday.conf" <<-'END'
	1060 1 HtoD stack
	1080 1 DtoH stack
	1080 1 HtoDAsync stack
	1100 1 DtoHAsync stack
	1260 1 HtoD malloc
	1270 1 DtoH malloc
	1280 1 HtoDAsync malloc
	1290 1 DtoHAsync malloc
	2250 0 HtoD large
	2250 0 DtoH large
	2270 0 HtoDAsync large
	2270 0 DtoHAsync large
	1020 0 HtoD pinned
	1040 0 DtoH pinned
	1040 0 HtoDAsync pinned
	1060 0 DtoHAsync pinned
	960 0 DtoD
	780 0 Memset
	800 0 MemsetAsync
	50 0 Launch
	290 0 attribute of device memory
	280 0 attribute of host memory
	1100 0 cuMemAlloc 4 KiB
	920 1 cuMemFree 4 KiB
	10 0 malloc 100 B
	20 0 free 100 B
	10 0 malloc 1 MiB
	1230 0 malloc 32 MiB
	20 0 free 1 MiB
	1340 0 free 32 MiB
	440 0 mmap
	330 0 munmap
	END
}
