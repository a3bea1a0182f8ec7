#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds libzc, the simulated GPU and test programs for aarch64 and runs end-to-end tests on them
# under qemu's emulation of user programs.  Exit status 77 where the compiler or qemu is missing.
#
#   tests/aarch64/run.sh [FILE.bats...]    by default those that the emulator runs in few minutes
#
# CROSS    prefix of the cross compiler (aarch64-linux-gnu-)
# SYSROOT  where the libc of aarch64 lies (/usr/aarch64-linux-gnu)
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cross=${CROSS:-aarch64-linux-gnu-}
sysroot=${SYSROOT:-/usr/aarch64-linux-gnu}
for tool in "${cross}gcc" "${cross}g++" qemu-aarch64; do
    command -v "$tool" >/dev/null || {
        echo "tests/aarch64: skipped: no $tool (Debian packages g++-aarch64-linux-gnu, qemu-user)"
        exit 77
    }
done
built=build/aarch64 emulated=build/aarch64/emulated programs=tests/preload/programs

make --no-print-directory -j"$(nproc)" B=$built CC="${cross}gcc" CXX="${cross}g++" \
    all sim preload-programs
mkdir -p "$emulated/$programs"
gcc -O2 -static -D_GNU_SOURCE -Wall -Wextra -Werror -DSYSROOT="\"$sysroot\"" \
    -o "$emulated/emulated" tests/aarch64/emulated.c
ln -sfn "$PWD/$built/libzc.so" "$emulated/libzc.so"
ln -sfn "$PWD/$built/sim" "$emulated/sim"
for program in "$built/$programs"/*; do
    name=${program##*/}
    case $name in
    *.d) ;;
    *.so) ln -sfn "$PWD/$program" "$emulated/$programs/$name" ;;
    *)
        ln -sfn "$PWD/$program" "$emulated/$programs/$name.aarch64"
        ln -f "$emulated/emulated" "$emulated/$programs/$name"
        ;;
    esac
done
ln -sfn "$PWD/$built/command" "$emulated/command"
# Programs that a test compiles must be for the other processor, too, and be emulated.
cat >"$emulated/cc" <<CC
#!/bin/bash
"${cross}gcc" "\$@" || exit
while ((\$#)) && [[ \$1 != -o ]]; do shift; done
[[ -z \${2:-} || \$2 == *.so ]] || { mv "\$2" "\$2.aarch64" && cp "$PWD/$emulated/emulated" "\$2"; }
CC
chmod +x "$emulated/cc"
export CC=$PWD/$emulated/cc
(($#)) || set -- tests/preload/{routes,capture}.bats
# The emulator notes each page that is reserved, in 5 GiB for what the simulated GPU and a quarter
# of this limit take; without a limit libzc reserves 4 TiB.
ulimit -v 1400000000
export ZC_JOBS=${ZC_JOBS:-1}
ZC_BUILD=$emulated ZC_TIMEOUT=${ZC_TIMEOUT:-600} exec tests/run.sh "$@"
