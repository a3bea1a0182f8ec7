#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Pairs on devices that reach pageable memory, by HMM or ATS: none before `zc doctor --measure` has
# found them exact on the machine, with this driver and kernel, and exact ones from then on.

load common.bash
load pairs.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/shared_reach

setup() {
    pairs_setup
    command -v python3 >/dev/null || skip "no python3"
    need_built "$ZC_BUILD/zc-views" "$SIM/kernels/views.so"
    FACTS=$XDG_CACHE_HOME/libzc/views.tsv
}

# Has the machine of the environment measured as `zc doctor --measure` does, but for its rates, and
# prints the steps and their results.
measure() {
    env -u SIM_LEAKS SIM_KERNELS="$SIM/kernels/views.so" PYTHONPATH=scripts python3 -c '
from zclib.doctor import views
found = views.ask(300)
views.keep(list(found.values()))
print(views.kept(found[0].machine))'
}

# A scene under kernels that read pairs nothing, as without libzc, and the log and one line on
# stderr say why: pairs_nothing 'PART OF THE LINE'
pairs_nothing() {
    same first_copy 'access = read' read
    [[ -z $pairs ]]
    grep -q '"why":"shared: a device reaches pageable memory (HMM, ATS), where .zc doctor' "$ZC_LOG"
    [[ $(grep -c "'shared' makes no pairs, because a device reaches" <<<"$stderr") -eq 1 ]]
    [[ $stderr == *"$1"*": run 'zc doctor --measure'"* ]]
}

# All scenes, and a pair of each: pairs_exactly
pairs_exactly() {
    local name
    for name in written read_late changed first_copy; do
        both "$name"
        [[ $(sum elided_copies) -ge 1 ]]
        [[ $stderr != *"makes no pairs"* ]]
    done
    both fresh
}

@test "nothing is shared before it was measured, and then kernels may be given either side" {
    local machine
    for machine in SIM_HMM SIM_ATS; do
        export $machine=1
        rm -rf "$XDG_CACHE_HOME"
        pairs_nothing "$FACTS is not there"
        measure
        [[ $(stat -c %a "$FACTS") == 600 ]]
        pairs_exactly
        scene behind 'access = read' read
        [[ $status -eq 0 && $(ended one) -eq 1 ]]
        unset $machine
    done
}

@test "a view that is registered for reading is, where the device can do that beside HMM" {
    export SIM_HMM=1 SIM_ATTR=113=1
    measure
    pairs_exactly
}

@test "each way in which a machine is wrong is found by a step, and then nothing is shared" {
    local case machine wrong steps
    for case in HMM:parted:registered,view,host,meanwhile,fork ATS:parted:view \
        HMM:upgrade:view-refuses ATS:upgrade:view-refuses HMM:served:own ATS:served:own \
        HMM:flag:hmm-off HMM:refused:hmm-off; do
        IFS=: read -r machine wrong steps <<<"$case"
        echo "$case"
        export SIM_$machine=1 SIM_WRONG=$wrong
        run -0 measure
        [[ $output == *"'wrong', "* ]]
        for step in ${steps//,/ }; do
            [[ $output == *"'$step': 'wrong'"* ]]
        done
        # Such a machine may be wrong for the bare program, too: only what libzc makes of it counts.
        unset SIM_WRONG
        pairs_nothing "$FACTS does not say that they are exact with this GPU, driver and kernel"
        unset SIM_$machine
    done
}

@test "what was measured of another driver or kernel, or cut short, says nothing" {
    export SIM_HMM=1
    measure
    cp "$FACTS" "$BATS_TEST_TMPDIR/good"
    local edit
    for edit in 's/driver [^,]*/driver 1.2.3/' 's/Linux [^\t]*/Linux 2.6.32/' 's/CUDA 13/CUDA 12/' \
        's/exact 1/exact 0/' '1d' '$s/exact 1\tS/exact 1\tT/'; do
        sed "$edit" "$BATS_TEST_TMPDIR/good" >"$FACTS"
        pairs_nothing "does not say that they are exact with this GPU, driver and kernel"
    done
    head -c -1 "$BATS_TEST_TMPDIR/good" >"$FACTS"
    pairs_nothing "does not say that they are exact"
    : >"$FACTS"
    pairs_nothing "does not say that they are exact"
    cp "$BATS_TEST_TMPDIR/good" "$FACTS"
    scene first_copy 'access = read' read
    [[ -n $pairs ]]
}

@test "a file that somebody else may have written is not believed" {
    export SIM_HMM=1
    measure
    cp -p "$FACTS" "$BATS_TEST_TMPDIR/good"
    chmod 620 "$FACTS"
    pairs_nothing "is ignored: it must be a file of this user's alone, below 32 KiB"
    chmod 602 "$FACTS"
    pairs_nothing "is ignored"
    rm "$FACTS"
    ln -s "$BATS_TEST_TMPDIR/good" "$FACTS"
    pairs_nothing "is not there, or can't be read"
    rm "$FACTS"
    mkfifo -m 600 "$FACTS"
    pairs_nothing "is ignored"
    rm "$FACTS"
    mkdir "$FACTS"
    pairs_nothing "is ignored"
    rmdir "$FACTS"
    cp -p "$BATS_TEST_TMPDIR/good" "$FACTS"
    truncate -s 40K "$FACTS"
    pairs_nothing "is ignored"
    cp -p "$BATS_TEST_TMPDIR/good" "$FACTS"
    (unset XDG_CACHE_HOME HOME && pairs_nothing "views.tsv has no folder")
    if chown 12345 "$FACTS" 2>/dev/null; then
        pairs_nothing "is ignored"
    fi
}

@test "without XDG_CACHE_HOME the file is the home folder's" {
    export SIM_ATS=1 HOME=$BATS_TEST_TMPDIR/home
    unset XDG_CACHE_HOME
    mkdir "$HOME"
    measure
    [[ -s $HOME/.cache/libzc/views.tsv ]]
    scene first_copy 'access = read' read
    [[ -n $pairs ]]
}

@test "a kernel that writes a block it must not fails, and the message names the block" {
    local machine
    for machine in SIM_HMM SIM_ATS; do
        export $machine=1
        measure
        scene promise_broken 'access = read' read
        [[ $output == *"cuCtxSynchronize() -> 700"* ]]
        [[ $stderr == *"a write to device block"*"rule device"*"'access = read'"* ]]
        unset $machine
    done
}

@test "random programs read no byte that two memories would not have" {
    PROGRAM=$PWD/$ZC_BUILD/tests/gpu/pair_model-shared
    need_built "$PROGRAM" "$SIM/kernels/pair_model.so"
    local machine
    for machine in SIM_HMM SIM_ATS; do
        export $machine=1
        measure
        export SIM_KERNELS=$SIM/kernels/pair_model.so
        model "${STEPS:-30000}" 'access = read'
        [[ $(sum elided_copies) -gt 0 && $(sum copied_bytes) -gt 0 ]]
        [[ $(ended one) -gt 0 && $(ended own) -gt 0 ]]
        rm "$FACTS"
        export SIM_WRONG=parted
        model "${STEPS:-5000}" 'access = read'
        [[ -z $pairs ]]
        unset $machine SIM_WRONG
    done
}
