/*
 * Control connections, between rank 0 and each other process: frames of data, heartbeats, and failures. A separate thread reads
 * all connections, so that a process also answers during long computations.
 */
#ifndef PENSTOCK_COMM_PROCESSES_CONTROL_H
#define PENSTOCK_COMM_PROCESSES_CONTROL_H

#include "comm/processes.h"
#include "comm/processes/connection.h"

struct control;

/* Frames that are kept until they are taken; control.c uses others internally. */
enum frame_kind { FRAME_BROADCAST, FRAME_GATHER, FRAME_HANDED_IN, FRAME_TOLD, FRAME_DONE, FRAME_KEPT };

/* Without connections; control_open makes them. `info` is borrowed. */
enum ps_status control_create(int rank, int count, struct process_info *info, struct control **control, struct ps_error *error);
/* Takes a frame (free()) that the rank has sent. False: no process of this version sends it. */
bool control_hear(struct control *control, int rank, struct frame *frame);

/* All processes call it. `info`, by rank, holds this process's entry. At rank 0 control_open sets the others. `loopback`: it is
 * enough for all. */
enum ps_status control_open(const struct processes_class *class, int rank, int count, bool loopback, struct process_info *info,
                            struct control **control, struct ps_error *error);
/* Closes the connections; NULL is fine. */
void control_close(struct control *control);

/* Waits only while the other end does not read. After a loss frames may be dropped. */
enum ps_status control_send(struct control *control, int rank, enum frame_kind kind, const void *data, size_t size,
                            struct ps_error *error);
/* The oldest FRAME_TOLD about that segment from any rank, free(); NULL: none has arrived. */
struct frame *control_take_told(struct control *control, int32_t segment);
/* The oldest frame of that kind from `rank`, free(). Waits for it. */
enum ps_status control_wait(struct control *control, int rank, enum frame_kind kind, struct frame **frame,
                            struct ps_error *error);

/* Ends the run for all processes unless it has ended already. */
void control_fail(struct control *control, enum ps_status status, const struct ps_error *error);
void control_lose(struct control *control, const struct process_loss *loss);
enum ps_status control_check(const struct control *control, struct ps_error *error);
bool control_lost(const struct control *control, struct process_loss *loss);
/* From now on a closed connection is not a loss. */
void control_expect_end(struct control *control);

void control_set_state(struct control *control, const struct process_state *state);
struct process_state control_state_of(const struct control *control, int rank);
/* After a loss: waits until all processes except `but` have closed their connections, which they do after sending their last
 * positions. */
void control_drain(struct control *control, int but, double seconds);
/* Sends a log line to rank 0: level, then text. */
void control_log(void *context, enum ps_log_level level, const char *text);

#endif
