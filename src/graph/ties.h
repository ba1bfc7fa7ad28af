/*
 * Ties: parameters that several nodes use as one trained tensor (graph_tie), and the layers that hold these uses.
 *
 * A stage keeps one copy of such a parameter, and a gradient for each use in its layers. At an update the gradients of all uses
 * are added in the order of the network, whatever stages they lie in, so every cut gives the same bits; then every copy gets
 * the same update.
 */
#ifndef PENSTOCK_GRAPH_TIES_H
#define PENSTOCK_GRAPH_TIES_H

#include "base/arena.h"
#include "base/json.h"
#include "graph/graph.h"

struct tie {
    const struct parameter *parameter; /* its first use, of the graph that they were found in; NULL: read from a file */
    int64_t bytes;                     /* of one gradient, aligned; 0: not known, as in a plan */
    bool narrow;                       /* copies of the parameter are bf16 */
    bool wide;                         /* they are f32 in a network of precision bf16, which does not say so in a file */
    int *layers;                       /* of its uses, in the order of the network; a layer may have several */
    int uses;
};

/* Zeroed: none. The arrays belong to an arena. */
struct ties {
    struct tie *list;
    int count;
};

/* Those of a network whose graph is finished. */
enum ps_status ties_find(const struct graph *graph, struct arena *arena, struct ties *ties, struct ps_error *error);
enum ps_status ties_copy(const struct ties *ties, struct arena *arena, struct ties *copy, struct ps_error *error);
/* The one tie of a network whose first and last layer share a parameter. */
enum ps_status ties_ends(int layer_count, int64_t bytes, struct arena *arena, struct ties *ties, struct ps_error *error);
/* Is that all there is, and of the type that others have? */
bool ties_are_ends(const struct ties *ties, int layer_count);

/* Uses of the tie in the layers first..last. */
int tie_uses_in(const struct tie *tie, int first, int last);
/* Bytes of the gradients of further uses, whose parameters the layers first..last hold only once; `narrow`: only where copies
 * are bf16. */
int64_t ties_repeated_bytes(const struct ties *ties, int first, int last, bool narrow);
/* Bytes of the gradients of all uses in these layers of parameters that layers outside of them use, too. */
int64_t ties_outside_bytes(const struct ties *ties, int first, int last);

/* As an array: {"layers": [0, 5, 11], "bytes": 4096}, with "narrow": true where copies are bf16, or only the layers where no
 * bytes are known. */
json_t *ties_json(const struct ties *ties);
/* `layer_count` 0: not known yet. */
enum ps_status ties_read(const struct json_place *place, int layer_count, struct arena *arena, struct ties *ties,
                         struct ps_error *error);

#endif
