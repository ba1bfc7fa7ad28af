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

#endif
