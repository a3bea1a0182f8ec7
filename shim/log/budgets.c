/* SPDX-License-Identifier: MIT */
/* The part of the summary about limits. */
#include "log/budgets.h"

struct zc_log_budgets zc_log_budgets;

static void budgets_row(struct zc_line *line, const struct zc_log_budget *b)
{
    zc_line_open(line, NULL, '{');
    zc_line_str(line, "limit", b->limit);
    zc_line_i64(line, "device", b->device);
    zc_line_u64(line, "limit_bytes", b->limit_bytes);
    zc_line_u64(line, "bytes", b->bytes);
    zc_line_u64(line, "peak_bytes", b->peak_bytes);
    zc_line_u64(line, "ranks", b->ranks);
    zc_line_u64(line, "refused", b->refused);
    zc_line_close(line, '}');
}

void zc_line_budgets(struct zc_line *line)
{
    if (zc_log_budgets.rows == 0)
        return;
    zc_line_open(line, "budgets", '{');
    zc_line_open(line, "limits", '[');
    for (unsigned i = 0; i < zc_log_budgets.rows; i++)
        budgets_row(line, &zc_log_budgets.row[i]);
    zc_line_close(line, ']');
    zc_line_close(line, '}');
}
