/* What the assembly stubs and their C halves share. */
#ifndef ZC_CATCH_LOADER_H
#define ZC_CATCH_LOADER_H

/* Returned in two registers: where to continue, or the answer itself when `answered` is not NULL.
 */
struct zc_choice {
    void *address;
    void *answered;
};

struct zc_choice zc_dlsym_choose(void *handle, const char *name);
struct zc_choice zc_dlopen_choose(const char *file, int mode);
struct zc_choice zc_dlmopen_choose(long namespace_id, const char *file, int mode);

#endif
