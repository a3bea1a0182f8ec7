# SPDX-License-Identifier: MIT
"""Types command lines into a shell on a terminal, <TAB> for the key, and prints what came of each.

  python3 shell_tab.py zsh|bash FOLDER LINE...   FOLDER holds the completion, _zc or zc.bash; every
                                                 line calls zc
"""

import os
import pty
import re
import select
import sys
import time

LIMIT_SECONDS = 60

# The shell's output is told from the echo of what is typed by quotes within the words.
CALLED = "zc() {{ printf '%s ' 'GO''T' \"$@\" 'EN''D'; echo; }}; echo 'REA''DY'\n"
SHELLS = {
    "zsh": (["zsh", "-f", "-i"], "PS1= RPS1=; fpath=({} $fpath); autoload -Uz compinit; "
            "compinit -D -u; " + CALLED),
    "bash": (["bash", "--norc", "--noprofile", "-i"],
             "PS1=; bind 'set bell-style none'; source {}/zc.bash; " + CALLED),
}


def main() -> None:
    command, prepare = SHELLS[sys.argv[1]]
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="dumb", COLUMNS="200")
        os.execvp(command[0], command)
    os.write(terminal, prepare.format(sys.argv[2]).encode())
    until(terminal, b"READY")
    for line in sys.argv[3:]:
        os.write(terminal, line.replace("<TAB>", "\t").encode() + b"\n")
        shown = until(terminal, b"END").decode()
        got = re.search(r"GOT (.*) END", shown)
        print(got[1] if got else shown)
    os.close(terminal)
    os.waitpid(pid, 0)


def until(terminal: int, mark: bytes) -> bytes:
    """The terminal's output, up to a word."""
    got = b""
    end = time.monotonic() + LIMIT_SECONDS
    while mark not in got and time.monotonic() < end:
        if select.select([terminal], [], [], 1)[0]:
            got += os.read(terminal, 1 << 16)
    return got


main()
