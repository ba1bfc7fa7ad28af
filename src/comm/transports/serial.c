/* All workers in one thread, in turn: slow and deterministic. Tests compare other transports with it. */
#include "comm/transports/channels.h"

extern const struct transport_class transport_serial;

static enum ps_status create(const struct transport_options *options, struct transport **transport, struct ps_error *error) {
    return channels_create(&transport_serial, options, transport, error);
}

const struct transport_class transport_serial = {
    .name = "serial",
    .summary = "one thread runs all workers in turn",
    .create = create,
    .destroy = channels_destroy,
    .post = channels_post,
    .reduce = channels_reduce,
    .settled = channels_settled,
    .settled_at = channels_settled_at,
    .stop = channels_stop,
};
