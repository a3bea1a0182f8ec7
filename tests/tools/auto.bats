#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# ZC_POLICY=auto and zc auto: what runs teach, by a program whose best policy is known. The
# simulated GPU has no times, so call paths are judged by their bytes.

load programs

setup_file() {
    [[ -e $ZC_BUILD/sim/libcuda.so.1 ]] || return 0
    build_program lessons "$BATS_FILE_TMPDIR"
}

setup() {
    need_gpu_programs
    TREE=$PWD
    unset SIM_KERNELS  # These programs have none, and loading them allocates.
    cd "$BATS_TEST_TMPDIR"
    ln -s "$BATS_FILE_TMPDIR/lessons" .
    export XDG_CACHE_HOME=$PWD/cache
    PROFILES=$PWD/cache/libzc/auto
}

# A run under zc run --auto; what it says is in $output and $stderr.
auto() {
    run -0 --separate-stderr "$ZC" run --auto -q -o logs "$@"
}

# A run without zc; its log waits.
preloaded() {
    env LD_PRELOAD="$LIBZC" ZC_POLICY="${POLICY:-auto}" ZC_SUMMARY=0 "$@"
}

# The line of the profile that counts runs.
runs() {
    sed -n 's/^# runs: \([0-9]*\)$/\1/p' "$PROFILES"/lessons-*.conf
}

# How many blocks the rules of the newest log took, by the rule's name.
taken() {
    cat "$(ls -t logs/zc.*.jsonl | head -n 1)" | jq -r \
        'select(.type == "alloc" and .rule) | .rule' | sort | uniq -c | awk '{print $2 "=" $1}'
}

# Bytes that the runs so far registered, oldest first.
registered() {
    cat $(ls -tr logs/zc.*.jsonl) | jq -r 'select(.type == "summary") |
        [.sites[] | .registered_bytes // 0] | add' | paste -sd ,
}

# The decisions in the newest log, without the call paths' ids.
decisions() {
    cat "$(ls -t logs/zc.*.jsonl | head -n 1)" | jq -r 'select(.code == "auto") | .text' |
        sed 's/ of call path [0-9a-f]\{8\}//'
}

@test "blocks that are registered in vain are left to libc, but for ever fewer" {
    auto ./lessons 20 often vain never
    [[ $output == 280 ]]
    [[ $(taken) == "host-buffers=60" ]]
    [[ $(grep -c '^# site: .* large left ' "$PROFILES"/lessons-*.conf) == 1 ]]
    auto ./lessons 20 often vain never
    [[ $output == 280 && $(taken | sort) == $'host-buffers=40\nlearned-sample=1' ]]
    run -0 "$ZC" check "$PROFILES"/lessons-*.conf
    [[ $output == *" 0 errors, 0 warnings" ]]
}

@test "smaller blocks that pay become pinned within the first run, and are so from the next on" {
    auto ./lessons 4 small idle
    [[ $output == 224 ]]
    # All 32 of the kind that pays; of those that never do the first two, the 16th and the 32nd.
    [[ $(taken) == "host-buffers=36" ]]
    [[ $(decisions) == "blocks below 16 MiB are pinned from now on: of one of 1 MiB 8 MiB were "\
"copied" ]]
    auto ./lessons 4 small idle
    [[ $output == 224 && $(taken | sort) == $'host-buffers=4\nlearned-small=32' ]]
    [[ -z $(decisions) ]]  # The file says it.
    [[ $(grep -c '^site = [0-9a-f]*$' "$PROFILES"/lessons-*.conf) == 1 ]]
}

@test "smaller blocks that are copied once pay where they reuse registered memory" {
    auto ./lessons 4 served
    [[ $output == 224 && $(taken) == "host-buffers=32" ]]
    "$ZC" auto --forget lessons
    auto ./lessons 4 kept
    [[ $output == 224 && $(taken) == "host-buffers=4" && -z $(decisions) ]]
    # Of these four each was registered, of those before only as many as there were at a time.
    [[ $(registered) == $((3 << 20)),$((12 << 20)) ]]
}

@test "a run that finds no smaller blocks that pay has no rule for them" {
    auto ./lessons 4 idle
    [[ $(taken) == "host-buffers=4" ]]
    run ! grep -q '^\[rule learned-' "$PROFILES"/lessons-*.conf
}

@test "blocks that lose within a run are libc's for its rest, until another phase shows gain" {
    auto ./lessons 20 ragged
    [[ $output == 140 && $(taken) == "host-buffers=3" ]]  # The first two, and the 16th.
    [[ $(decisions) == "blocks from 16 MiB are libc's from now on: of one of 34 MiB 4 MiB were "\
"copied" ]]
    "$ZC" auto --forget lessons
    auto ./lessons 40 ragged midway
    [[ $output == 280 && $(taken) == "host-buffers=12" ]]
    [[ $(decisions | cut -d: -f1) == "blocks from 16 MiB are libc's from now on
blocks from 16 MiB are pinned from now on" ]]
}

@test "blocks that pay in one round and lose in the next stay where they are" {
    auto ./lessons 40 ragged odd
    [[ $output == 280 && $(taken) == "host-buffers=40" && -z $(decisions) ]]
}

@test "of a call path that changes again and again eight decisions are told, and all are counted" {
    mkdir logs
    run -0 env LD_PRELOAD="$LIBZC" ZC_POLICY=auto ZC_LOG=logs/zc.lessons.jsonl \
        ./lessons 8 moody
    [[ $output == *"auto: 11 decisions within this run"* ]]
    [[ $(decisions | wc -l) == 8 ]]
    [[ $(decisions | tail -n 1) == *"; later decisions about it are not told" ]]
}

@test "the summary counts decisions within a run, and explain tells them" {
    run -0 env LD_PRELOAD="$LIBZC" ZC_POLICY=auto ./lessons 4 small
    [[ $output == *"auto: 1 decision within this run"* ]]
    auto ./lessons 4 small
    rm "$PROFILES"/*
    auto ./lessons 4 small
    run -0 "$ZC" explain "$(ls -t logs/zc.*.jsonl | head -n 1)"
    [[ $(tr '\n' ' ' <<<"$output") == *"Within the run: blocks below 16 MiB of call path "* ]]
    run -0 "$ZC" explain auto --api malloc --size 1M
    [[ $(tr '\n' ' ' <<<"$output") == *"is taken by no rule"*"the first two such blocks, the "\
"16th, 32nd and so on are tried as rule 'host-buffers' has it"* ]]
    run -0 "$ZC" explain auto --api realloc --size 1M
    [[ $output != *"are tried"* ]]
}

@test "nothing is decided within a run under auto-frozen, or under the preset itself" {
    local policy
    for policy in auto-frozen @everyday; do
        run -0 "$ZC" run -p $policy -q -o logs ./lessons 20 ragged small
        [[ $(taken) == "host-buffers=20" && -z $(decisions) ]]
    done
}

@test "a call path whose blocks are copied after all is placed again, by what its sample shows" {
    auto ./lessons 40 vain
    [[ $(grep -c '^# site: .* large left ' "$PROFILES"/lessons-*.conf) == 1 ]]
    for _ in 1 2 3 4 5; do
        auto ./lessons 40 vain turned
        if grep -q '^# site: .* large left ' "$PROFILES"/lessons-*.conf; then continue; fi
        auto ./lessons 40 vain turned
        [[ $(taken) == "host-buffers=40" ]]
        return
    done
    false
}

@test "blocks that pay for every other input stay placed, once both inputs were seen" {
    for _ in 1 2 3; do
        auto ./lessons 20 vain
        auto ./lessons 20 vain turned
    done
    run ! grep -q '^# site: .* large left ' "$PROFILES"/lessons-*.conf
    auto ./lessons 20 vain
    auto ./lessons 20 vain turned
    [[ $(taken) == "host-buffers=20" ]]
}

@test "zc run says in its last line what it had of the profile, and explain reads it" {
    run -0 "$ZC" run --auto ./lessons 3
    [[ ${lines[-1]} == "auto: "*" of 588 MiB from or to pageable memory did not move as such in "\
"this run, learned in 1 run; zc auto --show" ]]
    run -0 "$ZC" run -p auto ./lessons 3
    [[ ${lines[-1]} == *"learned in 2 runs; zc auto --show" ]]
    run -0 "$ZC" explain auto --api malloc --size 32M
    [[ ${lines[-1]} == "malloc of 32M goes to rule 'host-buffers': pinned, pageable" ]]
    run -0 env ZC_POLICY=auto "$ZC" check
    [[ ${lines[-1]} == "$PROFILES/lessons-"*" 0 errors, 0 warnings" ]]
    run -0 --separate-stderr env ZC_POLICY=auto "$ZC" run -q ./lessons 3
    [[ $(runs) == 3 && -z $stderr ]]
}

@test "the library alone uses the profile, and its log waits for zc" {
    preloaded ./lessons 20 often vain >/dev/null
    [[ $(ls) == $'cache\nlessons' && $(ls "$PROFILES") == lessons-*.jsonl ]]
    run -0 "$ZC" auto
    [[ ${lines[0]} == lessons-???????????????? ]]
    [[ ${lines[2]} == "    Program: ./lessons 20 often vain" ]]
    [[ $(ls "$PROFILES") == lessons-*.conf && $(runs) == 1 ]]
    run -0 env LD_PRELOAD="$LIBZC" ZC_POLICY=auto ./lessons 20 often vain
    [[ $output == *"auto: $PROFILES/lessons-"*".conf; zc auto --show"* ]]
    jq -se 'any(.type == "summary" and .exit_status == 0 and
        ([.sites[].rule] | sort == [null, "host-buffers", "learned-sample"]))' "$PROFILES"/*.jsonl
    jq -se 'any(.type == "meta" and .profile == .policy.file)' "$PROFILES"/*.jsonl
}

@test "a process that never calls CUDA leaves nothing, also if it has large blocks" {
    preloaded python3 -c 'print(len(bytearray(64 << 20)))'
    [[ ! -e cache ]]
}

@test "no more than 16 logs of a program wait" {
    preloaded ./lessons 1 idle >/dev/null
    local log=$(ls "$PROFILES") at
    for at in {0..15}; do : >"$PROFILES/${log%.*.jsonl}.$at.jsonl"; done
    preloaded ./lessons 1 idle >/dev/null
    [[ $(ls "$PROFILES" | wc -l) == 16 && $(ls) == $'cache\nlessons' ]]
    "$ZC" auto --learn
    [[ $(ls "$PROFILES") == lessons-*.conf ]] || [[ -z $(ls "$PROFILES") ]]
}

@test "the log of a run that goes on is left alone, and read once that has ended" {
    write_copier
    mkfifo pipe
    preloaded python3 copier.py <pipe >said &
    exec 5>pipe
    until grep -q ready said; do sleep 0.05; done
    "$ZC" auto --learn
    [[ $(ls "$PROFILES") == python3*.counters*python3*.jsonl ]]
    exec 5>&-
    wait $!
    "$ZC" auto --learn
    [[ $(ls "$PROFILES") == python3*.conf ]]
}

@test "two zc that read the logs at one moment learn once from each" {
    preloaded ./lessons 1 idle >/dev/null
    preloaded ./lessons 2 idle >/dev/null
    local waited=$(ls "$PROFILES" | wc -l)
    for _ in 1 2 3 4; do "$ZC" auto --learn & done
    wait
    [[ $(runs) == "$waited" ]]
}

@test "what lies among the logs and is none is neither followed nor waited for" {
    preloaded ./lessons 1 idle >/dev/null
    local log=$(ls "$PROFILES"/*.jsonl) stem
    stem=${log%.*.jsonl}
    sed '/"type":"summary"/d; s/"host":"[^"]*"/"host":"elsewhere"/' "$log" >"$stem.17.jsonl"
    mkfifo "$stem.18.jsonl"
    mkdir "$stem.19.jsonl"
    cp "$log" mine
    ln -s "$PWD/mine" "$stem.20.jsonl"
    ln -s "$PWD/nowhere" "$stem.21.jsonl"
    truncate -s 17M "$stem.22.jsonl"
    run -0 timeout 60 "$ZC" auto --learn
    # Of another host a process may go on.
    [[ $(runs) == 1 && $(ls "$PROFILES") == lessons-*.17.jsonl*.19.jsonl*.conf ]]
    [[ -s mine ]]
}

@test "a folder of profiles that stays locked keeps no run waiting for long" {
    auto ./lessons 1 idle
    flock "$PROFILES" sleep 60 &
    local held=$!
    until ! flock -n "$PROFILES" true; do sleep 0.05; done
    auto ./lessons 1 idle
    kill -0 $held
    [[ $(runs) == 2 ]]
    kill $held
}

@test "names and arguments of any bytes make no rule, and no other file" {
    local name=$'a b\n[rule c]\nplace mapped%p'
    cp -L lessons "$name"
    auto "./$name" 1 idle $'x\n[rule d]\nplace = mapped'
    preloaded "./$name" 1 idle >/dev/null
    "$ZC" auto --learn
    [[ $(find cache -name '*.conf' -printf '1') == 1 && -z $(find cache -name '*.jsonl') ]]
    run ! grep -r '^\[rule [cd]\]' "$PROFILES"
    run -0 "$ZC" auto
    [[ ${#lines[@]} == 3 ]]
    run -0 "$ZC" check "$PROFILES"/*.conf
    XDG_CACHE_HOME=$PWD/%p preloaded ./lessons 1 idle >/dev/null
    [[ $(find . -name '*.jsonl' -not -path './logs/*') == "" ]]
}

@test "runs that failed or were killed teach nothing, and their logs go" {
    auto ./lessons 2 often
    cp "$PROFILES"/lessons-*.conf before
    run -3 "$ZC" run --auto -q ./lessons 2 vain fail
    run -137 "$ZC" run --auto -q ./lessons 2 vain kill
    run -3 preloaded ./lessons 2 vain fail
    run -137 preloaded ./lessons 2 vain kill
    "$ZC" auto --learn
    cmp before "$PROFILES"/lessons-*.conf
    [[ $(ls "$PROFILES" | wc -l) == 1 ]]
}

@test "auto-frozen uses what was learned, and neither learns nor leaves a log" {
    auto ./lessons 20 vain
    cp "$PROFILES"/lessons-*.conf before
    run -0 "$ZC" run -p auto-frozen -q -o logs ./lessons 20 vain
    [[ $(taken) == "learned-sample=1" ]]
    POLICY=auto-frozen preloaded ./lessons 2 vain >/dev/null
    cmp before "$PROFILES"/lessons-*.conf
    [[ $(ls "$PROFILES" | wc -l) == 1 ]]
    run ! compgen -G '*.jsonl'
}

@test "without a cache it is everyday, without a word" {
    local setting
    for setting in HOME= HOME=relative HOME=/proc/nowhere HOME="$PWD/nowhere"; do
        run -0 env -u XDG_CACHE_HOME "$setting" LD_PRELOAD="$LIBZC" ZC_POLICY=auto \
            ./lessons 1 often
        [[ $output == *"auto: @everyday; zc auto --show"* ]]
        [[ $output != *"libzc: /"* && $output != *warning* && $(ls) == lessons ]]
        [[ $output == *"128 MiB from or to pageable memory, of which 1 B moved as such"* ]]
    done
    HOME=$PWD/home
    mkdir home
    run -0 env -u XDG_CACHE_HOME HOME="$HOME" "$ZC" run --auto -q ./lessons 1 often
    [[ $(ls home/.cache/libzc/auto) == lessons-*.conf ]]
    [[ $(stat -c %a home/.cache/libzc/auto{,/*}) == $'700\n600' ]]
}

# Runs under a profile that is not to be used: expects one line that says this.
not_used() {
    run -0 --separate-stderr preloaded ./lessons 1 often
    [[ $output == 7 && ${#stderr_lines[@]} == 1 ]]
    [[ $stderr == "libzc: $PROFILES/lessons-"*"$1"*"going on with @everyday" ]]
    jq -se 'any(.policy.file? == "@everyday")' "$PROFILES"/*.jsonl
    rm "$PROFILES"/*.jsonl
}

@test "a profile that is damaged, of another user or open to others is not used, as one line says" {
    auto ./lessons 1 often
    local profile=$(ls "$PROFILES"/*.conf)
    cp "$profile" whole
    head -c 700 whole | sed '$s/.*/place/' >"$profile"
    not_used "it is damaged"
    head -c 3000000 /dev/urandom >"$profile"
    not_used "larger than 1 MiB"
    cp whole "$profile"
    chmod 666 "$profile"
    not_used "others may write to it"
    chmod 600 "$profile"
    if ((EUID == 0)); then
        chown 65534 "$profile"
        not_used "belongs neither to this user nor to root"
        rm "$profile"
        ln -s "$PWD/whole" "$profile"
        chown -h 65534 "$profile"
        not_used "a symbolic link of another user"
    fi
    rm "$profile"
    mkdir "$profile"
    not_used "not a regular file"
}

@test "a profile of another version is used as a policy, and learned anew" {
    auto ./lessons 2 often
    local profile=$(ls "$PROFILES"/*.conf)
    sed -i 's/^# runs: 1$/# runs: 7 others: 0 0 0 0/; s/^# site: /# place: /' "$profile"
    auto ./lessons 2 often
    [[ $(runs) == 1 && $(grep -c '^# site: ' "$profile") == 1 && $(taken) == "host-buffers=2" ]]
}

@test "no profile can make a run teach another file, or fill the profile" {
    auto ./lessons 1 often
    local profile=$(ls "$PROFILES"/*.conf)
    { printf '# runs: 999999999999\n'
      for id in {10000000..10002000}; do
          echo "# site: $id large left 999999999999999999 1 1 1 1"
      done; } >>"$profile"
    cp logs/zc.*.jsonl log.jsonl
    run -0 "$ZC" auto --learn log.jsonl
    [[ $(stat -c %s "$profile") -le 65536 && $(grep -c '^# site' "$profile") -le 256 ]]
    run -0 "$ZC" check "$profile"
    sed "s,\"profile\":\"[^\"]*\",\"profile\":\"$PWD/elsewhere-0123456789abcdef.conf\"," \
        log.jsonl >other.jsonl
    run -0 "$ZC" auto --learn other.jsonl
    [[ ! -e elsewhere-0123456789abcdef.conf ]]
}

@test "clocks that jump, numbers out of range and logs of other kinds teach nothing wrong" {
    auto ./lessons 20 often vain
    cp logs/zc.*.jsonl log.jsonl
    sed -E 's/("(blocked_ns|wall_ns)":)[0-9]+/\1-5/g; s/("asked_bytes":)[0-9]+/\11e300/' \
        log.jsonl >odd.jsonl
    printf '{"type":"summary","flows":7,"sites":[{"site":"x\\ny","rule":"host-buffers"}]}\n' \
        >bad.jsonl
    run -1 "$ZC" auto --learn odd.jsonl bad.jsonl /dev/null none.jsonl
    [[ $output == "zc: none.jsonl: no log of this user's that can be read" ]]
    run -0 "$ZC" check "$PROFILES"/lessons-*.conf
    [[ $output == *" 0 errors, 0 warnings" ]]
}

# Writes a log of a run of 300 days that copied 1 PiB by each of 5,000 call paths.
write_long_log() {
    python3 - "$(ls "$PROFILES"/*.conf)" <<'PYTHON'
import json, sys
PIB, FOR = 1 << 50, 300 * 86400 * 10**9
row = {"dir": "HtoD", "asked_calls": 1 << 32, "asked_bytes": PIB, "blocked_ns": FOR // 5000}
print(json.dumps({"type": "meta", "schema": 1, "pid": 1, "host": "h", "gpu": "simulated",
                  "driver": 13000, "profile": sys.argv[1]}))
print(json.dumps({"type": "summary", "wall_ns": FOR, "exit_status": 0, "sites": [
    {"site": f"{at:08x}", "rule": "host-buffers", "requests": 1 << 32, "requested_bytes": PIB * 8,
     "traffic": [row]} for at in range(5000)]}))
PYTHON
}

@test "a run of 300 days by thousands of call paths teaches by those with the most bytes" {
    auto ./lessons 1 often
    write_long_log >long.jsonl
    for _ in 1 2 3; do run -0 --separate-stderr "$ZC" auto --learn long.jsonl; done
    [[ $(runs) == 4 && -z $stderr && $(stat -c %s "$PROFILES"/*.conf) -le 65536 ]]
    [[ $(grep -c '^# site: .* left ' "$PROFILES"/*.conf) == 256 ]]
    run -0 "$ZC" check "$PROFILES"/*.conf
    [[ $output == *" 0 errors, 0 warnings" ]]
    auto ./lessons 2 often
    [[ $(taken) == "host-buffers=2" ]]
}

@test "of more than 256 profiles those stay that were taught last" {
    auto ./lessons 1 idle
    cp logs/zc.*.jsonl log.jsonl
    for id in {1000..1256}; do
        touch -d "2020-01-01 00:00:00 $((1300 - id)) minutes ago" \
            "$PROFILES/old-000000000000$id.conf"
    done
    touch "$PROFILES/no profile"
    run -0 "$ZC" auto --learn log.jsonl
    [[ $(runs) == 2 && $(ls "$PROFILES" | wc -l) == 257 && -e "$PROFILES/no profile" ]]
    [[ ! -e "$PROFILES/old-0000000000001000.conf" && ! -e "$PROFILES/old-0000000000001001.conf" ]]
    [[ -e "$PROFILES/old-0000000000001002.conf" ]]
}

@test "runs that end at one moment are all learned from" {
    for _ in {1..6}; do
        "$ZC" run --auto -q ./lessons 1 idle >/dev/null &
    done
    wait
    [[ $(runs) == 6 && $(ls "$PROFILES" | wc -l) == 1 ]]
}

@test "ranks of a run, and logs of a job, are one run" {
    auto sh -c './lessons 4 vain & ./lessons 4 vain; wait'
    [[ $(runs) == 1 ]]
    grep -q '^# site: .* large left 8 268435456 ' "$PROFILES"/lessons-*.conf
    for rank in 0 1; do
        SLURM_JOB_ID=7 SLURM_PROCID=$rank SLURM_NTASKS=2 preloaded ./lessons 1 vain >/dev/null
    done
    "$ZC" auto --learn
    [[ $(runs) == 2 ]]
}

@test "where nothing can be written what is there stays, and one line says so" {
    auto ./lessons 1 often
    cp "$PROFILES"/lessons-*.conf before
    cp logs/zc.*.jsonl log.jsonl
    run -1 bash -c 'ulimit -f 0; exec "$@" 2>&1 | cat; exit ${PIPESTATUS[0]}' - \
        "$ZC" auto --learn log.jsonl
    [[ ${#lines[@]} == 1 ]]
    [[ $output == "zc: $PROFILES/lessons-"*": what this run taught is not kept" ]]
    cmp before "$PROFILES"/lessons-*.conf
    [[ $(ls -A "$PROFILES" | wc -l) == 1 ]]
}

@test "scripts of an interpreter, and programs of one build, have profiles of their own" {
    write_copier
    sed 's/range(10)/range(11)/' copier.py >other.py
    for script in copier.py other.py copier.py; do
        auto python3 -u "$script" </dev/null
    done
    [[ $(ls "$PROFILES" | grep -c '^python3.*\.conf$') == 2 ]]
    run -0 "$ZC" auto --show other.py
    [[ $output == *"# Program: python3 -u other.py"* ]]
    run -1 "$ZC" auto --show er.py
    cp -L lessons twin
    auto ./lessons 1 idle
    auto ./twin 1 idle
    auto ./lessons 2 idle
    [[ $(runs) == 2 && $(ls "$PROFILES" | grep -c '^twin-') == 1 ]]
    run -1 "$ZC" auto --show python3
    run -1 "$ZC" auto --export one.conf python3*
}

@test "profiles are shown, exported and forgotten by the program's name" {
    run -0 "$ZC" auto
    [[ $output == "Nothing is learned: $PROFILES has no profile." ]]
    auto ./lessons 2
    cp -L lessons twin
    auto ./twin 2
    run -0 "$ZC" auto --show lessons
    [[ ${lines[0]} == "# auto: "* && $output == *"[rule host-buffers]"* ]]
    [[ $output == *"# Of call paths: blocks, their bytes, those registered, those copied "* ]]
    run -0 "$ZC" auto --export mine.conf twin
    run -0 "$ZC" run -q -p mine.conf ./lessons 1
    run -2 "$ZC" auto --export mine.conf twin
    [[ $output == "zc: mine.conf is there already: "* ]]
    run -1 "$ZC" explain auto --size 1M
    [[ $output == "zc: there are 2 profiles; name one: lessons-"*", twin-"* ]]
    run -0 "$ZC" auto --forget lessons
    [[ $output == "Forgotten: lessons-"*.conf && $(ls "$PROFILES") == twin-*.conf ]]
    run -1 "$ZC" auto --forget lessons
    [[ $output == "zc: $PROFILES: there is no profile of lessons: "* ]]
    run -0 "$ZC" auto --forget
    [[ -z $(ls "$PROFILES") ]]
}

@test "of a profile only text reaches the terminal, and one that is no text is not exported" {
    mkdir -p "$PROFILES"
    local of=$PROFILES/lessons-0123456789abcdef.conf
    printf '%b\n' '# auto: \x1b[31mred' '# a' '# \x1b]0;title\a' '[rule a]' \
        'place = pinned\0' >"$of"
    chmod 600 "$of"
    run -0 "$ZC" auto --show
    [[ ${lines[1]} == '    auto: \x1b[31mred' && ${lines[2]} == '    \x1b]0;title\x07' ]]
    run -0 "$ZC" auto --show lessons
    [[ ${lines[0]} == '# auto: \x1b[31mred' && ${lines[4]} == 'place = pinned\x00' ]]
    printf '[rule \xff]\n' >"$of"
    for what in --show '--export mine.conf'; do
        # The option and its value.
        # shellcheck disable=SC2086
        run -1 "$ZC" auto $what lessons
        [[ $output == "zc: $of: no profile that can be read" && ! -e mine.conf ]]
    done
}

@test "tables that could be shared are proposed, and never put into force" {
    ln -s "$TREE/$ZC_BUILD/kernels/recopy-shared" .
    SIM_KERNELS=$TREE/$ZC_BUILD/sim/kernels/sampled.so auto ./recopy-shared 8388608 5
    grep -q '^# Proposed, not in force: ' "$PROFILES"/recopy-shared-*.conf
    grep -q '^#   access = read$' "$PROFILES"/recopy-shared-*.conf
    ln -s "$TREE/$ZC_BUILD/kernels/vecadd-shared" .
    SIM_KERNELS=$TREE/$ZC_BUILD/sim/kernels/vecadd.so auto ./vecadd-shared 8388608
    run ! grep -q result "$PROFILES"/vecadd-shared-*.conf
    # Pinned memory of the program's own is no table.
    ln -s "$TREE/$ZC_BUILD/kernels/transfer_pinned-shared" .
    SIM_KERNELS=$TREE/$ZC_BUILD/sim/kernels/transfer.so auto ./transfer_pinned-shared 33554432 5
    run ! grep -q '^# Proposed' "$PROFILES"/transfer_pinned-shared-*.conf
    run ! grep -q '^access' "$PROFILES"/*.conf
    run -0 "$ZC" check "$PROFILES"/vecadd-shared-*.conf
}

# Teaches a run of a GPU with times: copies of 1 GiB from blocks of 64 MiB took so many
# milliseconds, and so many MiB were registered; as many bytes from libc's memory took 1 ms.
timed() {
    python3 - "$PROFILES" "$1" "$2" >timed.jsonl <<'PYTHON'
import json, sys
folder, took, registered = sys.argv[1], *map(int, sys.argv[2:])
GIB = 1 << 30
row = {"dir": "HtoD", "asked_calls": 16, "asked_bytes": GIB, "blocked_ns": took * 10**6}
print(json.dumps({"type": "meta", "schema": 1, "pid": 1, "host": "h", "gpu": "NVIDIA H200",
                  "driver": 13000, "profile": folder + "/timed-0123456789abcdef.conf"}))
print(json.dumps({"type": "summary", "wall_ns": 10**9, "exit_status": 0,
    "kept_peak_bytes": GIB, "pageable_asked_bytes": 2 * GIB, "pageable_moved_bytes": GIB,
    "flows": [{**row, "asked_bytes": 2 * GIB, "src_kind": "Pageable", "dst_kind": "Device"}],
    "moved_by_kind": [{"dir": "HtoD", "src_kind": "Pageable", "dst_kind": "Device", "bytes": GIB},
                      {"dir": "HtoD", "src_kind": "Pinned", "dst_kind": "Device", "bytes": GIB}],
    "pageable": [{**row, "memory": "heap", "side": "src"},
                 {**row, "memory": "heap", "side": "src", "blocked_ns": 10**6}],
    "sites": [{"site": "0123abcd", "rule": "host-buffers", "requests": 16, "requested_bytes": GIB,
               "registered_bytes": registered << 20, "traffic": [row]}]}))
PYTHON
    "$ZC" auto --learn timed.jsonl
}

@test "bytes that were copied and registered decide, whatever copies and kernels waited for" {
    mkdir -p "$PROFILES"
    timed 900 1024
    grep -q '^# site: 0123abcd large 16 1073741824 1073741824 1073741824 0$' \
        "$PROFILES"/timed-*
    "$ZC" auto --forget timed
    timed 20 4096  # Four times each, as where their registrations end again and again.
    grep -q '^# site: 0123abcd large left ' "$PROFILES"/timed-*
}

@test "smaller blocks that are copied once, and serve none after them, are left to libc" {
    auto ./lessons 1 kept
    [[ $output == 56 && $(taken) == "host-buffers=2" ]]
    auto ./lessons 1 kept
    [[ $output == 56 && -z $(taken) ]]
    grep -q '^# site: .* small left ' "$PROFILES"/lessons-*.conf
}

@test "each 16th run tries what is left, so that a path of few blocks is found when it pays" {
    auto ./lessons 1 kept
    cp logs/zc.*.jsonl log.jsonl
    for _ in {2..16}; do "$ZC" auto --learn log.jsonl; done
    auto ./lessons 1 kept turned
    [[ $output == 56 && $(taken) == "host-buffers=2" && $(runs) == 17 ]]
    auto ./lessons 1 kept turned
    [[ $output == 56 && $(taken) == "learned-small=8" ]]
}

# Bytes of a profile's call paths: blocks, asked for, registered, copied to the GPU and from it.
learned() {
    sed -n 's/^# site: [0-9a-f]* //p' "$PROFILES"/lessons-*.conf | sort
}

@test "blocks that nothing is copied of cost no registration" {
    auto ./lessons 4 never idle often
    [[ $(learned) == "large 4 134217728 0 0 0
large 4 134217728 33554432 536870912 0
small 4 4194304 0 0 0" ]]
}

@test "what was saved is said in seconds once the machine's rates are known, and for what memory" {
    timed 40 1024
    grep -q '^# auto: 1 GiB of 2 GiB from or to pageable memory did not move as such in this ' \
        "$PROFILES"/timed-*
    python3 - >cache/libzc/costs.json <<'PYTHON'
import json
facts = ("rate.to_device_pinned", "rate.from_device_pinned", "rate.to_device_pageable",
         "rate.from_device_pageable", "rate.kernel_mapped", "rate.kernel_device", "rate.cpu",
         "cost.pin")
rates = {fact: [(10 if "pageable" in fact else 50) * 10**9, 10**9] for fact in facts}
print(json.dumps({"h: NVIDIA H200": rates}))
PYTHON
    timed 40 1024
    grep -q '^# auto: saved about 64.4 ms of 1.0 s in this run, for up to 1 GiB of freed memory '"\
"'that was kept, learned in 2 runs; ' \
        "$PROFILES"/timed-*
}
