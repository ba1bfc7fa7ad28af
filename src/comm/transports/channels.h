/* Channels within one process: what the transports `threads` and `serial` share. Each function fills a slot of the table. */
#ifndef PENSTOCK_COMM_TRANSPORTS_CHANNELS_H
#define PENSTOCK_COMM_TRANSPORTS_CHANNELS_H

#include "comm/transport.h"

/* `class` is stored in the new transport. */
enum ps_status channels_create(const struct transport_class *class, const struct transport_options *options,
                               struct transport **transport, struct ps_error *error);
void channels_destroy(struct transport *transport);
void channels_post(struct transport *transport, int instance, enum block_kind kind, int slot, int other, float **block,
                   const struct moment *when);
void channels_reduce(struct transport *transport, int instance, const struct transport_share *share);
bool channels_settled(struct transport *transport, int instance, enum block_kind kind, int slot);
struct moment channels_settled_at(struct transport *transport, int instance, enum block_kind kind, int slot);
bool channels_wait(struct transport *transport, int instance, enum block_kind kind, int slot);
void channels_stop(struct transport *transport);

#endif
