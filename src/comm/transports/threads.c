/* Workers as threads of one process: blocks are exchanged without copying, waiting threads sleep. */
#include "comm/transports/channels.h"

extern const struct transport_class transport_threads;

static enum ps_status create(const struct transport_options *options, struct transport **transport, struct ps_error *error) {
    return channels_create(&transport_threads, options, transport, error);
}

const struct transport_class transport_threads = {
    .name = "threads",
    .summary = "every worker is a thread of this process",
    .own_threads = true,
    .create = create,
    .destroy = channels_destroy,
    .post = channels_post,
    .reduce = channels_reduce,
    .settled = channels_settled,
    .settled_at = channels_settled_at,
    .wait = channels_wait,
    .stop = channels_stop,
};
