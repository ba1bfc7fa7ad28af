/* Workers as processes of their own, for transports that have such: each function fills a slot of the table. */
#ifndef PENSTOCK_COMM_TRANSPORTS_BETWEEN_PROCESSES_H
#define PENSTOCK_COMM_TRANSPORTS_BETWEEN_PROCESSES_H

#include "comm/transport.h"

/* The messages of the class's processes carry the blocks. */
enum ps_status between_processes_create(const struct transport_class *class, const struct transport_options *options,
                                        struct transport **transport, struct ps_error *error);
void between_processes_destroy(struct transport *transport);
void between_processes_post(struct transport *transport, int instance, enum block_kind kind, int slot, int other, float **block,
                            const struct moment *when);
void between_processes_reduce(struct transport *transport, int instance, const struct transport_share *share);
bool between_processes_settled(struct transport *transport, int instance, enum block_kind kind, int slot);
struct moment between_processes_settled_at(struct transport *transport, int instance, enum block_kind kind, int slot);
bool between_processes_wait(struct transport *transport, int instance, enum block_kind kind, int slot);
void between_processes_stop(struct transport *transport);
void between_processes_progress(struct transport *transport);
bool between_processes_drain(struct transport *transport);

#endif
