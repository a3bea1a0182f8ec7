#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Cost of watching: runs the benchmark bare and under libzc in turn, on the simulated driver, and
# prints a Markdown table of medians with the goal of each row.  Judges nothing.  Exit status 2
# where something that it needs is not there.
#
# DRIVER  folder of the driver (the simulated one): that of a real libcuda.so.1 for figures of a GPU
# ROUNDS  rounds (9)
# PAIRS   allocations that are freed again, of the last row (10000000)
set -euo pipefail
build=$(cd "${ZC_BUILD:-build}" && pwd)
rounds=${ROUNDS:-9}
driver=${DRIVER:-$build/sim}
pairs=${PAIRS:-10000000}
bench=$build/tests/bench/sim_overhead

# Whoever keeps only the table finds in it why there is no more of it.
say() {
    echo "overhead: $1"
    echo "overhead: $1" >&2
}
give_up() {
    say "$1"
    exit 2
}
[[ $rounds =~ ^[1-9][0-9]*$ ]] || give_up "ROUNDS is not a number of rounds: '$rounds'"
[[ $pairs =~ ^[1-9][0-9]*$ ]] || give_up "PAIRS is not a number of pairs: '$pairs'"
# Without the simulation's files the programs would take the machine's own driver.
for file in "$build/libzc.so" "$bench" "$driver/libcuda.so.1" \
    "$build/sim/kernels/driver_saxpy.so"; do
    [[ -s $file ]] || give_up "no $file: run 'make bench-overhead'"
done
for tool in awk cut env sort seq; do
    command -v "$tool" >/dev/null || give_up "no command '$tool'"
done

work=$(mktemp -d)
exec 3>&1 4>&2 2>"$work/errors"
ended() {
    local status=$?
    exec >&3 2>&4 # a signal finds the output of some command redirected
    cat "$work/errors" >&2
    if [[ $status -ne 0 ]]; then
        cat "$work/errors"
        say "ended with status $status before the table was whole"
    fi
    rm -rf "$work"
}
trap ended EXIT
trap 'exit 143' INT TERM # as the shell names the end by SIGTERM
cd "$work"
export LD_LIBRARY_PATH=$driver SIM_KERNELS=$build/sim/kernels/driver_saxpy.so ZC_POLICY=off

watched() {
    ZC_SUMMARY=0 LD_PRELOAD=$build/libzc.so "$@"
    rm -f zc.*
}
plain=(env ZC_SUMMARY=0)
preloaded=("${plain[@]}" LD_PRELOAD="$build/libzc.so")

# Nanoseconds that a command takes, by the shell's clock.
took() {
    local start end
    start=$(date +%s%N)
    "$@" >/dev/null
    end=$(date +%s%N)
    echo $((end - start))
}

median() {
    sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'
}

for _ in $(seq "$rounds"); do
    "$bench" calls >>bare.calls
    watched "$bench" calls >>watched.calls
    ZC_LOG_LEVEL=events watched "$bench" calls >>events.calls
    for threads in 1 16; do
        "$bench" threads "$threads" >>bare.threads
        watched "$bench" threads "$threads" >>watched.threads
    done
done
for _ in $(seq $((rounds * 10))); do
    took "${plain[@]}" /bin/true >>bare.true
    took "${preloaded[@]}" /bin/true >>watched.true
    took "${plain[@]}" "$bench" start >>bare.start
    took "${preloaded[@]}" "$bench" start >>watched.start
    rm -f zc.*
done

for _ in $(seq "$rounds"); do
    took "${plain[@]}" "$bench" large 96 >>bare.large
    took "${preloaded[@]}" "$bench" large 96 >>watched.large
    rm -f zc.*
done

# Median of all rounds: column FILE CALL COLUMN
column() { awk -F'\t' -v n="$2" -v c="$3" '$2 == n {print $c}' "$1" | median; }

echo "| caught call | bare ns | more, median ns | more, p99 ns | goal |"
echo "|---|---|---|---|---|"
cut -f2 bare.calls | awk '!seen[$0]++' | while IFS= read -r name; do
    goal="50 / 200"
    [ "$name" = cuLaunchKernel ] && goal="10"
    [ "$name" = "read of 1 byte, 100 times" ] && goal="200"
    bare=$(column bare.calls "$name" 3)
    more=$(($(column watched.calls "$name" 3) - bare))
    tail=$(($(column watched.calls "$name" 4) - $(column bare.calls "$name" 4)))
    echo "| $name | $bare | $more | $tail | $goal |"
done
echo
echo "| what | bare | under libzc | goal |"
echo "|---|---|---|---|"
for threads in 1 16; do
    rate() { awk -F'\t' -v t="$threads" '$2 == t {print $3}' "$1" | median; }
    bare=$(rate bare.threads) with=$(rate watched.threads)
    echo "| copies of 64 B a second, $threads threads | $bare | $with" \
         "($(awk -v a="$with" -v b="$bare" 'BEGIN {printf "%.2f", a / b}')) | 0.9 at 16 |"
done
copy="cuMemcpyHtoD pinned 64 B"
line=$(($(column events.calls "$copy" 3) - $(column watched.calls "$copy" 3)))
echo "| a copy's line in the log, level events | | $line ns more | 1000 ns more |"
us() { awk -v ns="$1" 'BEGIN {printf "%.0f us", ns / 1000}'; }
for kind in true start; do
    extra=$(($(median <"watched.$kind") - $(median <"bare.$kind")))
    [ "$kind" = true ] && what="start of a process without CUDA" goal="500 us more"
    [ "$kind" = start ] && what="start of a process that calls cuInit" goal="5000 us more"
    echo "| $what | $(us "$(median <"bare.$kind")") | $(us "$extra") more | $goal |"
done
bare=$(median <bare.large)
extra=$(($(median <watched.large) - bare))
echo "| fills and copies 8 MiB 96 times, level summary" \
     "| $(us "$bare") | $(us "$extra") more ($((100 * extra / bare)) %) | 25 % more |"
blocks=200000
bare=$("$bench" memory $blocks | cut -f3) with=$(watched "$bench" memory $blocks | cut -f3)
each=$(((with - bare) * 1024 / blocks))
echo "| memory of libzc a live block, $blocks blocks | | $each B | 200 B |"
bare=$("$bench" growth "$pairs" | cut -f3) with=$(watched "$bench" growth "$pairs" | cut -f3)
echo "| growth over $pairs allocate/free pairs | $bare KiB | $with KiB | none more |"
