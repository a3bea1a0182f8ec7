/* SPDX-License-Identifier: MIT */
/* Which exported symbol answers a request for a name at a version. */
#ifndef SIM_PROCADDRESS_H
#define SIM_PROCADDRESS_H

/* One ABI version of an entry point. */
struct sim_version {
    const char *base;   /* name that programs ask for */
    int version;        /* first CUDA version of this ABI */
    const char *symbol; /* exported symbol */
};

/* All names, generated, with the versions of a name in rising order; ends with a NULL base. */
extern const struct sim_version sim_versions[];

#endif
