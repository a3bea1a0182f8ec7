/* SPDX-License-Identifier: MIT */
/* Small kernel files. */
#include "base/file.h"

#include <string.h>

size_t zc_file_text(const char *path, char *out, size_t cap)
{
    int fd = zc_file_open(path, 0);
    size_t have = 0;
    ssize_t n = fd >= 0;
    for (; n > 0 && have<cap - 1; have += n> 0 ? (size_t)n : 0)
        n = zc_file_read(fd, out + have, cap - 1 - have);
    out[have] = '\0';
    zc_file_close(fd);
    return have;
}

bool zc_number_behind(const char *text, const char *label, uint64_t *out)
{
    const char *p = strstr(text, label);
    if (!p)
        return false;
    for (p += strlen(label); *p == ' '; p++)
        ;
    if (*p < '0' || *p > '9')
        return false;
    for (*out = 0; *p >= '0' && *p <= '9'; p++)
        *out = *out * 10 + (uint64_t)(*p - '0');
    return true;
}

bool zc_file_number(const char *path, const char *label, uint64_t *out)
{
    char text[512];
    return zc_file_text(path, text, sizeof(text)) && zc_number_behind(text, label, out);
}
