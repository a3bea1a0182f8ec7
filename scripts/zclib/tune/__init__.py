# SPDX-License-Identifier: MIT
"""Finding the best policy of a program: zc tune.

    traffic     what the program copies, by the call paths of both ends
    candidates  rules that may gain, with the gain that is predicted
    metrics     what is to become less
    verify      whether a run was right
    search      which of the candidates gain, by races
    write       the policy that comes of it
"""
