#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# import libzc; libzc.enable(): a script starts itself again under libzc, or says why it can't.

load programs

setup() {
    need_gpu_programs
    unset ZC_ENABLE
    export PYTHONPATH=$PWD/scripts ZC_BUILD=$PWD/$ZC_BUILD PYTHONDONTWRITEBYTECODE=1
    cd "$BATS_TEST_TMPDIR"
    # Says when it begins, asks for libzc, and says what it is, with memory of CUDA's.
    cat >again.py <<'PYTHON'
import os, sys
print("begins", os.getpid(), flush=True)
import libzc
enabled = libzc.enable(*eval(os.environ.get("HOW", "()")))
import ctypes, warnings
cuda = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(2 << 20)) == 0
memory = libzc.query(block.value)
print("enabled", enabled, libzc.present(), memory.place if memory else None, sys.argv[1:],
      sys._xoptions, sys.warnoptions, sys.prefix, os.environ.get("MINE"))
PYTHON
}

# How often the script began, and in how many processes.
begins() {
    [[ $(grep -c ^begins <<<"$output") == "$1" ]]
    [[ $(grep ^begins <<<"$output" | sort -u | wc -l) == 1 ]]
}

@test "a script starts itself again under libzc, with its arguments, options and environment" {
    MINE=kept run -0 --separate-stderr python3 -X dev=1 -W error::FutureWarning -B again.py 'a b' ''
    begins 2
    [[ ${lines[-1]} == "enabled True True device ['a b', ''] {'dev': '1'} "*FutureWarning*" kept" ]]
    [[ $stderr == *"libzc: "* && $(ls zc.python3*.jsonl | wc -l) == 1 ]]
    head -n 1 zc.python3*.jsonl | grep -q '"python":'
}

@test "a script names its policy, and the environment another" {
    printf '[rule all]\nplace = vmm\n' >vmm.conf
    printf '[rule all]\nplace = mapped\n' >mapped.conf
    HOW='("vmm.conf",)' run -0 --separate-stderr python3 again.py
    [[ ${lines[-1]} == "enabled True True vmm "* ]]
    begins 2
    HOW='("vmm.conf",)' ZC_POLICY=mapped.conf run -0 --separate-stderr python3 again.py
    [[ ${lines[-1]} == "enabled True True mapped "* ]]
    HOW='("@everyday",)' run -0 --separate-stderr python3 again.py
    [[ ${lines[-1]} == "enabled True True device "* ]]
    HOW='("off",)' ZC_POLICY='' run -0 --separate-stderr python3 again.py
    [[ ${lines[-1]} == "enabled True True device "* ]]
    for policy in evryday no.conf everyday @evryday; do
        HOW="('$policy',)" run -1 python3 again.py
        [[ $output == *"ValueError: libzc.enable(): "*"there is no "* ]]
    done
    [[ $output == *"did you mean '@everyday'?" ]]
}

@test "under zc run a script does not start again, but for a policy that nobody else names" {
    run -0 --separate-stderr "$ZC" run -q python3 again.py
    begins 1
    [[ ${lines[-1]} == "enabled True True device "* ]]
    printf '[rule all]\nplace = vmm\n' >vmm.conf
    HOW='("vmm.conf",)' run -0 --separate-stderr "$ZC" run -q -o logs python3 again.py
    begins 2
    [[ ${lines[-1]} == "enabled True True vmm "* && $(ls logs/*.jsonl | wc -l) == 1 ]]
    HOW='("vmm.conf",)' run -0 --separate-stderr "$ZC" run -q -p off python3 again.py
    begins 1
    [[ ${lines[-1]} == "enabled True True device "* ]]
}

@test "runs without libzc stay without it, and children decide by themselves" {
    sed -i '/^print("begins"/d; s/sys.prefix/0/' again.py
    run -0 --separate-stderr "$ZC" run --compare off --runs 1 -o kept python3 again.py
    grep -q "enabled False False None" kept/bare/stdout
    grep -q "enabled True True device" kept/watched/stdout
    ZC_ENABLE=0 run -0 --separate-stderr python3 again.py
    [[ $output == "enabled False False None "* && -z $stderr ]]
    cat >parent.py <<-END
	import libzc, os, subprocess, sys
	libzc.enable()
	subprocess.run([sys.executable, "again.py"], env={**os.environ, "LD_PRELOAD": ""})
	END
    run -0 --separate-stderr python3 parent.py
    [[ ${lines[0]} == "enabled True True device "* ]]
}

@test "a text, a module and a packed program start again; a folder and a link do as well" {
    run -0 --separate-stderr python3 -c "$(cat again.py)" one
    begins 2
    [[ ${lines[-1]} == "enabled True True device ['one'] "* ]]
    run -0 --separate-stderr python3 -m again one
    begins 2
    run -0 --separate-stderr python3 -magain one
    begins 2
    mkdir folder
    cp again.py folder/__main__.py
    run -0 --separate-stderr python3 folder one
    begins 2
    python3 -m zipapp folder -o packed.pyz
    run -0 --separate-stderr python3 -- packed.pyz one
    begins 2
    [[ ${lines[-1]} == "enabled True True device ['one'] "* ]]
}

@test "a script in an environment stays in it, by whatever name Python was called" {
    python3 -m venv --without-pip env
    run -0 --separate-stderr env PATH="$PWD/env/bin:$PATH" python3 again.py
    [[ ${lines[-1]} == "enabled True True device "*" $PWD/env "* ]]
}

# Runs something that can't be started again, which says so and goes on without libzc.
#   goes_on MESSAGE COMMAND...
goes_on() {
    run -0 --separate-stderr "${@:2}"
    [[ $stderr == *"zc: libzc.enable(): "*"$1"* && $stderr != *"libzc: "* ]]
    [[ ${lines[-1]} == "enabled False False None "* ]]
    begins 1
}

@test "a script by standard input or by a pipe says that it can't, and goes on" {
    goes_on "by standard input" python3 <again.py
    goes_on "by standard input" python3 - one <again.py
    goes_on "by standard input" python3 <(cat again.py) one
}

@test "an interactive Python says that it can't, and goes on" {
    sed 's/^assert.*//; s/^memory.*//; s/^print("enabled".*/print("enabled", enabled)/
        s/^      sys._xo.*//' again.py >typed
    run -0 --separate-stderr python3 -i <typed
    [[ $stderr == *"zc: libzc.enable(): "* && $output == *"enabled False"* ]]
}

@test "a script where CUDA or threads are there already says so, and goes on" {
    sed -i '1a import ctypes; ctypes.CDLL("libcuda.so.1")' again.py
    goes_on "CUDA is loaded already" python3 again.py
    sed -i '2c import threading as t, time; t.Thread(target=time.sleep, args=(1,)).start()' \
        again.py
    goes_on "other threads run already" python3 again.py
    sed -i '2c os.chdir("/")' again.py
    goes_on "is not there any more" python3 again.py
}

@test "frozen and embedded Pythons, kernels and pytest say what to do instead" {
    sed -i '1a sys.frozen = True' again.py
    goes_on "frozen" python3 again.py
    for module in ipykernel:zc\ jupyter IPython:interactive _pytest:pytest\ --zc; do
        sed -i "2c sys.modules['${module%%:*}'] = sys" again.py
        goes_on "${module#*:}" python3 again.py
    done
    sed -i '2c sys.executable = "/bin/sh"' again.py
    goes_on "embedded in " python3 again.py
}

@test "where the preload has no effect, a script starts again once, and says so" {
    : >none.so
    ZC_LIB=$PWD/none.so run -0 --separate-stderr python3 again.py
    begins 2
    [[ $stderr == *"could not be preloaded"* && ${lines[-1]} == "enabled False False None "* ]]
    mkdir "a b"
    cp "$LIBZC" "a b"
    ZC_LIB="$PWD/a b/libzc.so" run -0 --separate-stderr python3 again.py
    begins 1
    [[ $stderr == *"LD_PRELOAD can't hold a path with blanks"* ]]
}

@test "what a Python was told to run is found behind all of its options" {
    run -0 python3 -c '
from zclib import names
for line in ("t.py -c", "-u -X dev t.py", "-Xdev -Wonce t.py", "-uW error t.py", "-Bc 1",
             "-m a.b x", "-mtorch.run t.py", "-Bm a", "- t.py", "-- t.py", "", "-u",
             "-Ximporttime -c x"):
    print("%s|%s" % names.python_runs(line.split()))'
    [[ $output == 'file|t.py
file|t.py
file|t.py
file|t.py
text|
module|a.b
module|torch.run
module|a
|
file|t.py
|
|
text|' ]]
}

@test "import libzc has all of its names, its version, and no other" {
    run -1 python3 -c '
import libzc
print(libzc.__version__, *(callable(getattr(libzc, name)) for name in libzc.__all__))
assert set(libzc.__all__) <= set(dir(libzc))
libzc.nothing'
    [[ ${lines[0]} =~ ^[0-9.]+\ True\ True ]]
    [[ ${lines[-1]} == "AttributeError: module 'libzc' has no attribute 'nothing'" ]]
}
