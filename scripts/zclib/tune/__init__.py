# SPDX-License-Identifier: MIT
"""Finding the best policy of a program: zc tune.

    traffic     what the program copies, by the call paths of both ends
    candidates  rules that may gain, with the gain that is predicted
    metrics     what is to become less
    ranks       several candidates in one job, each on some of its ranks
    halves      candidates on every other block, within one run
    verify      whether a run was right
    search      which of the candidates gain, by races
    write       the policy that comes of it
"""
