/* SPDX-License-Identifier: MIT */
/* Shared by the log's tests: an empty folder for each test, reading files, and judging JSON. */
#ifndef ZC_LOG_TEST_H
#define ZC_LOG_TEST_H

#include "child_test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/message.h"
#include "base/own.h"
#include "ledger/counters.h"
#include "log/lines.h"
#include "log/log.h"

static char folder[] = "/tmp/zc-log-XXXXXX";

/* Every test starts without a log in an empty current folder, with a silent stderr. */
static inline int new_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/zc-log-XXXXXX");
    zc_log_reset();
    zc_own_forget();
    zc_message_set_sink(zc_log_warn);
    zc_message_reset();
    return mkdtemp(folder) != NULL && chdir(folder) == 0 ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return chdir("/") == 0 ? system(command) : -1;
}

/* A file's text, terminated, in memory that the next call overwrites; fails where there is none. */
static inline char *text_of(const char *name)
{
    static char *text;
    struct stat s;
    int fd = open(name, O_RDONLY);

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &s), 0);
    free(text);
    text = calloc(1, (size_t)s.st_size + 1);
    assert_int_equal(read(fd, text, (size_t)s.st_size), s.st_size);
    close(fd);
    return text;
}

static inline const char *json_value(const char *p);

/* Skips a list of members or elements up to the closing bracket; NULL where it is not JSON. */
static inline const char *json_list(const char *p, char closing)
{
    if (*p == closing)
        return p + 1;
    for (;;) {
        if (closing == '}') {
            if (*p != '"' || (p = json_value(p)) == NULL || *p++ != ':')
                return NULL;
        }
        p = json_value(p);
        if (p == NULL)
            return NULL;
        if (*p == closing)
            return p + 1;
        if (*p++ != ',')
            return NULL;
    }
}

static inline const char *json_string(const char *p)
{
    for (; *p != '"'; p++) {
        if ((unsigned char)*p < 0x20)
            return NULL;
        if (*p == '\\' && strchr("\"\\/bfnrtu", *++p) == NULL)
            return NULL;
    }
    return p + 1;
}

/* Skips one value as the log writes it, without blanks; NULL where it is not JSON. */
static inline const char *json_value(const char *p)
{
    static const char *const words[] = {"true", "false", "null"};
    size_t digits;

    if (*p == '{' || *p == '[')
        return json_list(p + 1, *p == '{' ? '}' : ']');
    if (*p == '"')
        return json_string(p + 1);
    for (size_t i = 0; i < 3; i++)
        if (strncmp(p, words[i], strlen(words[i])) == 0)
            return p + strlen(words[i]);
    p += *p == '-';
    digits = strspn(p, "0123456789");
    return digits > 0 ? p + digits : NULL;
}

/* The number of lines; fails unless every one is a whole JSON object. */
static inline int json_lines(const char *text)
{
    int n = 0;

    for (; *text != 0; n++) {
        const char *end = *text == '{' ? json_value(text) : NULL;

        if (end == NULL || *end != '\n')
            fail_msg("not a JSON line: %.200s", text);
        text = end + 1;
    }
    return n;
}

static inline void assert_holds(const char *text, const char *part)
{
    assert_non_null(text);
    if (strstr(text, part) == NULL)
        fail_msg("no %s in %s", part, text);
}

static inline bool exists(const char *name)
{
    struct stat s;

    return lstat(name, &s) == 0;
}

#define FOLDER_TEST(f) cmocka_unit_test_setup_teardown(f, new_folder, remove_folder)

#endif
