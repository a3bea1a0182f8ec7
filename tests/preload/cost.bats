#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The cost of libzc per call: instructions, system calls and the driver's calls against kept bounds,
# so that growth is seen when it comes.  Nothing is timed.  How deep the ledger's tree of blocks is
# differs with their addresses, by some 30 instructions a look-up, and as much again where a block
# enters or leaves.

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

# Runs the calls, or those with names that begin so, under libzc with a policy, and compares what it
# added to each with the bounds on standard input: instructions, system calls, the driver's calls,
# call.  within_bounds POLICY [NAME]
within_bounds() {
    ZC_POLICY=$1 ZC_LOG=off ZC_SUMMARY=0 LD_PRELOAD=$LIBZC timeout 60 "$PROGRAM" "${2:-}" \
        >"$BATS_TEST_TMPDIR/watched"
    awk -F'\t' '
        FILENAME == ARGV[1] { instructions[$1] = $2; calls[$1] = $3; driver[$1] = $4; next }
        FILENAME == ARGV[2] {
            more[$1] = $2 - instructions[$1]
            asks[$1] = $3 - calls[$1]
            drives[$1] = $4 - driver[$1]
            next
        }
        {
            split($0, bound, / +/)
            name = $0
            sub(/^ *[0-9]+ +[0-9]+ +[0-9]+ +/, "", name)
            if (!(name in more)) { print "no call \"" name "\" was counted"; bad = 1; next }
            kept[name] = 1
            if (more[name] > bound[1] || asks[name] > bound[2] || drives[name] > bound[3]) {
                printf "%s: %d instructions, %d system calls and %d of the driver more than bare, ",
                    name, more[name], asks[name], drives[name]
                printf "of %d, %d and %d\n", bound[1], bound[2], bound[3]
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
	230 0 0 HtoD stack
	230 0 0 DtoH stack
	230 0 0 HtoDAsync stack
	230 0 0 DtoHAsync stack
	230 0 0 HtoD malloc
	230 0 0 DtoH malloc
	230 0 0 HtoDAsync malloc
	230 0 0 DtoHAsync malloc
	230 0 0 HtoD large
	230 0 0 DtoH large
	230 0 0 HtoDAsync large
	230 0 0 DtoHAsync large
	240 0 0 HtoD pinned
	240 0 0 DtoH pinned
	240 0 0 HtoDAsync pinned
	240 0 0 DtoHAsync pinned
	230 0 0 DtoD
	230 0 0 Memset
	230 0 0 MemsetAsync
	30 0 0 Launch
	30 0 0 Launch 16 MiB
	30 0 0 Launch in another context
	180 0 0 attribute of device memory
	180 0 0 attribute of host memory
	910 0 1 cuMemAlloc 4 KiB
	760 0 0 cuMemFree 4 KiB
	10 0 0 malloc 100 B
	20 0 0 free 100 B
	10 0 0 malloc 1 MiB
	10 0 0 malloc 16 MiB
	20 0 0 free 1 MiB
	20 0 0 free 16 MiB
	10 0 0 mmap
	20 0 0 munmap
	END
}

@test "the preset everyday adds no more instructions and system calls to a call than before" {
    within_bounds "$PWD/policy/presets/everyday.conf" <<-'END'
	230 0 0 HtoD stack
	230 0 0 DtoH stack
	230 0 0 HtoDAsync stack
	230 0 0 DtoHAsync stack
	230 0 0 HtoD malloc
	230 0 0 DtoH malloc
	230 0 0 HtoDAsync malloc
	230 0 0 DtoHAsync malloc
	1990 0 0 HtoD large
	1990 0 0 DtoH large
	1990 0 0 HtoDAsync large
	1990 0 0 DtoHAsync large
	240 0 0 HtoD pinned
	240 0 0 DtoH pinned
	240 0 0 HtoDAsync pinned
	240 0 0 DtoHAsync pinned
	230 0 0 DtoD
	230 0 0 Memset
	230 0 0 MemsetAsync
	30 0 0 Launch
	30 0 0 Launch 16 MiB
	30 0 0 Launch in another context
	220 0 0 attribute of device memory
	220 0 0 attribute of host memory
	1230 0 1 cuMemAlloc 4 KiB
	890 0 0 cuMemFree 4 KiB
	10 0 0 malloc 100 B
	20 0 0 free 100 B
	10 0 0 malloc 1 MiB
	1440 0 0 malloc 16 MiB
	20 0 0 free 1 MiB
	1730 1 0 free 16 MiB
	10 0 0 mmap
	20 0 0 munmap
	END
}

# A rule for large blocks in a policy: rule_for_large API LINES
rule_for_large() {
    printf '[rule %s]\napi = %s\nsize = 1M..\n%s\n' "$1" "$@" >>"$BATS_TEST_TMPDIR/policy.conf"
}

@test "a launch under a rule that moves or shares blocks adds no more than before" {
    # Both blocks of 16 MiB are on the device; then one is in host memory, and a launch names the
    # other one; then the one is one memory with a block of the heap.  Launches of another context
    # end all moves.
    rule_for_large cudaMalloc $'place = vmm\nspill = move\nchunk = 2M'
    within_bounds "$BATS_TEST_TMPDIR/policy.conf" Launch <<-'END'
	430 0 1 Launch
	430 0 1 Launch 16 MiB
	630 0 2 Launch in another context
	END
    echo 'budget = 16M' >>"$BATS_TEST_TMPDIR/policy.conf"
    within_bounds "$BATS_TEST_TMPDIR/policy.conf" Launch <<-'END'
	780 0 1 Launch
	1860 0 1 Launch 16 MiB
	630 0 2 Launch in another context
	END
    sed -i 's/spill = move/spill = fetch/' "$BATS_TEST_TMPDIR/policy.conf"
    within_bounds "$BATS_TEST_TMPDIR/policy.conf" Launch <<-'END'
	780 0 1 Launch
	1790 0 5 Launch 16 MiB
	930 0 2 Launch in another context
	END
    rm "$BATS_TEST_TMPDIR/policy.conf"
    rule_for_large heap 'place = shared, pageable'
    rule_for_large cudaMalloc $'place = shared, device\naccess = read'
    within_bounds "$BATS_TEST_TMPDIR/policy.conf" Launch <<-'END'
	690 0 0 Launch
	1070 0 7 Launch 16 MiB
	690 0 0 Launch in another context
	END
}
