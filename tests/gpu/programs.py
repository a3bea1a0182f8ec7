# SPDX-License-Identifier: MIT
"""The programs that the check runs: the tables of names, commands and settings."""

import glob
import os
import re

BUILDS = ("static", "shared", "ptds")
PLACES = ("none", "device", "mapped", "managed", "vmm", "grow", "pinned", "shared")
QUICK_PLACES = ("none", "mapped", "vmm", "shared")

DEVICE_REQUESTS = "cudaMalloc, cudaMallocPitch"
HOST_REQUESTS = "malloc, calloc, realloc, aligned_alloc, posix_memalign, memalign, valloc"
SHARED_HOST = f"[rule host]\napi = {HOST_REQUESTS}\nsize = 64K..\nplace = shared\n"
SHARED_DEVICE = f"[rule device]\napi = {DEVICE_REQUESTS}\nplace = shared\n"
# The policies that are more than their place for all device requests.
POLICIES = {
    "grow": f"[rule all]\napi = {DEVICE_REQUESTS}\nplace = vmm\ngrow = yes\n",
    "pinned": f"[rule libc]\napi = {HOST_REQUESTS}\nsize = 64K..\nplace = pinned\n"
              "[rule cuda]\napi = cudaHostAlloc, cudaMallocHost\nplace = pinned\n",
    "shared": SHARED_HOST + SHARED_DEVICE,
}


def policy(place):
    """The text of the policy that a row's name stands for."""
    return POLICIES.get(place, f"[rule all]\napi = {DEVICE_REQUESTS}\nplace = {place}\n")



def rules(place):
    """The names of the rules of that policy."""
    return re.findall(r"^\[rule (\w+)\]", policy(place), re.MULTILINE)


# Arguments of programs of kernels/ whose requests are of up to 1 MiB without, which `vmm` passes
# over; those written by hand, NAME_*, take the same.
ARGUMENTS = {
    "bfs": "19 2", "cosine": "6000 40 48", "gather": "65536 1024 2", "graph": "524288",
    "matmul": "544", "overlap": "2097152 4", "pagerank": "19 2", "peers": "524288",
    "pipeline": "4194304 4 8", "pitched": "333 800 2", "rowsum_zerocopy": "524288 64 60",
    "stencil": "1024 512", "storm": "10000 20000", "sweep": "6 2", "transfer": "2097152",
}
# Programs of kernels/ that also run with arguments for more bytes: name, arguments, what it is.
LARGE = (("overlap_pinned", "33554432 4", "128 MiB"), ("scale_pinned", "16777216 3", "64 MiB"))

# Applications: name, script, further environment, whether a quick check runs it.
APPS = (
    ("torch_train", "torch_train", {}, True),
    ("torch_train, expandable segments", "torch_train",
     {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, False),
    ("torch_train, cudaMallocAsync", "torch_train",
     {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, False),
    ("torch_graph", "torch_graph", {}, True),
    ("cupy_ops", "cupy_ops", {}, True),
    ("jax_ops", "jax_ops", {}, True),
    ("jax_ops, platform allocator", "jax_ops", {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}, False),
    ("numba_ops", "numba_ops", {}, True),
)
# People's programs, which `make bench-apps` measures: script, and arguments that make it short.
PACKAGES = (
    ("offload", "--layers 2 --hidden 2048 --steps 2"),
    ("larger_model", "--layers 2 --hidden 2048 --tokens 4 --prompt 32"),
    ("diffusion", "--drawings 1 --steps 2"),
    ("kv_cache", "--layers 4 --hidden 1024 --batch 4 --prompt 1024 --tokens 4 --steps 1"),
    ("checkpoint", "--mib 256 --steps 2"),
    ("saved_tensors", "--mib 16 --layers 4 --steps 2"),
    ("load_safetensors", "--mib 256 --steps 2"),
    ("load_mapped", "--mib 256 --steps 2"),
    ("loader", "--batches 8"),
    ("neighbours", "--mib 256 --steps 2"),
    ("embedding", "--mib 256"),
    ("resnet", "--images 64 --batch 32 --steps 1"),
    ("growing_cat", "--mib 256 --steps 1"),
    ("boosted", "--rows 200000 --rounds 4 --steps 2"),
    ("llama_layers", "--layers 4 --width 1024 --gpu-layers 2 --tokens 128 --steps 2"),
    ("cupy_pipeline", "--mib 64 --chunks 2"),
    ("jax_pipeline", "--mib 64 --steps 2"),
    ("numba_pipeline", "--mib 64 --steps 2"),
    ("ranks", "--mib 64 --steps 2"),
    ("nccl_buffers", "--mib 64 --steps 1"),
    ("group", "--blocks 32 --mib 16 --limit 8192"),
)
# Further environment of some. Without it kv_cache's results differ from run to run, also bare:
# the offloaded cache of transformers lets one stream reuse memory that another still reads.
PACKAGES_ENVIRONMENT = {"kv_cache": {"CUDA_LAUNCH_BLOCKING": "1"}}
# Tools: name, executable, what it says where it worked and found nothing wrong, and the words of
# the shell that run "$@" in it.  The place's LD_PRELOAD is also in $preload.
SANITIZE = 'compute-sanitizer --tool "$0" "$@"'
TOOLS = (
    ("memcheck", "compute-sanitizer", "^=+ ERROR SUMMARY: 0 errors$", SANITIZE),
    ("initcheck", "compute-sanitizer", "^=+ ERROR SUMMARY: 0 errors$", SANITIZE),
    ("synccheck", "compute-sanitizer", "^=+ ERROR SUMMARY: 0 errors$", SANITIZE),
    ("racecheck", "compute-sanitizer", "^=+ RACECHECK SUMMARY: 0 hazards .*$", SANITIZE),
    ("ncu", "ncu", r"Memory Throughput(?= +% +[0-9])",
     'ncu --section SpeedOfLight --launch-count 1 --clock-control none "$@"'),
    ("cuda-gdb", "cuda-gdb", r"(?<=\) )exited normally(?=\])",
     'unset LD_PRELOAD; cuda-gdb -batch -ex "set startup-with-shell off" '
     '-ex "set environment LD_PRELOAD $preload" -ex run --args "$@"'),
    ("MPS", "nvidia-cuda-mps-control", "^MPS servers: 1$", """unset LD_PRELOAD
export CUDA_MPS_PIPE_DIRECTORY=$PWD/mps CUDA_MPS_LOG_DIRECTORY=$PWD/mps
mkdir mps && nvidia-cuda-mps-control -d || exit
env LD_PRELOAD="$preload" "$@"
status=$?
echo "MPS servers: $(echo get_server_list | nvidia-cuda-mps-control | grep -c .)"
echo quit | nvidia-cuda-mps-control
exit $status"""),
)
# Run in them, and small because they make kernels slow: a program of kernels/, arguments.
IN_TOOLS = ("gather", "65536 64")
# Settings that make the libraries choose the same algorithms in every run.
DETERMINISTIC = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "XLA_FLAGS": "--xla_gpu_autotune_level=0",
    "NVIDIA_TF32_OVERRIDE": "0",
    "PYTHONHASHSEED": "0",
}
# Verdicts that samples print, unless their line of samples.tsv names another.
VERDICT = r"(?i)\b(?:test (?:passed|failed)|result\s*=\s*\w+|passed|failed|pass|success\w*)\b"


class Program:
    """One program and how it is run and judged."""

    def __init__(self, section, name, command, verdict, environment=None, folder=None):
        self.section = section                 # "kernels", "apps", "samples" or "tools"
        self.name = name                       # in the results
        self.command = command                 # list of arguments
        self.verdict = verdict                 # output text -> what must be equal to bare's
        self.environment = environment or {}   # settings beside those of the place
        self.folder = folder                   # working directory; None: the run's own


def checksum(text):
    found = re.findall(r'"checksum":"([0-9a-f]+)"', text)
    return found[-1] if found else None


def whole(text):
    return text.strip() or None


def verdict_of(pattern):
    def verdict(text):
        found = [match.group(0) for match in re.finditer(pattern or VERDICT, text, re.MULTILINE)]
        return "; ".join(found) or None
    return verdict


def every(*patterns):
    """A verdict that takes a match of each pattern."""
    verdicts = [verdict_of(pattern) for pattern in patterns]

    def verdict(text):
        found = [one(text) for one in verdicts]
        return "; ".join(found) if all(found) else None
    return verdict


def arguments_of(path):
    """The arguments of a program of kernels/: the table's by its name, without how it was built."""
    name = os.path.basename(path).partition("-")[0]
    return ARGUMENTS.get(name, ARGUMENTS.get(name.rpartition("_")[0], "")).split()


def kernels(build, libraries, quick):
    """The programs of kernels/, in every build that is there, and of one build the large ones."""
    paths = []
    for path in sorted(glob.glob(os.path.join(build, "kernels", "*"))):
        kind = path.rpartition("-")[2]
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            if "-" not in os.path.basename(path) or kind in (BUILDS[:1] if quick else BUILDS):
                paths.append(path)
    environment = {"LD_LIBRARY_PATH": libraries}
    found = [Program("kernels", os.path.basename(path), [path, *arguments_of(path)], checksum,
                     environment) for path in paths]
    for name, arguments, what in () if quick else LARGE:
        path = os.path.join(build, "kernels", f"{name}-{BUILDS[0]}")
        if path in paths:
            found.append(Program("kernels", f"{os.path.basename(path)}, {what}",
                                 [path, *arguments.split()], checksum, environment))
    return found


def apps(folder, quick):
    """The Python applications, with settings that make them deterministic."""
    found = [Program("apps", name, ["python3", os.path.join(folder, "apps", script + ".py")], whole,
                     {**DETERMINISTIC, **environment})
             for name, script, environment, in_quick in APPS if in_quick or not quick]
    for script, arguments in () if quick else PACKAGES:
        command = ["python3", os.path.join(folder, "apps", script + ".py"), *arguments.split()]
        environment = {**DETERMINISTIC, **PACKAGES_ENVIRONMENT.get(script, {})}
        found.append(Program("apps", script, command, verdict_of(r"^digest: .*$"), environment))
    return found


def samples(folder, libraries):
    """The CUDA samples that samples.tsv in the given folder names; none without a folder."""
    found = []
    if not folder:
        return found
    with open(os.path.join(folder, "samples.tsv"), encoding="utf-8") as lines:
        for line in lines:
            if not line.strip() or line.startswith("#"):
                continue
            name, arguments, pattern = (line.rstrip("\n").split("\t") + ["", ""])[:3]
            home = os.path.join(folder, name)
            found.append(Program("samples", name, ["./" + name, *arguments.split()],
                                 verdict_of(pattern), {"LD_LIBRARY_PATH": libraries}, home))
    return found


def tools(folder, build, libraries):
    """PyTorch's profiler, and a program of kernels/ inside of each tool."""
    found = [Program("tools", "torch_profiler",
                     ["python3", os.path.join(folder, "apps", "profiled.py")],
                     verdict_of(r"^(?:digest|profiled): .*$"), DETERMINISTIC)]
    name, arguments = IN_TOOLS
    paths = [os.path.join(build, "kernels", f"{name}-{kind}") for kind in BUILDS[:2]]
    for path in filter(os.path.exists, paths):
        for tool, executable, said, words in TOOLS:
            script = f"""command -v {executable} >/dev/null ||
    {{ echo "{executable} is not here" >&2; exit 77; }}
preload=$LD_PRELOAD
{words}"""
            found.append(Program("tools", f"{os.path.basename(path)} in {tool}",
                                 ["sh", "-c", script, tool, path, *arguments.split()],
                                 every(r'"checksum":"[0-9a-f]+"', said),
                                 {"LD_LIBRARY_PATH": libraries}))
    return found
