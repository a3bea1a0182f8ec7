# SPDX-License-Identifier: MIT
# Helpers of the end-to-end tests: the simulated GPU, policies, and running programs under both.
# Tests run in the top folder of the source tree; ZC_BUILD is the build folder.

bats_require_minimum_version 1.5.0

ZC_BUILD=${ZC_BUILD:-build}
LIBZC=$PWD/$ZC_BUILD/libzc.so
SIM=$PWD/$ZC_BUILD/sim

# Gives the simulated GPU to every program that the test starts.  $1: program of kernels/ whose
# kernels it runs.
sim_env() {
    export LD_LIBRARY_PATH=$SIM${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export SIM_KERNELS=$SIM/kernels/$1.so
}

# Skips the test where a file was not built, as without nvcc.
need_built() {
    local file
    for file in "$@"; do
        [[ -e $file ]] || skip "$file was not built"
    done
}

# The file that the loader finds for a library, or nothing.
library() {
    local found
    found=$(PATH=$PATH:/usr/sbin ldconfig -p | sed -nE "s/.*\b$1 .*=> (.*)/\1/p" | head -n 1)
    [[ -e $found ]] && echo "$found"
}

# Writes a policy with one rule of the given lines, unless they bring sections of their own, to
# $BATS_TEST_TMPDIR/policy.conf.
write_policy() {
    {
        [[ $1 == \[* ]] || echo "[rule all]"
        printf '%s\n' "$1"
    } >"$BATS_TEST_TMPDIR/policy.conf"
}

# Runs a program under libzc with a policy: under_policy 'place = mapped' CMD [ARGUMENT...]
under_policy() {
    write_policy "$1"
    shift
    env ZC_POLICY="$BATS_TEST_TMPDIR/policy.conf" ZC_LOG="${ZC_LOG:-off}" LD_PRELOAD="$LIBZC" "$@"
}

# Makes a command, which starts no other, see a control group that has so many bytes left: in_group
# BYTES COMMAND [ARGUMENT...]
in_group() {
    unshare --mount bash -c 'cd /sys/fs && mount -t tmpfs zc cgroup && mkdir cgroup/job &&
        echo 0::/job >cgroup/own && mount --bind cgroup/own /proc/$$/cgroup && cd cgroup/job &&
        echo "$1" >memory.max && echo 0 >memory.current && : >memory.stat && cd "$2" &&
        exec "${@:3}"' - "$1" "$PWD" "${@:2}"
}

# Prints one field of a program's JSON line on standard input, without quotes: json_field checksum
json_field() {
    sed -nE 's/.*"'"$1"'":("([^"]*)"|([^,}]*)).*/\2\3/p'
}

# Runs a command bare and under libzc in every place; each run must succeed and leave nothing live
# in the simulated driver: in_every_place CMD [ARGUMENT...]
in_every_place() {
    local place
    export SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
    for place in bare device mapped managed vmm; do
        echo "in $place memory: $*"
        rm -f "$SIM_LEAKS"
        if [[ $place == bare ]]; then
            run -0 timeout 30 "$@"
        else
            run -0 under_policy "place = $place" timeout 30 "$@"
        fi
        [[ -e $SIM_LEAKS && ! -s $SIM_LEAKS ]] || { cat "$SIM_LEAKS"; return 1; }
    done
}

# Prints what a log's summary says was moved, as the simulated driver writes it: "copyKind srcKind
# dstKind count bytes" a line, sorted.
moved_by_kind() {
    python3 -c '
import json, sys
summary = [json.loads(line) for line in open(sys.argv[1])][-1]
for row in summary["moved_by_kind"]:
    src = "-" if row["dir"] == "Memset" else row["src_kind"]
    print(row["dir"], src, row["dst_kind"], row["calls"], row["bytes"])' "$1" | sort
}

# Runs a command under libzc with a policy and compares the log's totals with the simulated driver's
# own count of what it did: referee POLICY CMD [ARGUMENT...]
referee() {
    local log=$BATS_TEST_TMPDIR/referee.jsonl copies=$BATS_TEST_TMPDIR/referee.copies
    rm -f "$log" "$copies"
    write_policy "$1"
    shift
    run -0 --separate-stderr env SIM_COPIES="$copies" ZC_LOG="$log" LD_PRELOAD="$LIBZC" \
        ZC_POLICY="$BATS_TEST_TMPDIR/policy.conf" ZC_SUMMARY=0 timeout 60 "$@"
    [[ -e $copies && -s $log ]]
    diff <(sort "$copies") <(moved_by_kind "$log")
}
