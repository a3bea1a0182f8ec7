# SPDX-License-Identifier: MIT
# Helpers of the tests of the place `shared`: running a scene under rules for both sides, and what
# the log says of its device blocks.

host_rule='[rule host]
api = malloc, calloc, realloc, posix_memalign
size = 1M..
place = shared'

pairs_setup() {
    need_built "$LIBZC" "$PROGRAM"
    export LD_LIBRARY_PATH=$SIM ZC_SUMMARY=0 ZC_LOG_LEVEL=allocs
    export ZC_LOG=$BATS_TEST_TMPDIR/log SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
    # Measurements of a machine are the test's own.
    export XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache
}

# The random program under rules for both sides: model STEPS 'LINES OF THE DEVICE RULE' [write]
model() {
    rm -f "$ZC_LOG"*
    run -0 --separate-stderr under_policy "[rule host]
api = malloc, realloc
size = 1M..
place = shared
[rule device]
api = cudaMalloc
size = 1M..
place = shared
$2" "$PROGRAM" "$1" 7 "${@:3}"
    [[ $output == *'"verified":true'* ]]
    pairs=$(grep '^{"type":"pair"' "$ZC_LOG" || true)
}

# Another program's scenes: of PROGRAM COMMAND...
of() {
    local PROGRAM=${PROGRAM%/*}/$1
    need_built "$PROGRAM"
    "${@:2}"
}

# Runs a scene of $PROGRAM under the host rule and one device rule, in which it may end as it likes:
# scene SCENE 'LINES OF THE DEVICE RULE' [read].  The device rule's places are in $device_place.
scene() {
    rm -f "$ZC_LOG"* "$SIM_LEAKS"
    run --separate-stderr under_policy "$host_rule
[rule device]
api = cudaMalloc, cudaMallocPitch
size = 1M..
place = ${device_place:-shared}
$2" timeout 60 "$PROGRAM" "$1" ${3:+"$3"}
    echo "status $status: $output"
    echo "$stderr"
    pairs=$(grep '^{"type":"pair"' "$ZC_LOG" || true)
    echo "$pairs"
}

# The same, bare and under the rules: both runs must succeed and print the same, and the second must
# leave nothing with the driver.
same() {
    run -0 --separate-stderr timeout 60 "$PROGRAM" "$1" ${3:+"$3"}
    bare=$output
    as_bare "$@"
}

# As in the last bare run.
as_bare() {
    scene "$1" "$2" "${3-}"
    [[ $status -eq 0 && $output == "$bare" ]]
    [[ -e $SIM_LEAKS && ! -s $SIM_LEAKS ]]
}

# A scene whose kernels write: its device blocks lie on the device.  Then with kernels that only
# read, as promised.
both() {
    same "$1" ''
    [[ -z $pairs ]]
    [[ $(grep -c '"type":"alloc".*"place":"shared"' "$ZC_LOG") -eq 0 ]]
    same "$1" 'access = read' read
}

# The sum of a field over all device blocks of `shared`.
sum() {
    local value total=0
    while read -r value; do total=$((total + value)); done < <(json_field "$1" <<<"$pairs")
    echo "$total"
}

# How many ended so: ended one, ended own 'PART OF THE REASON'
ended() {
    grep -cE "\"why\":[^,]*${2:-}[^,]*,.*\"backing\":\"$1\"" <<<"$pairs" || true
}
