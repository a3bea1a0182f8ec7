# SPDX-License-Identifier: MIT
"""Reports of `zc report` and `zc diff`.

totals reads logs in one streaming pass, process by process, into sums of bounded size: by flow, by
site, by time, and the top blocks and repeated copies.  findings puts them into words; show, data,
page and trace are the forms of output.
"""
