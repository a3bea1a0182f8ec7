/* The errors that libzc tells people about, in words. */
#include "base/text.h"

#include <errno.h>

const char *zc_error_text(int error)
{
    switch (error) {
    case EACCES:
        return "permission denied";
    case EBADF:
        return "bad file descriptor";
    case EDQUOT:
        return "disk quota exceeded";
    case EEXIST:
        return "file exists";
    case EFBIG:
        return "file size limit reached";
    case EINVAL:
        return "invalid argument";
    case EIO:
        return "input/output error";
    case EISDIR:
        return "is a directory";
    case ELOOP:
        return "is a symbolic link";
    case EMFILE:
        return "too many open files in this process";
    case ENAMETOOLONG:
        return "file name too long";
    case ENFILE:
        return "too many open files in the system";
    case ENODEV:
        return "no such device";
    case ENOENT:
        return "no such file or directory";
    case ENOMEM:
        return "out of memory";
    case ENOSPC:
        return "no space left on device";
    case ENOTDIR:
        return "not a directory";
    case EPERM:
        return "operation not permitted";
    case EROFS:
        return "read-only file system";
    default:
        return NULL;
    }
}
