#!/bin/bash
# SPDX-License-Identifier: MIT
# A newcomer's first session, from a bare system to the first report: docs/install.md is made of it.
#
#   first_value.sh PACKAGES     the folder of the wheel and the Debian package
#
# Makes a bare Debian root, and one with Python's pip and venv alone, by debootstrap (root, and the
# network); installs each package there by its own way; runs a sample program on the simulated GPU,
# which stands for the machine's driver; prints every command with what it printed and the seconds
# it took.  With ZC_SCREENSHOTS, a folder, Chromium draws the page there.
# ZC_BUILD is the build folder (build); TMPDIR has room for 600 MB.
set -euo pipefail

BUILD=${ZC_BUILD:-build}
PACKAGES=${1?which folder has the packages?}
FOLDER=$(mktemp -d)
trap 'rm -rf "$FOLDER"' EXIT

# A program that copies while somebody watches, until its input ends.
write_copier() {
    bash -c 'BATS_TEST_TMPDIR=$1; load() { :; }; . tests/tools/programs.bash; write_copier' - "$1"
}

# make_root NAME PACKAGE,...
make_root() {
    local root=$FOLDER/$1
    debootstrap --variant=minbase --include="$2" bookworm "$root" >/dev/null
    mkdir -p "$root/driver" "$root/work"
    cp -L "$BUILD"/sim/libcuda.so.1 "$BUILD"/sim/libcudart.so.13 "$BUILD/sim/kernels/gather.so" \
        "$root/driver"
    cp "$BUILD/kernels/gather-shared" "$root/work/app"
    write_copier "$root/work"
    cp "$PACKAGES"/libzc[-_]* "$root/work"
}

# Runs lines of the input in a root, as a terminal shows them.
#   session NAME <COMMANDS
session() {
    # shellcheck disable=SC2016  # The shell inside expands it.
    unshare --mount --pid --fork --mount-proc="$FOLDER/$1/proc" chroot "$FOLDER/$1" env -i \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb COLUMNS=100 LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive LD_LIBRARY_PATH=/driver SIM_KERNELS=/driver/gather.so \
        bash -c 'cd /work
while IFS= read -r line; do
    echo "\$ $line"
    begun=$EPOCHREALTIME
    eval "$line" </dev/null 2>&1 || echo "exit status $?"
    awk -v a="$begun" -v b="$EPOCHREALTIME" "BEGIN { printf \"# %.1f s\n\", b - a }"
done'
}

WATCH='mkfifo lines; sleep 4 >lines & zc run -q python3 copier.py <lines >/dev/null & sleep 2; '
WATCH+='zc top -n 1; wait'
COMMANDS='zc run ./app 8192
zc run -q -o logs ./app 8192 && zc report --html page.html logs
'$WATCH

make_root debian python3
echo "== Debian, apt"
session debian <<<"apt-get install -qqy ./libzc_*.deb 2>&1 | tail -n 1
$COMMANDS"
make_root python python3,python3-pip,python3-venv
echo "== Python, pip"
session python <<<"python3 -m venv env && . env/bin/activate
pip install -q --no-index libzc-*.whl
LD_LIBRARY_PATH= zc demo
$COMMANDS"

if [[ -n ${ZC_SCREENSHOTS:-} ]]; then
    cp "$FOLDER/debian/work/page.html" "$ZC_SCREENSHOTS/page.html"
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1000,760 \
        --screenshot="$ZC_SCREENSHOTS/install-page.png" "file://$ZC_SCREENSHOTS/page.html" \
        >/dev/null 2>&1
    rm "$ZC_SCREENSHOTS/page.html"
fi
