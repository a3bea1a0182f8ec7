/*
 * Finding the policy file and opening it safely. The current folder may be anybody's: what lies
 * there is used only if it can be nobody else's.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

static void copy(char *out, size_t cap, const char *text)
{
    size_t n = strlen(text);

    if (cap == 0)
        return;
    if (n >= cap)
        n = cap - 1;
    memcpy(out, text, n);
    out[n] = '\0';
}

/* strerror(3) translates, and may allocate for it. */
static const char *error_text(int error)
{
    switch (error) {
    case ENOENT:
        return "there is no such file";
    case ENOTDIR:
        return "a part of the path is not a folder";
    case EACCES:
    case EPERM:
        return "permission denied";
    case ELOOP:
        return "too many symbolic links";
    case ENAMETOOLONG:
        return "the path is too long";
    case EMFILE:
    case ENFILE:
        return "too many open files";
    default:
        return "cannot be opened";
    }
}

/* Why an open file must not be used, or NULL. */
static const char *objection(int fd, bool must_be_ours)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return "cannot be examined";
    if (!S_ISREG(st.st_mode))
        return "not a regular file";
    if (must_be_ours && st.st_uid != 0 && st.st_uid != geteuid())
        return "belongs neither to this user nor to root; ZC_POLICY may name it all the same";
    if (must_be_ours && (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return "others may write to it; take that right away (chmod go-w)";
    if ((size_t)st.st_size > ZC_POLICY_MAX_BYTES)
        return "larger than 1 MiB";
    return NULL;
}

/* O_NONBLOCK: a FIFO or a device in place of the file must not stop the program. */
static enum zc_policy_find_result open_one(const char *path, bool must_be_ours, int *fd_out,
                                           const char **why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0) {
        *why = error_text(errno);
        return errno == ENOENT || errno == ENOTDIR ? ZC_POLICY_NONE : ZC_POLICY_REFUSED;
    }
    *why = objection(fd, must_be_ours);
    if (*why != NULL) {
        close(fd);
        return ZC_POLICY_REFUSED;
    }
    *fd_out = fd;
    return ZC_POLICY_FOUND;
}

enum zc_policy_find_result zc_policy_open(const char *env_path, int *fd_out, char *path_out,
                                          size_t cap, char *why_out, size_t why_cap)
{
    static const char *const usual[] = {"./policy.conf", ZC_POLICY_SYSTEM_PATH};
    bool named = env_path != NULL && env_path[0] != '\0';
    enum zc_policy_find_result result = ZC_POLICY_NONE;
    const char *path = "", *why = NULL;
    int saved = errno;

    if (named && strcmp(env_path, "off") != 0) {
        path = env_path;
        result = open_one(path, false, fd_out, &why);
        /* A file that somebody asked for by name is missed; the usual ones are not. */
        if (result == ZC_POLICY_NONE)
            result = ZC_POLICY_REFUSED;
    }
    for (size_t i = 0; !named && result == ZC_POLICY_NONE && i < 2; i++) {
        path = usual[i];
        result = open_one(path, true, fd_out, &why);
    }
    copy(path_out, cap, result == ZC_POLICY_NONE ? "" : path);
    copy(why_out, why_cap, result == ZC_POLICY_REFUSED ? why : "");
    errno = saved;
    return result;
}
