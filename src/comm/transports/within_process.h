/* Transfers within one process, for transports that have others, too. Each function fills a slot of the table. */
#ifndef PENSTOCK_COMM_TRANSPORTS_WITHIN_PROCESS_H
#define PENSTOCK_COMM_TRANSPORTS_WITHIN_PROCESS_H

#include "comm/transport.h"

enum ps_status within_process_create(const struct transport_class *class, const struct transport_options *options,
                                     struct transport **transport, struct ps_error *error);
void within_process_destroy(struct transport *transport);
void within_process_post(struct transport *transport, int instance, enum block_kind kind, int slot, int other, float **block,
                         const struct moment *when);
void within_process_reduce(struct transport *transport, int instance, const struct transport_share *share);
bool within_process_settled(struct transport *transport, int instance, enum block_kind kind, int slot);
struct moment within_process_settled_at(struct transport *transport, int instance, enum block_kind kind, int slot);
bool within_process_wait(struct transport *transport, int instance, enum block_kind kind, int slot);
void within_process_stop(struct transport *transport);

#endif
