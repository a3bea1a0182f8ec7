# SPDX-License-Identifier: MIT
"""The abilities of this machine for each place.

probe and measure run in a child process, because a broken driver must not end zc: they ask the
driver through `driver`, and print facts as they find them.  host reads what the kernel says; places
judges.
"""
