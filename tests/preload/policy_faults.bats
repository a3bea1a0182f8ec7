#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A policy that is faulty, missing or unsafe: the program goes on with the same result, what was
# right in the file holds, and standard error says what was wrong.

load common.bash

setup() {
    need_built "$LIBZC" "$ZC_BUILD/kernels/vecadd-shared" "$SIM/kernels/vecadd.so"
    sim_env vecadd
    top=$PWD
    vecadd=$top/$ZC_BUILD/kernels/vecadd-shared
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=allocs
    unset ZC_POLICY ZC_STRICT
    cd "$BATS_TEST_TMPDIR" || return
}

# Runs vecadd under libzc with the given variables; it must succeed with its own output alone.
under_libzc() {
    run --separate-stderr timeout 60 env LD_PRELOAD="$LIBZC" "$@" "$vecadd"
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *'"verified":true'* ]]
}

says() {
    grep -qF -- "libzc: $1" <<<"$stderr"
}

# Rules that took requests, by the log.
rules_used() {
    sed -nE '/"type": ?"alloc"/s/.*"rule": ?"([^"]*)".*/\1/p' "$ZC_LOG" | sort -u | tr '\n' ' '
}

@test "an unknown key is reported with file, line and the nearest key, and only its rule is lost" {
    printf '%s\n' '[rule bad]' 'plcae = mapped' '[rule good]' 'place = mapped' >p.conf
    under_libzc ZC_POLICY=p.conf
    says "p.conf:2:1: unknown key 'plcae' (nearest: place)"
    says "p.conf: going on without what is at fault: 1 rule of the file is used"
    [ "$(rules_used)" = "good " ]
}

@test "an impossible size is reported and only its rule is lost" {
    printf '%s\n' '[rule bad]' 'size = 2G..1M' 'place = vmm' '[rule good]' 'place = mapped' >p.conf
    under_libzc ZC_POLICY=p.conf
    says "p.conf:2:8: size: range '2G..1M' is reversed"
    [ "$(rules_used)" = "good " ]
}

@test "a rule that can never match is warned of" {
    printf '%s\n' '[rule first]' 'place = mapped' '[rule hidden]' 'size = 1M..' 'place = vmm' \
        >p.conf
    under_libzc ZC_POLICY=p.conf
    says "p.conf:3:1: rule 'hidden' never matches: rule 'first' in line 1 takes all its requests"
    [ "$(rules_used)" = "first " ]
}

@test "with ZC_STRICT=1 a faulty file is refused whole" {
    printf '%s\n' '[rule bad]' 'plcae = mapped' '[rule good]' 'place = mapped' >p.conf
    under_libzc ZC_POLICY=p.conf ZC_STRICT=1
    says "p.conf:2:1: unknown key 'plcae' (nearest: place)"
    says "p.conf: refused whole because of 1 error (ZC_STRICT)"
    [ "$(rules_used)" = "" ]
}

@test "what becomes of a file is said behind more faults than are printed" {
    for i in $(seq 40); do printf '[rule r%d]\nplcae = mapped\n' "$i"; done >p.conf
    under_libzc ZC_POLICY=p.conf
    says "p.conf: going on without what is at fault: 0 rules of the file are used"
    rm -f "$ZC_LOG"
    under_libzc ZC_POLICY=p.conf ZC_STRICT=1
    says "p.conf: refused whole because of 40 errors (ZC_STRICT)"
}

@test "the log has every fault whole, also those that are not printed" {
    folder=$(printf 'f%.0s' {1..200})
    mkdir "$folder"
    for i in {1..40}; do printf '[rule r%d]\nplcae = mapped\n' "$i"; done >"$folder/$folder"
    under_libzc ZC_POLICY="$folder/$folder"
    [ "$(grep -c "^libzc: .*unknown key" <<<"$stderr")" -eq 16 ]
    grep -q 'nearest: place) (more of this kind follow only in the log)$' <<<"$stderr"
    head -n 1 "$ZC_LOG" | grep -q '"type":"meta"'
    [ "$(grep -c '"code":"policy".*unknown key .plcae. (nearest: place)"' "$ZC_LOG")" -eq 40 ]
}

@test "a rule for requests that stay says so, and does not promise them the next place" {
    for api in cudaMallocManaged 'cudaMallocMa*'; do
        printf '%s\n' '[rule a]' "api = $api" 'place = mapped' >p.conf
        rm -f "$ZC_LOG"
        under_libzc ZC_POLICY=p.conf
        says "p.conf:1:1: rule 'a': requests by cuMemAllocManaged are not placed by this version;"
        [[ $stderr != *"next place"* ]]
    done
}

@test "a rule that would place managed memory is told to go, not to take another place" {
    for place in vmm device pinned; do
        printf '%s\n' '[rule a]' 'api = cudaMallocManaged' "place = $place" >p.conf
        under_libzc ZC_POLICY=p.conf
        says "p.conf:3:9: no place of the rule is possible for 'cudaMallocManaged': managed memory"
        [[ $stderr == *"so the rule can be left out"* && $stderr != *"possible: "* ]]
    done
}

@test "with ZC_STRICT=1 a file with warnings alone is used" {
    printf '%s\n' '[rule good]' 'place = mapped' 'chunk = 2M' >p.conf
    under_libzc ZC_POLICY=p.conf ZC_STRICT=1
    says "p.conf:3:9: chunk: has no effect, it goes with place vmm"
    [[ $stderr != *"at fault"* && $stderr != *refused* ]]
    [ "$(rules_used)" = "good " ]
}

@test "a named policy that is missing is reported and not replaced by ./policy.conf" {
    printf '%s\n' '[rule good]' 'place = mapped' >policy.conf
    chmod 644 policy.conf
    under_libzc ZC_POLICY=nowhere.conf
    says "nowhere.conf: there is no such file"
    [ "$(rules_used)" = "" ]
}

@test "a FIFO, a folder and an endless file in place of the policy are refused at once" {
    mkfifo fifo.conf
    mkdir folder.conf
    for path in fifo.conf folder.conf /dev/zero; do
        rm -f "$ZC_LOG"
        under_libzc ZC_POLICY=$path
        says "$path: not a regular file"
    done
}

@test "./policy.conf is used" {
    printf '%s\n' '[rule good]' 'place = mapped' >policy.conf
    chmod 644 policy.conf
    under_libzc
    [ "$(rules_used)" = "good " ]
}

@test "./policy.conf that others may write to is refused" {
    printf '%s\n' '[rule good]' 'place = mapped' >policy.conf
    chmod 666 policy.conf
    under_libzc
    says "./policy.conf: others may write to it"
    [ "$(rules_used)" = "" ]
}

@test "./policy.conf that another user linked to a preset is refused" {
    [[ $EUID == 0 ]] || skip "only root can make another user's link"
    ln -s "$top/policy/presets/read-mostly-table.conf" policy.conf
    chown -h nobody policy.conf
    under_libzc
    says "./policy.conf: a symbolic link of another user leads there; ZC_POLICY may name it"
    [ "$(rules_used)" = "" ]
    run -1 --separate-stderr "$top/$ZC_BUILD/zc-policy" path
    [[ $stderr == "zc: ./policy.conf: a symbolic link of another user"* ]]
}

@test "ZC_POLICY=off uses no policy" {
    printf '%s\n' '[rule good]' 'place = mapped' >policy.conf
    chmod 644 policy.conf
    under_libzc ZC_POLICY=off
    [ "$(rules_used)" = "" ]
}

@test "binary garbage as a policy costs messages, not the program" {
    head -c 100000 /dev/urandom >p.conf
    under_libzc ZC_POLICY=p.conf
    says "p.conf:1:"
    [ "$(rules_used)" = "" ]
    [ "$(LC_ALL=C grep -c '[^[:print:][:space:]]' <<<"$stderr")" -eq 0 ]
}

@test "a program that never calls CUDA hears nothing of a faulty policy" {
    printf '%s\n' '[rule bad]' 'plcae = mapped' >p.conf
    run --separate-stderr env LD_PRELOAD="$LIBZC" ZC_POLICY=p.conf /bin/echo hello
    [ "$status" -eq 0 ]
    [ "$output" = hello ]
    [ -z "$stderr" ]
    [ ! -e "$ZC_LOG" ]
}

@test "every preset runs vecadd without a fault in the file" {
    for preset in "$top"/policy/presets/*.conf; do
        rm -f "$ZC_LOG"
        under_libzc ZC_POLICY="$preset"
        [ "$(grep -cE 'unknown|expected|never matches|no effect' <<<"$stderr")" -eq 0 ]
    done
}

@test "a variable that is nearly libzc's is warned of, others are not" {
    printf '%s\n' '[rule r]' 'place = mapped' >p.conf
    under_libzc ZC_POLCY=p.conf zc_log=x.jsonl ZC_LOGS=off ZC_LIB=x ZC_JOBS=2 ZC_BUILD=y ZC_=z
    says 'the variable ZC_POLCY is not one of libzc'"'"'s (nearest: ZC_POLICY)'
    says 'the variable zc_log is not one of libzc'"'"'s (nearest: ZC_LOG)'
    says 'the variable ZC_LOGS is not one of libzc'"'"'s (nearest: ZC_LOG)'
    [[ $(grep -c 'is not one of libzc' <<<"$stderr") == 3 ]]
    [ "$(rules_used)" = "" ]
}
