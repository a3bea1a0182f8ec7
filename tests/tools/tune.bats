#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc tune: the best policy of programs for which it is known by construction. The simulated GPU has
# no times, so what counts is what the copies would take by their bytes.

load programs

setup_file() {
    [[ -e $ZC_BUILD/sim/libcuda.so.1 ]] || return 0
    build_program copies "$BATS_FILE_TMPDIR"
    build_program tables "$BATS_FILE_TMPDIR"
}

setup() {
    need_gpu_programs
    export TREE=$PWD
    cd "$BATS_TEST_TMPDIR"
    # Prints what is the same each time. A table of 8 MiB, of which 1 % is read.
    printf '#!/bin/sh\n"%s" 8192 1024 | grep -o "checksum[^,]*"\n' "$GATHER" >gather
    chmod +x gather
    ln -s "$BATS_FILE_TMPDIR"/{copies,tables} .
}

# Runs zc tune; its table and verdict are in $output, what it says on stderr in $stderr.
tune() {
    local status=$1
    shift
    run "-$status" --separate-stderr "$ZC" tune "$@"
}

# Writes a program that does what gather does, but under policies of some names runs other commands
# before: wrapped PATTERN COMMANDS
wrapped() {
    printf '#!/bin/sh\ncase $ZC_POLICY in %s) %s ;; esac\nexec ./gather\n' "$1" "$2" >program
    chmod +x program
}

@test "a table that kernels read sparsely becomes one with the host's, and the policy proves it" {
    mkdir nvml
    ${CC:-gcc} -shared -fPIC -o nvml/libnvidia-ml.so.1 "$TREE/tests/tools/fake_nvml.c"
    LD_LIBRARY_PATH=$PWD/nvml:$LD_LIBRARY_PATH tune 0 -- ./gather
    [[ $output == *"are one with the host's "*" kept"* ]]
    [[ $output == *"are pinned "*"not kept: takes nothing beside what was kept later"* ]]
    [[ $output == *"Written to policy.conf."* && -z $stderr ]]
    grep -qx 'place = shared, device' policy.conf
    grep -qx 'access = read' policy.conf
    grep -q '^# Written by zc tune on 20.*, for: ./gather$' policy.conf
    [[ $(tr -d '\n#' <policy.conf) == *"gained "*" of that before "*"predicted: up to "*\
"The link's counters had "*" of it by copies, to the GPU, and "*\
"B/s and "*"B/s over the run."* ]]
    run -0 "$ZC" check policy.conf
    [[ $output == *" 2 usable rules, 0 errors, 0 warnings" ]]
    # Once a module of its call paths was built anew, zc check says so.
    grep -Eq "^# build: gather-shared [0-9a-f]{40} $GATHER\$" policy.conf
    sed -E 's/^(# build: gather-shared [0-9a-f]{38})../\1/' policy.conf >stale.conf
    run -0 "$ZC" check stale.conf
    [[ ${lines[0]} == "stale.conf:"*": warning: gather-shared was rebuilt since: "* ]]
    [[ ${#lines[@]} == 2 && $output == *" 2 usable rules, 0 errors, 1 warning" ]]
    sed -E 's,^(# build: .*/)gather,\1gone,' stale.conf >gone.conf
    run -0 "$ZC" check gone.conf
    [[ $output == *" 0 warnings" ]]
    run -0 --separate-stderr "$ZC" run -p policy.conf -- ./gather
    [[ $stderr == *"8.1 MiB asked in 3 copies: "*" KiB moved, 0 B copied by the CPU, 8 MiB "* ]]

    # The table's promise was all that gained more than pinned blocks do.
    tune 0 --force --no-promises -- ./gather
    [[ $output != *"which kernels only read"* ]]
    run ! grep -q '^access = read' policy.conf
    grep -q '^place = pinned' policy.conf

    # A file that is there already is kept, before anything runs.
    cp policy.conf before
    tune 2 -- ./gather
    [[ $stderr == "zc: policy.conf is there already: name another file by -o, or "*"--force"* ]]
    cmp before policy.conf
}

@test "memory that is not malloc's is copied by several threads" {
    tune 0 -o out.conf -- ./copies map 2
    [[ $output == *"several threads copy pageable memory "*" kept"* ]]
    [[ $output != *"in host memory "* ]]  # CPU threads would copy it, which takes longer.
    [[ $(grep -v '^#' out.conf | grep .) == "[defaults]"$'\n'"pageable_copy = parallel" ]]
}

@test "arrays that grow are remapped, and with nothing to gain nothing is written" {
    sim_env grow
    tune 0 -o out.conf --ignore '_ms":[0-9.]+' -- "$(dirname "$GATHER")/grow-shared"
    [[ $output == *"grow by a remap "*" kept"* ]]
    grep -qx 'grow = yes' out.conf
    tune 0 -- "$KILLED" 1 _exit
    [[ $output == "Nothing was gained, so nothing is written." && ! -e policy.conf ]]
}

@test "a rule under which the program prints something else, or hangs, is not kept" {
    # One child is in a group of its own, as ranks of launchers are; one does not end by SIGTERM.
    wrapped '*candidate-1*' 'echo other; exit ;; *candidate-3*)
        setsid sleep 60 & trap "kill $!; exit" TERM; echo $! >pids
        (trap "" TERM; exec sleep 60) & echo $! >>pids; wait'
    tune 0 -- ./program
    [[ $output == *"are pinned "*"not kept: printed 'other' instead of 'checksum"* ]]
    [[ $output == *"one with the host's "*"not kept: took too long, and was ended"* ]]
    # Killed, though nobody may have waited for them yet.
    for pid in $(<pids); do
        run ! grep -s '^State:[[:blank:]]*[^Z[:blank:]]' "/proc/$pid/status"
    done
    [[ $(wc -l <pids) == 2 ]]
    grep -qx 'pageable_copy = parallel' policy.conf
    grep -q "^# - malloc's blocks of .* are pinned: printed 'other' instead of" policy.conf
}

@test "a policy says by what its runs were judged, and where nothing tells their results" {
    printf '#!/bin/sh\n./gather >made\n' >program
    chmod +x program
    tune 0 -- ./program
    [[ $output == *"The program prints nothing, so its results were not compared: --same names a "*\
"file of them, --check judges them."* ]]
    run -0 tr -d '\n#' <policy.conf
    [[ $output == *" runs under this policy; all ended. The program prints nothing, so its "* ]]
    tune 0 --force --ignore '.*' -- ./gather
    [[ $output == *"The program prints nothing but what --ignore names, so its results "* ]]
    tune 0 --force --same made -- ./program
    [[ $output != *"prints nothing"* ]]
    run -0 tr -d '\n#' <policy.conf
    [[ $output == *" all ended and wrote the same files as without it."* ]]
    tune 0 --force --check 'test ! -s /dev/stdin' -- ./program
    run -0 tr -d '\n#' <policy.conf
    [[ $output == *" all ended and passed --check."* ]]
}

@test "a file of an earlier run is not taken for one that a rule's run wrote" {
    wrapped '*candidate*' 'exec ./gather'
    sed -i 's/^exec .*/.\/gather | tee made/' program
    tune 0 --same made -- ./program
    [[ $output == *"are pinned "*"not kept: did not write made"*"Nothing was gained"* ]]
    # One that is made once need not be written each time.
    rm made
    printf '#!/bin/sh\n[ -e made ] || echo >made\nexec ./gather\n' >program
    tune 0 --same made -- ./program
    [[ $output == *" kept"*"Written to policy.conf."* ]]
}

@test "a rule under which the program crashes is not kept; neither forks nor their ends matter" {
    wrapped '*candidate-1*' 'kill -SEGV $$ ;; *) sh -c "kill -9 \$\$"; true'
    tune 0 -- ./program
    [[ $output == *"are pinned "*"not kept: ended with status 139 instead of 0"* ]]
    [[ $output == *"one with the host's "*" kept"* ]]
    run -0 "$ZC" check policy.conf
    # But one that used CUDA, and came to its end before, does.
    wrapped '*candidate-1*' "'$KILLED' 1 || true ;; *) ./copies map 1 >/dev/null"
    tune 0 --force -- ./program
    [[ $output == *"are pinned "*"not kept: lost a process, which did not end by exit"* ]]
}

@test "less device memory is a goal as well" {
    tune 0 --goal device-memory -- ./gather
    [[ $output == *"Device memory: "*" KiB instead of 8.1 MiB"*"Written to policy.conf." ]]
    grep -qx 'place = shared, device' policy.conf
    # The third run under the rule prints something else; then what it is raced against runs.
    wrapped '*candidate-1*' 'echo >>runs; [ $(wc -l <runs) -ne 3 ] || { echo other; exit; }'
    tune 0 --force --goal device-memory -- ./program
    [[ $output == *"one with the host's "*"not kept: printed 'other' instead of 'checksum"* ]]
    [[ $output == *"Nothing was gained"* ]]
}

@test "one policy is found for all ranks of mpirun, whose ranks try several candidates at once" {
    command -v mpirun.openmpi >/dev/null || skip "no Open MPI"
    # A host has as many places for ranks as processors, and root is warned off.
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1
    export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # Ranks print in any order.
    printf '#!/bin/sh\necho $OMPI_COMM_WORLD_RANK\nexec ./tables 4\n' >program
    chmod +x program
    tune 0 -- mpirun.openmpi -n 3 ./program
    # Of two tables one is the same each time, which one job tells.
    [[ $output == *"are pinned "*" 17.7 % "*" kept"* ]]
    [[ $output == *"not kept: 158 % more time of copies by their bytes, on some ranks"* ]]
    [[ $output == *"are one with the host's "*" 50.0 % "*" 1  kept"* ]]
    [[ $output == *"151 us instead of 1.7 ms, 8.8 % of it."* ]]  # Of one rank.
    grep -q '^# .*, 3 ranks on 1 host\.$' policy.conf
    [[ $(grep -c '^rank\|^place = shared, device' policy.conf) == 1 ]]
}

@test "ranks that do not do the same all have one candidate, and none may be lost" {
    # The last of four ranks does not start, and the launcher does not mind one that dies.
    cat >program <<'SH'
#!/bin/sh
for rank in 0 1 2; do
    export OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=$rank
    case $ZC_POLICY,$rank in
        *candidate-1*,1) echo 7 0 ;;
        *) ./tables $((rank ? 1 : 2)) & ;;
    esac
done
wait
SH
    chmod +x program
    tune 0 -- ./program
    [[ ${lines[0]} == "Ranks are not alike, so each change was tried on all of them ("*\
"427 us of rank 1, 855 us of rank 0)." ]]
    [[ $output == *"are pinned "*"not kept: had no log of rank 1, which did not use CUDA"* ]]
    [[ $output == *"with the host's  up to 427 us "*" kept"* ]]  # As predicted for rank 0.
    grep -q '^# .*, 3 of 4 ranks on 1 host\.$' policy.conf
    grep -q '^# Ranks are not alike' policy.conf
}

@test "a program too long for races has every other block placed within one run" {
    # The time has room for no race of whole runs. The last of two whole runs prints what is right.
    printf '#!/bin/sh\nsleep 0.2\ncase $ZC_POLICY in *whole-2*) echo other; exit ;; esac\n%s\n' \
        'exec ./tables 3 8' >program
    chmod +x program
    tune 0 --time 2 -- ./program
    grep -q 'are pinned .* 8\.4 ms  *8\.4 ms  *17\.7 %  *1  kept$' <<<"$output"
    grep -q "with the host's  *up to 908 us  *908 us  *0\.0 %  *1  not kept: printed 'other'" \
        <<<"$output"
    grep -q "one with the host's .*% .* 1  not kept: more time of copies by" <<<"$output"
    [[ $output == *"1.8 ms instead of 10.2 ms, 17.7 % of it."* ]]
    run -0 tr -d '\n#' <policy.conf
    [[ $output == *"One run under this policy ended and printed as without it."*\
"copies of every other block took 17.7 % of those of the others in one run; predicted: "* ]]
    [[ $(grep -c '^nth' policy.conf) == 0 && $(grep -c '^\[rule' policy.conf) == 1 ]]
}

@test "programs that can't be tuned are told why" {
    run -0 python3 -B - <<'PYTHON'
import contextlib, io, os, re, sys
sys.path.insert(0, os.environ["TREE"] + "/scripts")
from zclib.cli import main

def tune(status, *arguments):
    """One command line; what it says."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert main(["tune", *arguments]) == status, (arguments, said.getvalue())
    return said.getvalue().strip()

fails = "zc: sh can't be tuned: "
assert tune(1, "--", "sh", "-c", "echo broken >&2; echo --- >&2; exit 3") == \
    fails + "it ends with status 3 without libzc: broken"
assert tune(1, "--", "sh", "-c", "test -t 0 || { echo no terminal; exit 1; }") == \
    fails + "it ends with status 1 without libzc: no terminal"  # Elsewhere it says why.
assert tune(1, "--", "sh", "-c", "kill -9 $$") == fails + "it ends with status 137 without libzc"
assert tune(1, "--", "sh", "-c", "test -t 0 || { echo no terminal >&2; exit 1; }") == \
    fails + "it ends with status 1 without libzc: no terminal"
differs = tune(1, "--", "sh", "-c", "echo a$$")
assert differs.startswith(fails + "without libzc it does not always do the same: one run printed '")
assert "--ignore REGEX, or say by --check COMMAND" in differs
# Of a long line that what differs is shown.
assert re.search(r"one run printed '\.\.\.0+ a\d+' instead of '\.\.\.0+ a\d+'\. Name", tune(
    1, "--", "sh", "-c", 'printf "%0200d a%d\\n" 0 $$'))
assert tune(1, "--strict", "--", "sh", "-c", "echo $$").startswith(
    fails + "without libzc it does not always do the same: one run printed '")
assert "one run wrote another made." in tune(1, "--same", "made", "--", "sh", "-c", "echo $$ >made")
assert tune(1, "--check", "grep -q right", "echo", "wrong") == "zc: echo can't be tuned: without " \
    "libzc it did not pass --check: 'grep -q right' ended with status 1"
assert tune(1, "--same", "mde", "--", "sh", "-c", "echo >made") == \
    fails + "--same mde: there is no such file after a run without libzc"
assert tune(1, "--metric", "echo -5", "./gather") == "zc: ./gather can't be tuned: 'echo -5' " \
    "printed -5: less is better, from 0 on, so of what is to grow it has to print the inverse"
assert tune(1, "--same", "/dev/zero", "true") == \
    "zc: true can't be tuned: --same /dev/zero: there is no such file after a run without libzc"
assert "No such file" in tune(127, "")
assert "no process of it used CUDA under libzc" in tune(1, "true")
assert "which only watched, it ended with status 3" in tune(
    1, "--", "sh", "-c", 'test "$ZC_POLICY" || exit 0; exit 3')
assert "No such file" in tune(127, "./missing")
for wrong in (["--ignore", "("], ["-o", "nowhere/policy.conf"], ["--runs", "1"],
              ["--metric", "wall", "--goal", "device-memory"]):
    tune(2, *wrong, "touch", "ran")
assert not os.path.exists("ran") and not os.path.exists("policy.conf")
PYTHON
}

@test "a program that asks at the terminal is told to, which libzc is not blamed for" {
    printf '#!/bin/sh\nread answer </dev/tty\nexec ./gather\n' >program
    chmod +x program
    run -0 python3 - "$ZC" <<'PYTHON'
import os, pty, sys
tune, terminal = pty.fork()
if tune == 0:
    os.execv(sys.argv[1], [sys.argv[1], "tune", "--", "./program"])
os.write(terminal, b"yes\n" * 2)
said = b""
try:
    while part := os.read(terminal, 4096):
        said += part
except OSError:  # The terminal of a process that has ended.
    pass
assert os.waitstatus_to_exitcode(os.waitpid(tune, 0)[1]) == 1
assert b"can't be tuned: run again without libzc, it did not end in " in said, said
assert b": does it ask at the terminal?" in said, said
PYTHON
}

@test "a signal ends the search, and the best so far is written with that remark" {
    wrapped '*candidate-2*' ': >ready; exec sleep 60'
    "$ZC" tune -- ./program >out 3>&- &
    until [[ -e ready ]]; do sleep 0.05; done
    kill -INT $!
    wait $! || status=$?
    [[ $status == 130 ]]
    [[ $(tail -n 1 out) == "Stopped before all was tried. Written to policy.conf." ]]
    grep -q '^# Stopped before all was tried.$' policy.conf
    run -0 "$ZC" check policy.conf
    # So does a terminal that goes.
    rm ready policy.conf
    TERM=xterm run -1 python3 - "$ZC" <<'PYTHON'
import os, pty, subprocess, sys, time
screen, terminal = pty.openpty()
tune = subprocess.Popen([sys.argv[1], "tune", "--", "./program"], stdout=terminal, stderr=terminal,
                        start_new_session=True)
os.close(terminal)
while not os.path.exists("ready"):
    time.sleep(0.05)
os.close(screen)
tune.send_signal(1)
sys.exit(tune.wait())
PYTHON
    grep -q '^# Stopped before all was tried.$' policy.conf
    # Also between two runs, and nothing is left behind.
    mkdir tmp
    for signal in INT TERM HUP; do
        TMPDIR=$PWD/tmp run "$ZC" tune -o new --check "kill -$signal \$PPID; exec sleep 60" true
        [[ $status -eq $((128 + $(kill -l $signal))) && -z $(ls tmp) ]]
        [[ ${lines[-1]} == "Stopped before all was tried. Nothing was gained, "* ]]
    done
}

@test "a disk that gets full is no fault of a rule, and the best so far is written" {
    unshare --user --map-root-user --mount true || skip "no user namespaces"
    mkdir tmp
    wrapped '*candidate-2*' 'cat /dev/zero >tmp/full 2>&-'
    local small=(unshare --user --map-root-user --mount sh -c
        'mount -t tmpfs -o size=4m zc tmp && exec "$@"' sh)
    TMPDIR=$PWD/tmp run -1 --separate-stderr "${small[@]}" "$ZC" tune -- ./program
    [[ $stderr == "zc: $PWD/tmp/zc-tune-"*": No space left on device"*"TMPDIR"* ]]
    [[ $output == *"Stopped before all was tried. Written to policy.conf." ]]
    grep -qx 'place = pinned, pageable' policy.conf
    # Nor is a comparison right whose files are cut.
    TMPDIR=$PWD/tmp run -125 --separate-stderr "${small[@]}" "$ZC" run -c @everyday -- \
        sh -c './gather; cat /dev/zero >tmp/full 2>&-'
    [[ $stderr == "zc: $PWD/tmp/zc-run-"*": No space left on device"* && -z $output ]]
}

@test "the driver's end counts as in the first run only where the log's last line tells it" {
    local program=$TREE/$ZC_BUILD/kernels/storm-shared
    need_built "$program"
    # Of a log that ends early, as on a full disk, only the counters are left.
    printf '#!/bin/bash\n%s\nexec "%s" 10000 >printed\n' \
        '[ $ZC_LOG_LEVEL = summary ] || ulimit -f 2500' "$program" >storm
    chmod +x storm
    LIBZC=$LIBZC run -0 python3 -B - <<'PYTHON'
import os, sys
sys.path.insert(0, os.environ["TREE"] + "/scripts")
from zclib import launch, race, trial
from zclib.tune import metrics
trials, wall = trial.Trials(["./storm"], "."), metrics.wall().of
def timed(policy, level):
    return trials.run(trial.Plan("runs", launch.environment(
        os.environ["LIBZC"], "", policy, level), False), 1)
whole, cut = timed("off", "summary"), timed("off", "events")
assert wall(whole) == race.wall(whole)
[process] = cut.totals.processes
assert process.state == "ended" and not process.wall_ns and process.counts.asked_calls > 10000
assert wall(cut) == race.wall(cut), (wall(cut), race.wall(cut))
# A command may go on after the process that used CUDA.
assert metrics.driver_ns(whole) > 0
trials = trial.Trials(["sh", "-c", "./storm; sleep 0.1"], ".")
assert metrics.driver_ns(timed("off", "summary")) is None
PYTHON
}

@test "races decide by time: gains are kept, losses and noise are not" {
    run -0 python3 -B - <<'PYTHON'
import os, random, re, sys, tempfile
sys.path.insert(0, os.environ["TREE"] + "/scripts")
from types import SimpleNamespace as Some
from zclib.costs import Costs
from zclib import race
from zclib.tune import metrics, search
from zclib.tune.candidates import Candidate, Prices
from zclib.tune.traffic import DeviceSite, Sum, Traffic

# Share of the bare time and of device memory that a rule leaves.
RULES = {"fast": (0.8, 1), "slow": (1.2, 0.1), "noise": (1, 1), "small": (0.95, 0.5)}

class Trials:
    """Stands in for programs."""
    noise, driver = 0.01, 0.0  # Of the time; what the driver starts and ends in, each, in seconds.
    def __init__(self, scale, second, seed):
        self.dice, self.runs, self.now = random.Random(seed), 0, 0.0
        self.scale, self.second = scale, second    # Of a run; of the second, more.
    def run(self, plan, number, limit_s=None):
        self.runs += 1
        policy = "off" if plan.env is None else plan.env["ZC_POLICY"]
        rules = re.findall(r"\[rule (\w+)\]", "" if policy == "off" else open(policy).read())
        wall, peak = 1e9 * self.dice.uniform(1 - self.noise, 1 + self.noise), 100
        for rule in rules:
            wall, peak = wall * RULES[rule][0], peak * RULES[rule][1]
        wall *= self.scale * (self.second if self.runs == 2 else 1)
        self.now += wall / 1e9
        sites = {"s": Some(rules=dict.fromkeys(rules, 1))}
        start, end = (1e9 * self.dice.uniform(0.8, 1.2) * self.driver for _ in range(2))
        end += 1.5e8 * ("late" in rules)
        log = Some(pid=1, end_ns=1e18 + start + wall, wall_ns=wall, driver_start_ns=start)
        totals = Some(simulated=False, warns={}, processes=[log] if plan.env else [], sites=sites,
                      peak=lambda place: peak if place == "device" else 0)
        wall += start + end
        return Some(ended=Some(wall_ns=wall, end_ns=1e18 + wall, pid=1, passed_on=0, late=False),
                    status=0, totals=totals)

class Right:
    def learn(self, run): pass
    learn_again = learn_watched = learn
    def fault(self, run): return ""
    fault_of_bare = fault

def tune(metric, gain_ns=5e8, stops=False, halves=False, scale=1, second=1, seed=4, names=RULES,
         **options):
    with tempfile.TemporaryDirectory() as folder:
        trials = Trials(scale, second, seed)
        search.time = race.time = Some(monotonic=lambda: trials.now)
        one = search.Search(trials, folder, "libzc.so", Right(),
                            search.Options(metric, **options), lambda text: None)
        one.bare()
        one.take_base(one.watched())
        for name in names:
            what = Candidate("mapped", name, gain_ns, gain_ns, {name: "place = mapped\n"})
            one.outcome.tried.append(search.Tried(what, True)) if halves else one.try_one(what)
        one.stop() if stops else one.verify_halves() if halves else one.confirm()
        return one.outcome, {tried.candidate.what: tried for tried in one.outcome.tried}, trials

outcome, tried, trials = tune(metrics.wall(), seconds=20)
assert [one.candidate.what for one in outcome.kept] == ["fast", "small"], outcome
assert tried["slow"].runs == 1 and "more time (" in tried["slow"].why    # One run tells it.
assert tried["noise"].why in ("no significant difference", "gains less than 1 %"), tried["noise"]
assert 0.74 < outcome.final.low < outcome.final.high < 0.78, outcome.final
assert 0.19e9 < tried["fast"].gain < 0.21e9
for scale in (0.2, 0.3, 1, 30):                    # No more than 15 runs' time, by any of them.
    for second in (0.9, 1, 1.2):
        trials = tune(metrics.wall(), scale=scale, second=second)[2]
        assert trials.now < 15.3 * scale, (scale, second, trials.now)
outcome, tried, _ = tune(metrics.memory(), spares_memory=True)
assert [one.candidate.what for one in outcome.kept] == ["small"], outcome
assert tried["slow"].why.endswith(" % more time"), tried["slow"]            # Whatever it spares.
outcome, tried, trials = tune(metrics.wall(), gain_ns=9e6)               # 0.9 % can't be enough.
assert not outcome.kept and trials.runs == 4
outcome, tried, trials = tune(metrics.wall(), seconds=1e-9)
assert {one.why for one in outcome.tried} == {"not tried: the time is up"} and trials.runs == 4
outcome, tried, trials = tune(metrics.wall(), seconds=11)                # Of a second each.
assert outcome.kept and trials.now < 12, (outcome.kept, trials.now)
outcome, tried, trials = tune(metrics.wall(), stops=True, seconds=20)
assert [one.candidate.what for one in outcome.kept] == ["fast"] and trials.runs == 8
# A race that ends once a rule seems to gain must not end by chance.
Trials.noise = 0.05
found = sum(bool(tune(metrics.wall(), names=["noise"], seed=seed)[0].kept) for seed in range(150))
assert found <= 6, found
Trials.noise = 0.01
# The time that the driver takes to start and end is no rule's gain or loss.
Trials.driver = 0.3
for seed in range(8):
    outcome, tried, trials = tune(metrics.wall(), seconds=25, names=["noise", "small"], seed=seed)
    assert [one.candidate.what for one in outcome.kept] == ["small"], (seed, outcome)
    assert 0.04e9 < tried["small"].gain < 0.06e9 and trials.runs < 25, (seed, trials.runs)
# A gain is none that the whole run takes longer for.
Trials.driver = 0.05
metric = metrics.wall()._replace(of=lambda run: run.totals.processes[0].wall_ns - 5e8 * bool(
    run.totals.sites["s"].rules))
outcome, tried, _ = tune(metric, seconds=25, names=["slow"])
assert not outcome.kept and tried["slow"].why.endswith(" % more time"), tried["slow"]
# Nor is what a rule only puts off, as memory that the driver has to give back in the end.
RULES["late"] = (0.8, 1)
outcome, tried, _ = tune(metrics.wall(), seconds=25, names=["late"])
assert 0.02e9 < tried["late"].gain < 0.08e9 and outcome.final.value > 0.92, (tried, outcome)
# Of a long program one run tells that.
outcome, tried, _ = tune(metrics.wall(), halves=True, names=["late"])
assert 0.9 < outcome.final.value < 1, outcome
RULES["late"] = (0.9, 1)
outcome, tried, _ = tune(metrics.wall(), halves=True, names=["late"])
assert not outcome.kept and tried["late"].why.startswith("more time"), tried["late"]
Trials.driver = 0.0

# If a run with pinned blocks gains less than its copies do, another one tells.
from zclib.commands.tune import Tuning
def watch(*gains, blocked=1e7):
    runs = [Some(gained=gain, ranks={}, totals=Some(counts=Some(blocked_ns=blocked)))
            for gain in gains]
    tuning, prices = Tuning.__new__(Tuning), Prices(Costs(), False)
    tuning._search = Some(watched_under=lambda policy: runs.pop(0),
                          gained_ns=lambda run, watched: run.gained)
    before = Some(ranks={}, totals=Some(counts=Some(blocked_ns=6e7)))
    tuning._watch_pinned(before, prices)
    return prices.pinned_ns, prices.fill_ns, len(runs)
assert watch(9e7, 0) == (9e7, 4e7, 1)
assert watch(-2e7, 9e7, 0) == (9e7, 4e7, 1)
assert watch(4e7, -2e7, 0) == (4e7, 0, 1)

import time
search.time = race.time = time

# In a job of six ranks on two or three hosts candidates take turns on ranks or hosts.
from zclib.tune import ranks, verify, write
from zclib.sameness import Output

def job(hosts, wall=lambda rank: 1e9, rules=lambda rank: (), states="ended"):
    processes = {rank: [Some(host=host, state=states, world=6, rank=rank, launcher="slurm")]
                 for rank, host in enumerate(hosts)}
    alone = {rank: Some(ended=Some(wall_ns=wall(rank), pid=0), totals=Some(sites={
        "s": Some(rules=rules(rank))})) for rank in processes}
    return Some(processes=processes, ranks=alone, totals=Some(
        warns={}, processes=[one for [one] in processes.values()]))

two, three = [Candidate("shared", name, 1, 1, {name: f"site = {name}\n"}, ["m"], sites=(name,))
              for name in ("1a", "2b")], job("ababcc")
assert [one.ranks for one in ranks.groups(three, 3)] == [(0, 2), (1, 3), (4, 5)]
members = ranks.groups(job("ababab"), 3)
assert [(one.key, one.name) for one in members] == [("rank", str(rank)) for rank in range(6)]
text = write.policy(ranks.Arms(two, ranks.groups(three, 3), metrics.wall()).placed())
assert "[rule 1a]\nhost = b\nsite = 1a" in text and "[rule 2b]\nhost = c\nsite = 2b" in text
assert text.count("[rule shared-hosts-") == 2 and text.count("host = b\n") == 2, text
assert not ranks.unlike(job("ababcc", lambda rank: 1e9 + rank * 1e7), members, metrics.wall())
assert ranks.unlike(
    job("ababcc", lambda rank: 1e9 + rank * 5e7), members, metrics.wall()) == \
    "time: 1.0 s of rank 0, 1.2 s of rank 5"

class Jobs:
    """Stands in for a job of six ranks, whose policy names rules and the ranks they are for."""
    def __init__(self, wall, takes):
        self.wall, self.takes, self.dice = wall, takes, random.Random(4)
    def run(self, plan, number, limit_s=None):
        on = {int(rank): rule for rule, named in re.findall(
            r"\[rule (\w\w)\]\nrank = (.*)", open(plan.env["ZC_POLICY"]).read())
            for rank in named.split(", ")}
        shares = [{"1a": 0.8, "2b": 1.1}.get(on.get(rank), 1) for rank in range(6)]
        run = job("ababab", lambda rank: self.wall(shares, rank) * self.dice.uniform(0.98, 1.02),
                  lambda rank: [on[rank]] if rank in on and self.takes(rank) else ())
        run.ended = Some(passed_on=0)
        return run

def spread(wall=lambda shares, rank: 1e9 * shares[rank] * (1 + rank / 100),
           takes=lambda rank: True, fault="", watched=job("ababab"), seconds=None):
    right = Right()
    right.fault = lambda run: fault
    with tempfile.TemporaryDirectory() as folder:
        one = search.Search(Jobs(wall, takes), folder, "libzc.so", right,
                            search.Options(metrics.wall(), seconds), lambda text: None)
        winners = one.spread(two, watched)
    return [won.what for won in winners], [lost.candidate.what for lost in one.outcome.tried], \
        "".join(one.outcome.notes)
assert spread() == (["1a"], ["2b"], "")
assert spread(takes=lambda rank: rank != 3) == ([], [], "")  # Rank 3 has no use for the rules.
assert spread(lambda shares, rank: 1e9 * max(shares)) == ([], [], "")  # Ranks wait for each other.
assert spread(seconds=1e-9) == ([], [], "")
assert ", each on some ranks, lost rank 2. So" in spread(fault="lost rank 2")[2]
assert spread(watched=job("ababab", lambda rank: 1e9 + rank * 1e8)) == (
    [], [], "Ranks are not alike, so each change was tried on all of them (time: 1.0 s of rank 0, "
    "1.5 s of rank 5).")

# Within one run, halves of the blocks are compared by the copies of each call.
import json, tempfile
from zclib.tune import halves
from zclib.tune.candidates import HOST_APIS
from zclib.tune.traffic import Blocks

def compared(blocks, buffers=1, copies=2, rules=("r",)):
    '''`blocks`: site and rule of each; times depend on the rule, the first copy takes more.'''
    dice, lines, last = random.Random(7), [{"type": "meta", "schema": 1}], []
    for at, (size, rule) in enumerate(blocks, 1):
        lines.append({"type": "alloc", "block": at, "site": "h", "rule": rule})
        last = [*last, (at, size, rule)][-buffers:]
        lines += [{"type": "transfer", "call_site": "c", "dir": "HtoD", "bytes": old,
                   "src_block": block if used else None, "blocked_ns": dice.uniform(98, 102) * (
                       (0.4 if n else 1) if used else 1)}
                  for n in range(copies) for block, old, used in last]
        lines.append({"type": "free", "block": at - buffers})
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))
        file.flush()
        return halves.compare([file.name], rules, lambda copy: copy["blocked_ns"])

ratio, gain = compared([(8, at % 2 and "r") for at in range(20)])
assert 0.67 < ratio.low < 0.7 < ratio.high < 0.73 and 1100 < gain < 1300, (ratio, gain)
ratio, gain = compared([(8, at % 2 and "r") for at in range(20)], buffers=2)
assert 0.67 < ratio.low < 0.7 < ratio.high < 0.73, ratio
assert compared([(8, at % 2 and "r") for at in range(7)]) is None          # Too few.
assert compared([(8 + at, at % 2 and "r") for at in range(20)]) is None    # Other sizes.
assert compared([(8 + at % 2, at % 2 and "r") for at in range(20)]) is None  # Of the halves.
assert not compared([(8, at % 2 and "other") for at in range(20)])
pinned = Candidate("pinned", "pinned", 9, 9, {"host": f"api = {HOST_APIS}\nplace = pinned\n"})
loop = Traffic(1)
loop.hosts = {"1": Blocks(8, 4, 4), "2": Blocks(9, 4, 5), "3": Blocks(7, 4, 4)}
loop.hosts["4"] = loop.hosts["1"]
loop.pinned_bytes = dict.fromkeys("1234", 1)
loop.sites = {"d": DeviceSite(8, 4, 4), "e": DeviceSite(1, 4, 4)}
table = [Candidate("shared", f"{site} {hosts}", 9, 9, {site: ""}, hosts, sites=(site, *hosts))
         for site, hosts in (("d", "1"), ("e", "1"), ("d", "2"), ("d", "14"), ("d", "4"))]
both = halves.alternating([pinned, *table], loop)
assert [(one.kind, half.sites) for one, half in both] == [("pinned", ["1", "4"])]
assert write.policy([both[0][1]]).count("nth = odd\nsite = ") == 2
both = halves.alternating(table, loop)
assert [one.what for one, _ in both] == ["d 1"] and write.policy(
    [half for _, half in both]).count("nth = odd\n") == 2                  # On both sides.

judge = verify.Verifier(Output(), "true", [])
judge.learn(Some(output=os.devnull, errors=os.devnull))
judge.learn_watched(job("ab"))
for run, fault in ((job("ab"), ""), (job("ab", states="killed"), "lost rank 0, which did not end"),
                   (job("a"), "had no log of rank 1")):
    assert judge._lost_rank(run).startswith(fault) and bool(fault) == bool(judge._lost_rank(run))
assert ranks.words(job("ab")) == "2 of 6 ranks on 2 hosts"
PYTHON
}
