#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs test files through prove, and ends with the line `N passed, N failed, N skipped`, in which
# every test case counts once.  Exit status 0 only if none failed.  A file that the run leaves in
# the tree, outside of build folders, is a failure, and so is a library that a test built again,
# because the tests beside it had none meanwhile.
#
#   tests/run.sh [FILE...]     FILE: a built test program or a .bats file; all of them by default
#
# ZC_BUILD    the build folder (build)
# ZC_JOBS     test files run at a time (2)
# ZC_TIMEOUT  seconds that a test may take (600): a file in which none ends for so long is ended
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
export ZC_BUILD=${ZC_BUILD:-build}
# ld.so takes these for separators in its variables.
if [[ $PWD == *[[:space:]:\;]* ]]; then
    echo "tests/run.sh: LD_PRELOAD can't hold the name of this folder: move the tree to one" \
        "without blanks, ':' and ';'" >&2
    exit 2
fi
tap=$ZC_BUILD/tests/tap

# Runs one test file, for prove: its TAP goes to prove and, for the count, to a file.
run_one() {
    local file=$1 out status
    out=$tap/${file//\//_}.tap
    local -a command=("$file")
    [[ $file == *.bats ]] && command=(bats --tap --print-output-on-failure "$file")
    [[ $file != */* ]] && command=("./$file")
    watched "$out.raw" "${command[@]}"
    status=$?
    # cmocka 1.1 prints a skipped case as "not ok N # SKIP", which TAP reads as a failure.
    sed -E 's/^not (ok [0-9]+.*# SKIP)/\1/' "$out.raw" >"$out"
    rm -f "$out.raw"
    if ((status == 124 || status == 137)); then
        echo "# in $file no test ended for ${ZC_TIMEOUT:-600} s, or it was killed" >>"$out"
    elif ((status > 128)); then
        echo "# $file was ended by signal $((status - 128))" >>"$out"
    fi
    if ! grep -q '^1\.\.[0-9]' "$out"; then
        plain_result "$file" "$status" "$out"
    fi
    cat "$out"
    return "$status"
}

# Runs a command with its output in a file, and ends it where that does not grow for ZC_TIMEOUT
# seconds: how long a whole file takes depends on what else the machine does.  Status 124 then.
watched() {
    local out=$1 size=-1 since=$SECONDS now pid
    shift
    set -m # A process group of its own, in which SIGINT is not ignored.
    "$@" </dev/null >"$out" 2>&1 &
    pid=$!
    set +m
    while kill -0 "$pid" 2>/dev/null; do
        now=$(stat -c %s "$out" 2>&1)
        [[ $now == "$size" ]] || size=$now since=$SECONDS
        if ((SECONDS - since > ${ZC_TIMEOUT:-600})); then
            kill -TERM -- "-$pid"
            sleep 5
            kill -KILL -- "-$pid" 2>/dev/null
            wait "$pid"
            return 124
        fi
        sleep 0.1
    done
    wait "$pid"
}

# A program without TAP counts as one case: exit status 0 passes, 77 skips, all else fails.
plain_result() {
    sed -i 's/^\(# \)\?/# /' "$3"
    case $2 in
    0) echo "ok 1 - $1" ;;
    77) echo "ok 1 - $1 # SKIP" ;;
    *) echo "not ok 1 - $1 (exit status $2)" ;;
    esac >>"$3"
    echo "1..1" >>"$3"
}

# Prints "passed failed skipped" of one file's TAP.  Planned cases that never reported, and a file
# that stopped with an error though no case failed, count as failures.
count_one() {
    awk -v status="$2" '
        /^ok / { if (/# [Ss][Kk][Ii][Pp]/) skipped++; else passed++ }
        /^not ok / { failed++ }
        /^1\.\.[0-9]/ { split($1, plan, /\.\./); planned += plan[2] }
        END {
            missing = planned - passed - failed - skipped
            if (missing > 0) failed += missing
            if (status != 0 && failed == 0) failed = 1
            print passed + 0, failed + 0, skipped + 0
        }' "$1"
}

# Everything in the tree that no build makes.
tree() {
    find "$PWD" \( -path "$PWD/build" -o -path "$(realpath "$ZC_BUILD")" -o -path "$PWD/.git" \
        -o -name __pycache__ \) -prune -o -print | sort
}

if [[ ${1:-} == --one ]]; then
    run_one "$2"
    status=$?
    ((status == 77)) && status=0
    echo "$status" >"$tap/${2//\//_}.status"
    exit "$status"
fi

# The tests' own settings must not come from the caller's environment.
unset LD_PRELOAD "${!SIM_@}" ZC_POLICY ZC_LOG ZC_LOG_LEVEL ZC_STRICT ZC_PYTHON
export LC_ALL=C
ulimit -c 0

# A version manager's python3 is a script that takes several times as long to start as Python.
python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))' 2>/dev/null)
[[ -z $python || $python -ef $(command -v python3) ]] || PATH=${python%/*}:$PATH

files=("$@")
if ((${#files[@]} == 0)); then
    shopt -s nullglob
    for source in tests/unit/*.c tests/stress/*.c; do
        files+=("$ZC_BUILD/${source%.c}")
    done
    for source in tests/fuzz/*_fuzz.c; do
        files+=("$ZC_BUILD/${source%.c}-replay")
    done
    files+=(tests/preload/*.bats tests/tools/*.bats tests/check/*.bats)
    shopt -u nullglob
fi

rm -rf "$tap"
mkdir -p "$tap/bin"
# Tests end what hangs by timeout(1).  Beside other work what does not hang takes long as well.
cat >"$tap/bin/timeout" <<END
#!/bin/sh
case \$1 in *[!0-9]*) ;; *) seconds=\${1}0; shift; set -- "\$seconds" "\$@" ;; esac
exec $(command -v timeout) "\$@"
END
chmod +x "$tap/bin/timeout"
PATH=$(realpath "$tap")/bin:$PATH
# The tester's home must not get zc's notes of runs.
XDG_STATE_HOME=$(realpath "$tap")/state
export XDG_STATE_HOME
tree >"$tap/before"
library=$(stat -c '%i %y' "$ZC_BUILD/libzc.so" 2>&1)
prove -j "${ZC_JOBS:-2}" --exec 'tests/run.sh --one' "${files[@]}"
proved=$?

passed=0 failed=0 skipped=0
failing=()
for file in "${files[@]}"; do
    name=$tap/${file//\//_}
    read -r p f s < <(count_one "$name.tap" "$(cat "$name.status" 2>/dev/null || echo 1)" 2>&1)
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    ((f == 0)) || failing+=("$file")
done
for file in "${failing[@]}"; do
    printf '\n--- %s failed:\n' "$file"
    cat "$tap/${file//\//_}.tap" 2>/dev/null
done
# Faults that prove alone noticed (cases out of order, a plan that does not fit) are failures, too.
((proved == 0 || failed > 0)) || failed=1
left=$(tree | comm -13 "$tap/before" -)
if [[ -n $left ]]; then
    printf '\n--- the tests left these files:\n%s\n' "$left"
    failed=$((failed + 1))
fi
if [[ $library != "$(stat -c '%i %y' "$ZC_BUILD/libzc.so" 2>&1)" ]]; then
    printf '\n--- a test built %s again\n' "$ZC_BUILD/libzc.so"
    failed=$((failed + 1))
fi
printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
((failed == 0))
