/* Networks from ONNX files. */
#ifndef PENSTOCK_ONNX_ONNX_H
#define PENSTOCK_ONNX_ONNX_H

#include "graph/network.h"

/* Whether the file is one, by its name or, where that says nothing, by its contents. */
bool onnx_is_file(const char *path);
/* Reads the graph, with cross-entropy behind its output. PS_BAD_INPUT names file, node and operator where it is no network that
 * can be trained; the hint says what would be one. */
enum ps_status onnx_read_network(const char *path, struct ps_network **network, struct ps_error *error);
/* The same of a file's contents, which stay as long as the network does; `path` names them in messages, and external data lie
 * beside it. */
enum ps_status onnx_parse_network(const char *path, const void *data, size_t size, struct ps_network **network,
                                  struct ps_error *error);

struct onnx_write_options {
    bool training;     /* batch norm and dropout stay as they compute in training; else they are as at inference */
    bool external;     /* weights in a file of their own, FILE.data; else only where a file would have more than 2 GB */
    const int *stages; /* of each node of the network's graph, as annotations; NULL: none */
    int devices;       /* that the stages are for */
};
#define ONNX_OUTSIDE ".data"
/* Writes a network that came from an ONNX file as one: the same graph, with the network's values (graph->values) in place of
 * the initializers that became parameters. PS_USAGE: it did not come from one; PS_BAD_INPUT: it lacks the values of some. */
enum ps_status onnx_write_network(const struct ps_network *network, const struct onnx_write_options *options, const char *path,
                                  struct ps_error *error);

/*
 * What the module that was exported has in its state_dict beside the network's parameters, as the kept origin (values_origin)
 * tells: buffers, and parameters that are not used; by their names there, in their types. The store is the caller's.
 */
enum ps_status onnx_read_state(const void *origin, size_t size, struct values **state, struct ps_error *error);

#endif
