/* SPDX-License-Identifier: MIT */
/* Lines as a source of shim/log/ writes them, without a log: included before that source. */
#ifndef ZC_LOG_SAID_TEST_H
#define ZC_LOG_SAID_TEST_H

#include "base_test.h"

#include <string.h>

#include "log/line.h"
#include "log/log.h"

static char said[16384]; /* All lines, without their times. */
static bool off;         /* There is no log. */

static bool said_begin(struct zc_line *line, enum zc_log_level least, const char *type)
{
    if (off)
        return false;
    assert_int_equal(least, ZC_LOG_SUMMARY);
    zc_line_begin(line, line->own, sizeof(line->own), type);
    line->text.len = 0;
    zc_text_fmt(&line->text, "{\"type\":\"%s\"", type);
    return true;
}

static void said_write(struct zc_line *line)
{
    zc_line_end(line);
    strcat(said, zc_text_cstr(&line->text));
}

static void says(const char *lines)
{
    assert_string_equal(said, lines);
    said[0] = '\0';
}

#define zc_log_begin said_begin
#define zc_log_write said_write

#endif
