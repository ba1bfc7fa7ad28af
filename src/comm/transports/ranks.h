/* Workers as processes of their own, for transports that have such: each function fills a slot of the table. */
#ifndef PENSTOCK_COMM_TRANSPORTS_RANKS_H
#define PENSTOCK_COMM_TRANSPORTS_RANKS_H

#include "comm/transport.h"

/* `class` is stored in the new transport; its processes' messages carry the blocks. */
enum ps_status ranks_create(const struct transport_class *class, const struct transport_options *options,
                            struct transport **transport, struct ps_error *error);
void ranks_destroy(struct transport *transport);
void ranks_post(struct transport *transport, int instance, enum block_kind kind, int slot, int other, float **block,
                const struct moment *when);
void ranks_reduce(struct transport *transport, int instance, const struct transport_share *share);
bool ranks_settled(struct transport *transport, int instance, enum block_kind kind, int slot);
struct moment ranks_settled_at(struct transport *transport, int instance, enum block_kind kind, int slot);
bool ranks_wait(struct transport *transport, int instance, enum block_kind kind, int slot);
void ranks_stop(struct transport *transport);
void ranks_progress(struct transport *transport);
bool ranks_drain(struct transport *transport);

#endif
