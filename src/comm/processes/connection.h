/* Sockets between processes: connecting a star of them, and frames of data over one connection. IPv4. */
#ifndef PENSTOCK_COMM_PROCESSES_CONNECTION_H
#define PENSTOCK_COMM_PROCESSES_CONNECTION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"
#include "comm/processes.h"

/* --------------------------------------------------------------- connecting */

/* Sockets for the links: connecting a star of processes, and moving whole buffers. IPv4. */

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

/* ------------------------------------------------------------------- frames */

/* One end of a connection between two processes: frames go out whole, under a lock, and come in as far as they have come. */

/* Bytes in a frame, at most; in one that goes soon. */
enum { FRAME_SIZE_MAX = 1 << 30, FRAME_SOON_MAX = sizeof(struct ps_error) + 64 };

struct frame {
    struct frame *next;
    int rank; /* it came from */
    unsigned kind;
    size_t size;
    char data[];
};

struct frame_head {
    uint32_t kind, size;
};

struct connection {
    int fd; /* -1: closed, or none */
    pthread_mutex_t write_lock;
    const atomic_bool *over; /* set: nobody waits any more for an end that does not read */
    double heard_at;
    struct frame_head head; /* of the frame that is coming */
    size_t head_read, data_read;
    struct frame *reading;
};

/* A connection without a socket. `over` is borrowed. */
void connection_init(struct connection *connection, const atomic_bool *over);
/* Closes the socket, if there is one, and frees what was half read. */
void connection_free(struct connection *connection);

/* Waits while the other end does not read. False: the connection is broken, or it is over. */
bool connection_send(struct connection *connection, unsigned kind, const void *data, size_t size);
/* What must not wait for those who do not read: waits `wait_s` at most for others who are writing. It may be left unsaid.
 * FRAME_SOON_MAX bytes with its head at most. */
void connection_send_soon(struct connection *connection, unsigned kind, const void *data, size_t size, double wait_s);

/* One thread alone reads and closes. The next frame, free(), if all of it is there; else NULL, and *open tells whether more may
 * come. */
struct frame *connection_read(struct connection *connection, bool *open);
void connection_close(struct connection *connection);
/* For the other threads. */
bool connection_is_open(struct connection *connection);

#endif
