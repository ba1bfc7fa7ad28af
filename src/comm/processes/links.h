/*
 * Connections between rank 0 and each other process: frames of data, heartbeats, and failures. A separate thread reads all
 * connections, so that a process also answers during long computations.
 */
#ifndef PENSTOCK_COMM_PROCESSES_LINKS_H
#define PENSTOCK_COMM_PROCESSES_LINKS_H

#include "comm/processes.h"
#include "comm/processes/connection.h"

struct links;

/* Frames that are kept until they are taken; the links use others internally. */
enum frame_kind { FRAME_BROADCAST, FRAME_GATHER, FRAME_HANDED_IN, FRAME_TOLD, FRAME_DONE, FRAME_KEPT };

/* All processes call it. `info`, by rank, holds this process's entry. At rank 0 links_open sets the others. */
enum ps_status links_open(const struct processes_class *class, int rank, int count, struct process_info *info,
                          struct links **links, struct ps_error *error);
/* Closes the connections; NULL is fine. */
void links_close(struct links *links);

/* Waits only while the other end does not read. After a loss frames may be dropped. */
enum ps_status links_send(struct links *links, int rank, enum frame_kind kind, const void *data, size_t size,
                          struct ps_error *error);
/* The oldest frame of that kind from `rank` (-1: from any), free(); NULL: none has arrived. */
struct frame *links_take(struct links *links, int rank, enum frame_kind kind);
/* The same, waiting for it. */
enum ps_status links_wait(struct links *links, int rank, enum frame_kind kind, struct frame **frame, struct ps_error *error);

/* Ends the run for all processes unless it has ended already. */
void links_fail(struct links *links, enum ps_status status, const struct ps_error *error);
void links_lose(struct links *links, const struct process_loss *loss);
enum ps_status links_check(const struct links *links, struct ps_error *error);
bool links_lost(const struct links *links, struct process_loss *loss);
/* From now on a closed connection is not a loss. */
void links_expect_end(struct links *links);

void links_set_state(struct links *links, const struct process_state *state);
struct process_state links_state_of(const struct links *links, int rank);
/* After a loss: waits until all processes except `but` have closed their connections, which they do after sending their last
 * positions. */
void links_drain(struct links *links, int but, double seconds);
/* Sends a log line to rank 0: level, then text. */
void links_log(void *context, enum ps_log_level level, const char *text);

#endif
