/* SPDX-License-Identifier: MIT */
/*
 * Finding the policy file and opening it safely. The current folder may be anybody's: what lies
 * there is used only if it can be nobody else's.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#define LINKS_MAX 40 /* As the kernel's own limit, path_resolution(7). */

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
#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

/* A target that does not begin at the root begins in the link's folder. */
static bool append(char path[PATH_MAX], const char *target, size_t n)
{
    char *name = strrchr(path, '/');
    size_t kept = target[0] != '/' && name != NULL ? (size_t)(name + 1 - path) : 0;

    if (kept + n >= PATH_MAX)
        return false;
    memcpy(path + kept, target, n);
    path[kept + n] = '\0';
    return true;
}

/*
 * Replaces the path of a symbolic link by the path that the link holds. In a folder that others may
 * write to, a link of theirs could lead to any file whose owner is trusted. What is read is the
 * link that was examined, whatever has its name by now. Returns what is wrong, or NULL.
 */
static const char *follow(char path[PATH_MAX])
{
    char target[PATH_MAX];
    struct stat st;
    ssize_t n = -1;
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return error_text(errno);
    bool examined = fstat(fd, &st) == 0;
    if (examined && S_ISLNK(st.st_mode))
        n = readlinkat(fd, "", target, sizeof target);
    close(fd);
    if (!examined || (n < 0 && S_ISLNK(st.st_mode)))
        return "cannot be examined";
    if (n < 0)
        return error_text(ELOOP); /* In the folders of the path, or it was a link a moment ago. */
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return "a symbolic link of another user leads there; ZC_POLICY may name it all the same";
    return append(path, target, (size_t)n) ? NULL : error_text(ENAMETOOLONG);
}

/* As open(2), but links must be this user's or root's, and the error is returned negative. */
static int open_ours(const char *usual, const char **why)
{
    char path[PATH_MAX];

    copy(path, sizeof path, usual);
    for (int links = 0;; links++) {
        int fd = open(path, OPEN_FLAGS | O_NOFOLLOW), error = errno;

        if (fd >= 0)
            return fd;
        *why = error_text(error);
        if (error != ELOOP || links == LINKS_MAX)
            return -error;
        *why = follow(path);
        if (*why != NULL)
            return -EACCES;
    }
}

static int open_any(const char *path, const char **why)
{
    int fd = open(path, OPEN_FLAGS), error = errno;

    if (fd < 0)
        *why = error_text(error);
    return fd < 0 ? -error : fd;
}

static enum zc_policy_find_result open_one(const char *path, bool must_be_ours, int *fd_out,
                                           const char **why)
{
    int fd = must_be_ours ? open_ours(path, why) : open_any(path, why);

    if (fd < 0)
        return fd == -ENOENT || fd == -ENOTDIR ? ZC_POLICY_NONE : ZC_POLICY_REFUSED;
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
        if (result == ZC_POLICY_NONE && (path[0] == '@' || !strpbrk(path, "./")))
            why = "there is no such file; `zc presets NAME >my.conf` writes a preset into one";
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

enum zc_policy_find_result zc_policy_open_own(const char *path, int *fd_out, char *why_out,
                                              size_t why_cap)
{
    const char *why = NULL;
    int saved = errno;
    enum zc_policy_find_result result = open_one(path, true, fd_out, &why);

    copy(why_out, why_cap, result == ZC_POLICY_REFUSED ? why : "");
    errno = saved;
    return result;
}
