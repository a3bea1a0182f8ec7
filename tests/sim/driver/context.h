/* SPDX-License-Identifier: MIT */
/* The making and ending of contexts. */
#ifndef SIM_CONTEXT_H
#define SIM_CONTEXT_H

#include "driver.h"

/* A live context of a device, with its legacy stream. */
struct sim_context *sim_context_new(int device, unsigned flags, unsigned version);

/* Brings a context (back) to life, empty. */
void sim_context_begin(struct sim_context *ctx, unsigned flags);

/* Waits for its work, then frees its streams, events and memory; its handle stays known as
 * destroyed. */
void sim_context_end(struct sim_context *ctx);

/* One reference more or less to the primary context of a device that exists. */
CUresult sim_primary_retain(int device, struct sim_context **out);
CUresult sim_primary_release(int device);

/* Takes the events of a context from the program. */
void sim_events_context_end(struct sim_context *ctx);

#endif
