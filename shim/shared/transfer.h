/* SPDX-License-Identifier: MIT */
/* Copies and sets that meet a device block of `shared` or its host block. */
#ifndef ZC_SHARED_TRANSFER_H
#define ZC_SHARED_TRANSFER_H

#include "driver/copy.h"

/*
 * Before anything else looks at the blocks of a transfer: makes a device block one with the host
 * block that is copied into it, or gives it memory of its own, and makes a host block ready to be
 * written.  Returns ZC_FACT_PAIR for a copy between both sides of a pair; ZC_FACT_FAILED where
 * c->result is the program's answer.
 */
uint32_t zc_shared_facts(struct zc_copy *c);

/* Carries out a copy between both sides: it is answered, by c->result. */
void zc_shared_copy(struct zc_copy *c);

/* True for a side that zc_shared_copy() has to see. */
bool zc_shared_meets(const struct zc_operand *box);

#endif
