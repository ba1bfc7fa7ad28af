/* Sockets for the links: connecting a star of processes, and moving whole buffers. IPv4. */
#ifndef PENSTOCK_COMM_PROCESSES_SOCKETS_H
#define PENSTOCK_COMM_PROCESSES_SOCKETS_H

#include "comm/processes.h"

enum { SOCKET_ADDRESSES = 16 };

/* Where rank 0 listens, and a number that only this run's processes know. */
struct meeting_place {
    uint64_t secret;
    uint32_t address[SOCKET_ADDRESSES]; /* as inet_ntop takes them */
    int32_t count, port;
};

/* Opens a listening socket on all of this host's addresses. */
enum ps_status socket_listen(struct meeting_place *place, int *listener, struct ps_error *error);
/* Takes in ranks 1 to count - 1: their sockets and what they tell of themselves. */
enum ps_status socket_accept_all(const struct meeting_place *place, int listener, int count, int *sockets,
                                 struct process_info *info, struct ps_error *error);
/* Connects to rank 0 and tells `info`. */
enum ps_status socket_meet(const struct meeting_place *place, int rank, const struct process_info *info, int *made,
                           struct ps_error *error);

#endif
