/* SPDX-License-Identifier: MIT */
/*
 * Python functions of call paths, where ZC_PYTHON asks for them.
 *
 * A call path that the stack tells ends in the interpreter's C functions: CPython from 3.11 on runs
 * all its functions in one C frame.  So the interpreter's own frames of the calling thread are
 * read.  The thread waits in a call of libzc's, so nobody changes or frees its frames meanwhile,
 * also where it has given up the GIL, as ctypes, NumPy and PyTorch do around their calls.  Nothing
 * is allocated, counted or locked in the interpreter.
 */
#pragma once

#include <stdint.h>

#define ZC_PYTHON_FRAMES 16 /* Functions kept, innermost first. */

struct zc_python_frame {
    uint32_t line;     /* 0 where it has none. */
    char function[60]; /* Qualified name; the first bytes of it, in UTF-8. */
    char file[128];    /* The last bytes of its path, in UTF-8. */
};

struct zc_python_path {
    uint32_t native; /* Id of the same call path without Python functions. */
    uint32_t before; /* Frames of that before the interpreter's. */
    uint32_t n;      /* Frames used. */
    struct zc_python_frame frame[ZC_PYTHON_FRAMES];
};

/* Whether there is an interpreter in this process, and its frames can be read. */
enum zc_python {
    ZC_PYTHON_OFF,     /* Nobody has asked. */
    ZC_PYTHON_NONE,    /* None that exports its functions. */
    ZC_PYTHON_UNKNOWN, /* Of a version or build whose frames libzc can't read. */
    ZC_PYTHON_FOUND,   /* Not read yet. */
    ZC_PYTHON_READ,
};

extern uint32_t zc_python_state; /* Atomic. */

static inline enum zc_python zc_python(void)
{
    return (enum zc_python)__atomic_load_n(&zc_python_state, __ATOMIC_RELAXED);
}

/* Looks for the interpreter, by dlsym(3). */
void zc_python_find(void *(*look_up)(void *handle, const char *name));

/* Its version as in PY_VERSION_HEX, 0 if there is none, and an address in its code. */
uint64_t zc_python_version(void);
uint64_t zc_python_address(void);

/* zc_python_key() where somebody has asked. */
uint64_t zc_python_walk(void);

/* A hash of the functions and instructions that the calling thread is in; 0 if it is in none. */
static inline uint64_t zc_python_key(void)
{
    return __builtin_expect(zc_python() >= ZC_PYTHON_FOUND, 0) ? zc_python_walk() : 0;
}

/* The calling thread's functions, in memory of the arena; NULL if it is in none. */
struct zc_python_path *zc_python_read(void);
