#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc jupyter and %load_ext libzc: notebooks that run in a real kernel, without a browser.

load programs
load ../packages

setup() {
    need_gpu_programs
    export PYTHONPATH='' ZC_BUILD=$PWD/$ZC_BUILD PYTHONDONTWRITEBYTECODE=1
    need_packages ipykernel nbclient
    LOADED=$PWD/scripts
    cd "$BATS_TEST_TMPDIR"
    export HOME=$PWD JUPYTER_DATA_DIR=$PWD/data XDG_STATE_HOME=$PWD/state JUPYTER_PLATFORM_DIRS=1
    unset XDG_DATA_HOME VIRTUAL_ENV
    cat >cells.py <<'PYTHON'
import ctypes
SIZE = 1 << 20
cuda = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
host = ctypes.create_string_buffer(SIZE)
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(SIZE)) == 0
PYTHON
}

# Runs a notebook of these cells in a kernel, and prints what is below each: notebook KERNEL CELL...
notebook() {
    python3 - "$@" 2>/dev/null <<'PYTHON'
import sys
import nbformat
from nbclient import NotebookClient
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in sys.argv[2:]])
nbformat.validate(book)
NotebookClient(book, timeout=120, kernel_name=sys.argv[1]).execute()
for number, cell in enumerate(book.cells, 1):
    for output in cell.outputs:
        for line in output.get("text", "").splitlines():
            print(f"{number}: {line}")
PYTHON
}

COPY='assert cuda.cuMemcpyHtoD_v2(block, host, ctypes.c_size_t(SIZE)) == 0'
BACK='assert cuda.cuMemcpyDtoH_v2(host, block, ctypes.c_size_t(SIZE // 2)) == 0'

@test "each cell that copied has a line below it, in the kernel that zc jupyter adds" {
    run -0 "$ZC" jupyter install
    [[ $output == "$PWD/data/kernels/libzc: choose the kernel 'Python 3 (libzc)' "* ]]
    run -0 notebook libzc '1 + 1' "$(cat cells.py)" "$COPY" 'x = 1' "$COPY; $COPY; $BACK" '%zc'
    [[ $(grep -vc '^6: ' <<<"$output") == 2 ]]
    local time='[0-9.]+ [mun]?s'
    [[ ${lines[0]} =~ ^"3: zc: 1 MiB moved in 1 copy, "$time" of the cell's "$time ]]
    [[ ${lines[0]} == *" (HtoD, Pageable to Device)" ]]
    [[ ${lines[1]} == "5: zc: 2.5 MiB moved in 3 copies, "*" (mostly HtoD, Pageable to Device)" ]]
    [[ $output == *"6: "*": 3.5 MiB in 4 copies."* ]]
    [[ $output == *"6: Calls that copied, by bytes asked"*"<module>, In [5]:1  HtoD, DtoH "* ]]
    # Logs lie in the user's own folder.
    [[ $(ls state/libzc/jupyter/*.jsonl | wc -l) == 1 && -z $(ls ./*.jsonl 2>/dev/null) ]]
}

@test "a policy of the kernel's spares copies, and the line says of how much" {
    printf '[rule all]\napi = cuMemAlloc\nplace = mapped\n' >mapped.conf
    "$ZC" jupyter install -p mapped.conf --name mapped
    run -0 notebook mapped "$(cat cells.py)" "$COPY"
    [[ $output == "2: zc: 0 B of 1 MiB moved in 1 copy, "* ]]
    run -0 "$ZC" jupyter remove --name mapped
    [ ! -e data/kernels/mapped ]
    run -1 "$ZC" jupyter remove --name mapped
    [[ $output == "zc: "*"/mapped: there is no kernel of libzc" ]]
}

@test "in another kernel the extension says what to do, and can be taken out where it works" {
    mkdir -p data/kernels/bare
    printf '{"argv": ["%s", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
"display_name": "bare", "language": "python"}' "$(command -v python3)" \
        >data/kernels/bare/kernel.json
    export PYTHONPATH=$LOADED:$PYTHONPATH
    run -0 notebook bare '%load_ext libzc' '%zc' "$(cat cells.py)" "$COPY"
    [[ ${#lines[@]} == 2 ]]
    [[ ${lines[0]} == "1: zc: this kernel runs without libzc: \`zc jupyter install\`"* ]]
    [[ ${lines[1]} == "2: zc: this kernel runs without libzc"* ]]
    "$ZC" jupyter install
    run -0 notebook libzc '%zc' "$(cat cells.py)" '%reload_ext libzc' "$COPY" \
        '%unload_ext libzc' "$COPY"
    [[ ${lines[0]} == "1: zc: this kernel has not used CUDA yet" ]]
    [[ ${#lines[@]} == 2 && ${lines[1]} == "4: zc: 1 MiB moved in 1 copy, "* ]]
}

@test "libzc.enable() in a notebook says that a kernel is necessary" {
    "$ZC" jupyter install
    sed -i 's/"LD_PRELOAD"/"NOTHING"/' data/kernels/libzc/kernel.json
    run -0 notebook libzc 'import libzc; print(libzc.enable())'
    [[ $output == *"1: zc: libzc.enable(): a notebook's kernel can't be started again"* ]]
    [[ $output == *"1: False"* ]]
}

@test "what can't be installed is told, and another's kernel stays" {
    mkdir -p data/kernels/libzc
    echo '{"argv": ["mine"]}' >data/kernels/libzc/kernel.json
    run -1 "$ZC" jupyter install
    [[ $output == *"/libzc: another kernel has that name; take another by --name" ]]
    run -1 "$ZC" jupyter remove
    grep -q mine data/kernels/libzc/kernel.json
    run -1 "$ZC" jupyter install --name 'a b'
    [[ $output == *"'a b' is no name of a kernel"* ]]
    run -1 "$ZC" jupyter install --name x -p evryday
    [[ $output == *"evryday: there is no such policy"* && ! -e data/kernels/x ]]
    run -1 "$ZC" jupyter install --name x --python /none/python
    [[ $output == *"/none/python: there is no such Python"* ]]
    PYTHONPATH='' run -1 "$ZC" jupyter install --name x --python /usr/bin/python3
    [[ $output == *"/usr/bin/python3 has no ipykernel: "*"pip install ipykernel"* ]]
    mkdir -p folder/libzc # No module of that name.
    PYTHONPATH=$PWD/folder:$PYTHONPATH run -0 "$ZC" jupyter install --prefix "$PWD/there"
    grep -q '"PYTHONPATH"' there/share/jupyter/kernels/libzc/kernel.json
}
