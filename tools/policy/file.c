/* SPDX-License-Identifier: MIT */
/* Reading a policy file, and telling its faults. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "tools/policy/policy_tool.h"

/* For the reports of one parse. */
struct told {
    struct file *file;
    enum telling telling;
};

static void report(void *ctx, enum zc_policy_severity severity, unsigned line, unsigned column,
                   const char *message)
{
    const struct told *told = ctx;
    bool warning = severity == ZC_SEVERITY_WARNING;

    told->file->warnings += warning;
    if (told->telling == TELL)
        printf("%s:%u:%u: %s%s\n", told->file->path, line, column, warning ? "warning: " : "",
               message);
}

/* All bytes of a descriptor, at most one more than a policy may have. */
static bool read_text(struct file *file, int fd)
{
    file->text = malloc(ZC_POLICY_MAX_BYTES + 1);
    file->size = 0;
    while (file->text != NULL && file->size <= ZC_POLICY_MAX_BYTES) {
        ssize_t got = read(fd, file->text + file->size, ZC_POLICY_MAX_BYTES + 1 - file->size);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return false;
        if (got == 0)
            break;
        file->size += (size_t)got;
    }
    return file->text != NULL;
}

int tool_path(int argc, char **argv)
{
    char path[4096], why[256];
    int fd = -1;
    enum zc_policy_find_result found = zc_policy_open(argc > 0 ? argv[0] : getenv("ZC_POLICY"), &fd,
                                                      path, sizeof path, why, sizeof why);

    if (found == ZC_POLICY_FOUND) {
        close(fd);
        puts(path);
    } else if (found == ZC_POLICY_REFUSED) {
        fprintf(stderr, "zc: %s: %s\n", path, why);
    }
    return found == ZC_POLICY_FOUND ? TOOL_OK : TOOL_FAULTY;
}

/* As zc_policy_open(); the path, which is for messages alone, ends no line and reaches no terminal,
 * as in those of the library. */
static enum zc_policy_find_result open_file(struct file *file, const char *path, int *fd,
                                            char why[256])
{
    enum zc_policy_find_result found =
        zc_policy_open(path, fd, file->path, sizeof file->path, why, 256);
    struct zc_text name = zc_text_on(file->path, sizeof file->path);

    name.len = strlen(file->path);
    zc_text_disarm(&name, 0);
    return found;
}

bool file_read(struct file *file, const char *path, enum telling telling)
{
    struct told told = {file, telling};
    struct zc_policy_memory memory;
    char why[256];
    int fd = -1;

    file->path[0] = '\0';
    file->warnings = 0;
    if (path == NULL || path[0] == '\0')
        path = getenv("ZC_POLICY");
    switch (open_file(file, path, &fd, why)) {
    case ZC_POLICY_NONE:
        fputs(
            "zc: there is no policy: neither ZC_POLICY nor ./policy.conf nor " ZC_POLICY_SYSTEM_PATH
            "; `zc init ./app` writes one\n",
            stderr);
        return false;
    case ZC_POLICY_REFUSED:
        fprintf(stderr, "zc: %s: %s\n", file->path, why);
        return false;
    case ZC_POLICY_FOUND:
        break;
    }
    if (!read_text(file, fd)) {
        fprintf(stderr, "zc: %s: %s\n", file->path, strerror(errno));
        close(fd);
        return false;
    }
    close(fd);
    memory = (struct zc_policy_memory){.size = zc_policy_memory_for(file->size)};
    memory.base = malloc(memory.size);
    if (memory.base == NULL) {
        fprintf(stderr, "zc: %s: %s\n", file->path, strerror(errno));
        return false;
    }
    file->errors =
        zc_policy_parse(file->path, file->text, file->size, &memory, report, &told, &file->policy);
    return true;
}
