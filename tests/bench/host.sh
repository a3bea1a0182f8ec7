#!/bin/bash
# SPDX-License-Identifier: MIT
# Measures what the host heap promises, bare and under libzc in turn, and prints a table with
# medians and goals; with OUT_DIR set it is written to $OUT_DIR/host.md as well.  Needs bash and
# what was built.
#
#   tests/bench/host.sh [gpu|small|PART]   all that needs a GPU, what needs none, or a part of what
#       needs one: copies, processes, pageable, requests; gpu and small by default.  `pinning`, of
#       large blocks, is a part for itself: it needs one and a half times PIN_GIB of free host
#       memory.  64 GiB and one round take about 90 s (an H100 or H200)
#
# ZC_BUILD   the build folder (build)
# ROUNDS     runs of each measurement (5)
# PROCESS_ROUNDS   runs of whole processes up to 128 MiB, whose start alone varies by a tenth (21)
# PROCESS_MIB      their sizes (16 32 64 128 256 1024 4096)
# PIN_GIB        bytes of the large blocks of `pinning` (48; 16 with QUICK=1, and 1 round)
# SMALL_ROUNDS   runs of what takes nanoseconds (15)
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
build=${ZC_BUILD:-build}
libzc=$PWD/$build/libzc.so
program=$build/tests/preload/programs/host_speed
rounds=${ROUNDS:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bytes_of_malloc='api = malloc, calloc, realloc, aligned_alloc, posix_memalign, memalign
size = 16M..
place = pinned'
printf '[rule host]\n%s\n' "$bytes_of_malloc" >"$work/pinned.conf"
cp policy/presets/pinned-host-buffers.conf "$work/preset.conf"
printf '[defaults]\npageable_copy = parallel\n' >"$work/parallel.conf"
printf '[rule host]\napi = malloc\nsize = 1G..\nplace = pinned\n' >"$work/far.conf"
printf '[rule host]\napi = cudaHostAlloc\nplace = pinned\n' >"$work/asked.conf"

# Runs a measurement once; every line "NAME VALUE" goes to a file of its own, and the time from exec
# to exit in ms to `process`: run LABEL POLICY ARGS...
run() {
    local label=$1 policy=$2 name value
    shift 2
    local -a command=(env LD_PRELOAD="$libzc" ZC_POLICY="$work/$policy.conf" ZC_LOG=off
        ZC_SUMMARY=0 "$program" "$@")
    [[ $policy != bare ]] || command=(env "$program" "$@")
    local began=$EPOCHREALTIME ended
    "${command[@]}" >"$work/out" || return
    ended=$EPOCHREALTIME
    echo $(((${ended//[!0-9]/} - ${began//[!0-9]/}) / 1000)) >>"$work/$label.process"
    while read -r name value; do
        echo "$value" >>"$work/$label.$name"
    done <"$work/out"
}

# The runs of one row in turn, so that what else the machine does meets all of them, and each first
# as often as the others: in_turn LABEL POLICY ARGS...  Of `ways`, bare and again are without libzc.
ways=(bare zc)
in_turn() {
    local label=$1 policy=$2 i j way
    shift 2
    for ((i = 0; i < rounds; i++)); do
        for ((j = 0; j < ${#ways[@]}; j++)); do
            way=${ways[(i + j) % ${#ways[@]}]}
            run "$label.$way" "$([[ $way == zc ]] && echo "$policy" || echo bare)" "$@" || return
        done
    done
}

# The number at a quarter, the half or three quarters of sorted ones: quantile 1|2|3 FILE
quantile() {
    sort -g "$2" | awk -v q="$1" '{ v[NR] = $1 } END { print v[int(q * (NR - 1) / 4) + 1] }'
}
median() { quantile 2 "$work/$1"; }

# The middle one of what the runs are to the bare ones beside them, so that what changes in the
# course of the runs counts little: paired LABEL NAME ratio|difference [WAY [QUARTER]]
paired() {
    paste "$work/$1.${4:-zc}.$2" "$work/$1.bare.$2" |
        awk -v form="$3" '{ print form == "ratio" ? $1 / $2 : $1 - $2 }' |
        quantile "${5:-2}" /dev/stdin
}

# The quartiles of such ratios: spread LABEL NAME WAY
spread() {
    local quarter
    local -a ratios
    for quarter in 2 1 3; do
        ratios+=("$(paired "$1" "$2" ratio "$3" "$quarter")")
    done
    printf '%.3f (%.3f to %.3f)' "${ratios[@]}"
}

rows=()
# Adds a row that says whether the goal is met: row WHAT VALUE BASE UNIT FORM GOAL, where FORM is
# "ratio>=", "ratio<=", "difference<=", or "bound" for a ratio without a goal; RESULT, where it is
# given, is the ratio or difference, and NOTE what the reader should know beside it.
# row WHAT VALUE BASE UNIT FORM GOAL [RESULT [NOTE]]
row() {
    local what=$1 value=$2 base=$3 unit=$4 form=$5 goal=$6 result=${7:-} note=${8:-}
    rows+=("$(awk -v w="$what" -v v="$value" -v b="$base" -v u="$unit" -v f="$form" -v g="$goal" \
        -v given="$result" -v note="$note" '
        BEGIN {
            if (v == "" || b == "") {
                printf "| %s | | | | | not measured | |", w
                exit
            }
            r = given != "" ? given : f ~ /^difference/ ? v - b : v / b
            if (f == "bound") {
                printf "| %s | %s %s | %s %s | %.3f | | | %s |", w, v, u, b, u, r, note
                exit
            }
            met = f ~ />=/ ? r >= g : r <= g
            printf "| %s | %s %s | %s %s | %.3f | %s %s | %s | %s |", w, v, u, b, u, r,
                   f ~ />=/ ? "≥" : "≤", g, met ? "yes" : "**no**", note
        }')")
}

gpu() {
    copies && processes && pageable && requests
}

copies() {
    local way
    in_turn copy pinned copy 256 || return
    for way in htod dtoh; do
        row "256 MiB $way, malloc'd / cuMemHostAlloc'd" "$(median copy.zc.malloc_$way)" \
            "$(median copy.zc.hostalloc_$way)" GB/s "ratio>=" 0.97
        row "256 MiB $way, libzc / bare" "$(median copy.zc.malloc_$way)" \
            "$(median copy.bare.malloc_$way)" GB/s "ratio>=" 5
        row "256 MiB $way, both bare: the link / the driver's way for pageable memory" \
            "$(median copy.bare.hostalloc_$way)" "$(median copy.bare.malloc_$way)" GB/s bound 0
    done
    in_turn fill pinned fill 1024
    row "malloc and first fill of 1 GiB, libzc / bare" "$(median fill.zc.fill)" \
        "$(median fill.bare.fill)" ms "ratio<=" 0.5
    in_turn allocate pinned allocate 1024
    row "1 GiB of pinned memory, cold / cuMemHostAlloc" "$(median allocate.zc.cold)" \
        "$(median allocate.zc.hostalloc)" ms "ratio<=" 0.2
    row "1 GiB of pinned memory, pool / cuMemHostAlloc" "$(median allocate.zc.pool)" \
        "$(median allocate.zc.hostalloc)" ms "ratio<=" 0.02
}

# The preset pinned-host-buffers, from the smallest size that it converts.  What a process is to
# another one by chance is measured with the same number of bare ones.
processes() {
    local mib most=$rounds ways=(bare zc again) rounds
    for mib in ${PROCESS_MIB:-16 32 64 128 256 1024 4096}; do
        rounds=$( ((mib <= 128)) && echo "${PROCESS_ROUNDS:-21}" || echo "$most")
        in_turn "once$mib" preset once "$mib" || return
        row "allocate, fill, copy once, free $mib MiB, libzc / bare" \
            "$(median "once$mib.zc.once")" "$(median "once$mib.bare.once")" ms \
            "ratio<=" "$( ((mib < 64)) && echo 1.03 || echo 0.6)"
        row "the same, the whole process, libzc / bare" "$(median "once$mib.zc.process")" \
            "$(median "once$mib.bare.process")" ms "ratio<=" 1.03 \
            "$(paired "once$mib" process ratio)" \
            "$(spread "once$mib" process zc); by chance $(spread "once$mib" process again)"
    done
}

# Copies by several threads; no way of copying is faster than the link.
pageable() {
    local mib way ours driver link
    for mib in 256 1024; do
        in_turn "pageable$mib" parallel pageable "$mib" || return
        for way in htod dtoh; do
            ours=$(median "pageable$mib.zc.pageable_$way")
            driver=$(median "pageable$mib.bare.pageable_$way")
            link=$(median "pageable$mib.bare.hostalloc_$way")
            row "$mib MiB $way of pageable memory, parallel / driver" "$ours" "$driver" GB/s \
                "ratio>=" 3 "" "$(awk -v o="$ours" -v d="$driver" -v l="$link" 'BEGIN {
                    printf "the link allows %.3f (%s GB/s), of which %.3f", l / d, l, o / l }')"
        done
    done
}

# The same program, with its cuMemHostAlloc made by libzc.
requests() {
    local mib way
    for mib in 16 1024; do
        in_turn "request$mib" asked request "$mib" || return
        row "cuMemHostAlloc of $mib MiB, libzc cold / bare" "$(median "request$mib.zc.first")" \
            "$(median "request$mib.bare.first")" ms "ratio<=" 0.2
        row "cuMemHostAlloc of $mib MiB, libzc from the pool, cleared / bare" \
            "$(median "request$mib.zc.again")" "$(median "request$mib.bare.again")" ms \
            "ratio<=" 0.2
        row "cuMemFreeHost of $mib MiB, libzc / bare" "$(median "request$mib.zc.free_first")" \
            "$(median "request$mib.bare.free_first")" ms "ratio<=" 0.2
    done
    for way in htod dtoh; do
        row "1024 MiB $way of cuMemHostAlloc's memory, libzc / bare" \
            "$(median "request1024.zc.asked_$way")" "$(median "request1024.bare.asked_$way")" \
            GB/s "ratio>=" 0.97
    done
}

small() {
    local rounds=${SMALL_ROUNDS:-15}
    in_turn small far small
    row "malloc and free of 64 B, libzc less bare" "$(median small.zc.pair)" \
        "$(median small.bare.pair)" ns "difference<=" 4 "$(paired small pair difference)"
    in_turn crowd far sixteen
    row "16 threads with blocks of 16 B to 4 KiB, libzc / bare" "$(median crowd.zc.sixteen)" \
        "$(median crowd.bare.sixteen)" "million a second" "ratio>=" 0.97 \
        "$(paired crowd sixteen ratio)"
    rounds=5
    in_turn grow pinned grow 1024
    row "realloc from 16 MiB to 1 GiB by doubling, and filling, libzc / bare" \
        "$(median grow.zc.grow)" "$(median grow.bare.grow)" ms "ratio<=" 1.03
}

# Large blocks of pinned memory under the preset `everyday`, and how long another process waits
# meanwhile.
pinning() {
    local gib=${PIN_GIB:-48} rounds=${ROUNDS:-2} program=$build/tests/preload/programs/pin_speed way
    [[ -z ${QUICK:-} ]] || gib=${PIN_GIB:-16} rounds=1
    cp policy/presets/everyday.conf "$work/everyday.conf"
    "$program" touch $((gib * 3 / 2)) || return
    for way in alloc register; do
        in_turn "$way" everyday "$way" "$gib" || return
        pinning_rows "$way" "cudaHost${way^} of $gib GiB" \
            "$([[ $way == alloc ]] && echo 0.10 || echo 0.30)"
    done
}

# pinning_rows LABEL WHAT GOAL
pinning_rows() {
    local call
    row "$2, libzc / bare" "$(median "$1.zc.made")" "$(median "$1.bare.made")" ms "ratio<=" "$3"
    row "$2: first copies, libzc / bare" "$(median "$1.zc.speed")" "$(median "$1.bare.speed")" \
        GB/s "ratio>=" 0.98
    row "$2: freed, libzc / bare" "$(median "$1.zc.freed")" "$(median "$1.bare.freed")" ms \
        "$([[ $1 == alloc ]] && echo "ratio<=" || echo bound)" 0.15 # The program's pages stay.
    row "$2: resident, libzc / bare" "$(median "$1.zc.resident")" \
        "$(median "$1.bare.resident")" MiB "ratio<=" 1.02
    for call in info alloc launch; do
        row "$2: another process waits for its $call, libzc, beside bare" \
            "$(median "$1.zc.${call}_meanwhile")" "$(median "$1.bare.${call}_meanwhile")" ms \
            bound 0 "" "goal 20 ms; nobody beside: $(median "$1.zc.${call}_before") ms"
    done
}

case ${1:-} in
pinning | small | gpu | copies | processes | pageable | requests)
    "$1" || exit 77
    ;;
"")
    small
    gpu || echo "no GPU: only what needs none was measured" >&2
    ;;
*)
    sed -n '/^# *tests.bench/,/^#$/s/^# *//p' "$0" >&2
    exit 2
    ;;
esac
table() {
    echo "| what | libzc, or first | bare, or second | ratio or difference | goal | met | besides |"
    echo "|---|---|---|---|---|---|---|"
    printf '%s\n' "${rows[@]}"
}
table
if [[ -n ${OUT_DIR:-} ]]; then
    mkdir -p "$OUT_DIR" && table >"$OUT_DIR/host.md"
fi
