# SPDX-License-Identifier: MIT
# Whether a program of random calls saw what it saw bare: awk -v bare=FILE -f same_or_loud.awk FILE
# Exit status 0 if each thread's lines are those in `bare`, or a message about a rule stands between
# the first one that is not and the line of its thread before it.

BEGIN {
    while ((getline line < bare) > 0) {
        split(line, word)
        thread = word[1]
        want[thread, ++count[thread]] = line
    }
}

/^libzc: .*more of this kind are not printed/ { exit } # What is refused from here on is not said.
/^libzc: do not trust/ { next } # At exit, when each thread has ended.
/^libzc: / { messages += /rule / }
/^libzc: a kernel failed with / { exit } # Said once, and from here on each thread's calls fail.
/^libzc: / { next }
!($1 in count) { exit } # A failed check, which ends the program.
differs[$1] { next }
want[$1, ++at[$1]] != $0 { differs[$1] = 1; wrong = wrong || heard[$1] == messages }
{ heard[$1] = messages }

END {
    loud = /more of this kind are not printed/
    for (thread in count) {
        ends = ends || (!differs[thread] && at[thread] < count[thread])
        loud = loud || heard[thread] != messages
    }
    exit wrong || (ends && !loud)
}
