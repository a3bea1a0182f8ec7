/* SPDX-License-Identifier: MIT */
/* Machines whose GPUs reach all host memory through the CPU's page table, by HMM (Linux and the
 * driver) or by ATS (the hardware), and machines that are not what their documentation says. */
#ifndef SIM_HMM_H
#define SIM_HMM_H

#include "call.h"

/* Device mappings switch ATS off for all of so many bytes (uvm_mmu.h of the kernel's driver). */
#define SIM_ATS_GRANULE ((size_t)512 << 20)

/* Faults of a machine: words of SIM_WRONG (sim.h). */
enum sim_wrong { SIM_PARTED, SIM_UPGRADE, SIM_SERVED, SIM_FLAG, SIM_REFUSED, SIM_WRONGS };

bool sim_wrong(enum sim_wrong what);

/* Called by cuInit with sim_lock held. Reads SIM_HMM, SIM_ATS and SIM_WRONG, and initialises the
 * kernel's driver, which may be told to leave HMM off. */
void sim_hmm_start(void);

/* Whether such a machine has another value of a device attribute than others; *value then. */
bool sim_hmm_attribute(int attribute, int *value);

/* Whether kernels and copies of a device reach memory that nobody gave to the driver. */
bool sim_reaches_all(int device);

/* Their address of such memory, by the CPU's page table and with its rights; NULL where the GPU
 * looks into its own table instead (a granule of ATS in which it has mappings). */
char *sim_system_view(CUdeviceptr va, int device);

/* The address at which the GPU finds what it should find at `page`: the same but on wrong machines.
 */
char *sim_wrong_view(char *page);

/* The CPU's pages at the address of a mapping, which a wrong machine takes for the mapping's; else
 * NULL. */
char *sim_wrong_mapping(CUdeviceptr va);

#endif
