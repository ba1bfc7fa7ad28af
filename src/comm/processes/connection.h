/* Sockets between processes: connecting rank 0 with each other process, and frames of data over one connection. IPv4. Ends
 * prove to each other that they know the run's secret; later data is neither signed nor encrypted. */
#ifndef PENSTOCK_COMM_PROCESSES_CONNECTION_H
#define PENSTOCK_COMM_PROCESSES_CONNECTION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"
#include "comm/processes.h"

/* --------------------------------------------------------------- connecting */

enum { SOCKET_ADDRESSES = 16 };

/* The addresses at which rank 0 listens, and a number that only this run's processes know. */
struct listening_address {
    uint64_t secret[2];
    uint32_t address[SOCKET_ADDRESSES]; /* as inet_ntop takes them */
    int32_t count, port;
};

/* Opens a listening socket on all of this host's addresses, or only for processes that share the host's network. */
enum ps_status socket_listen(bool loopback_only, struct listening_address *listening, int *listener, struct ps_error *error);
/* Accepts ranks 1 to count - 1: sets their sockets and their info. Serves all connections at the same time, and closes those
 * that prove nothing within some seconds or are too many. */
enum ps_status socket_accept_all(const struct listening_address *listening, int listener, int count, int *sockets,
                                 struct process_info *info, struct ps_error *error);
/* What proves that one knows the key: the SipHash-2-4 of the words. */
uint64_t socket_proof(const uint64_t key[2], const uint64_t *words, size_t count);
/* Connects to rank 0 and sends `info`. */
enum ps_status socket_connect(const struct listening_address *listening, int rank, const struct process_info *info, int *made,
                              struct ps_error *error);

/* ------------------------------------------------------------------- frames */

/* One end of a connection between two processes: frames are sent completely, under a lock, and received in pieces without
 * waiting. */

/* Maximum bytes of a frame; of a frame for connection_send_soon, with its head. */
enum { FRAME_SIZE_MAX = 1 << 30, FRAME_SOON_MAX = sizeof(struct ps_error) + 64 };

struct frame {
    struct frame *next;
    int rank; /* the sender */
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
    const atomic_bool *over; /* set: no thread waits any more for an end that does not read */
    double received_at;
    struct frame_head head; /* of the frame that is being received */
    size_t head_read, data_read;
    struct frame *reading;
};

/* A connection without a socket. `over` is borrowed. */
void connection_init(struct connection *connection, const atomic_bool *over);
/* Closes the socket, if there is one, and frees a partly received frame. */
void connection_free(struct connection *connection);

/* Waits while the other end does not read. False: the connection is broken, or `over` is set. */
bool connection_send(struct connection *connection, unsigned kind, const void *data, size_t size);
/* For frames that must not wait for the other end: waits at most `wait_s` for other writing threads. The frame may be dropped.
 * At most FRAME_SOON_MAX bytes with its head. Nothing happens where there is no socket. */
void connection_send_soon(struct connection *connection, unsigned kind, const void *data, size_t size, double wait_s);

/* Only one thread may read and close. Returns the next frame (free()) if it has arrived completely; else NULL, and *open says
 * whether the connection is still open. */
struct frame *connection_read(struct connection *connection, bool *open);
void connection_close(struct connection *connection);
/* For the other threads. */
bool connection_is_open(struct connection *connection);

#endif
