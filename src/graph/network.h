/*
 * A network: a graph with a name, and what its data mean. Where it comes from makes no difference: the generators of the
 * built-in ones (model.h), a file (network_json.c) and the builder of the public interface make the same, and the hash tells
 * whether two are the same.
 */
#ifndef PENSTOCK_GRAPH_NETWORK_H
#define PENSTOCK_GRAPH_NETWORK_H

#include "base/spec.h"
#include "graph/graph.h"

/* What a network's classes are, and so what its labels are. */
enum network_predicts {
    PREDICTS_CLASSES,
    PREDICTS_TOKENS,        /* those that should follow the ones it reads */
    PREDICTS_MASKED_TOKENS, /* those that are hidden from it */
};
extern const char *const network_predicts_names[3];

enum { NETWORK_NAME_SIZE = SPEC_SIZE };

/* How a network was changed before it was used, for who wants to do so again; NULL: it was not. */
struct network_said {
    char *init,
        *init_checksum; /* the file that parameters begin with; where it is known from a run, a checksum of the values */
    char *freeze;       /* patterns */
    char *loss;
};

struct ps_network {
    char name[NETWORK_NAME_SIZE]; /* a built-in one's is its specification */
    struct graph *graph;
    uint64_t hash;          /* of the structure: equal for networks that compute the same from the same initial values */
    int64_t input_shape[3]; /* of the first input: C, H, W; of tokens 1, T, 1; of features C, 1, 1 */
    struct ps_input inputs[NETWORK_INPUTS_MAX], target;
    int classes;
    int labels;     /* of a sample */
    int vocabulary; /* of tokens; 0: it reads images */
    enum network_predicts predicts;
    struct network_said said;
};
/* What a name ends with that says a network's precision, as "vgg16,precision=bf16": it is not the usual f32. */
#define PRECISION_OPTION ",precision="
/* The name without this option, and what it says ("": there is none). */
enum ps_status network_cut_precision(const char *text, char *rest, size_t size, char precision[8], struct ps_error *error);
/* Keeps a copy of the text in place of what was said before. */
enum ps_status network_say(char **place, const char *text, struct ps_error *error);

/* Takes the graph, finished or not, also on failure. PS_USAGE where it is no network that can be trained. */
enum ps_status network_create(const char *name, struct graph *graph, enum network_predicts predicts,
                              struct ps_network **network, struct ps_error *error);
/* The same with layers split inside as `splits` says (graph_split_all), and a name that says so. */
enum ps_status network_create_split(const struct ps_network *whole, const char *splits, struct ps_network **network,
                                    struct ps_error *error);
/* `network` becomes what `made` is, but for what was said of it; takes `made`. */
void network_replace(struct ps_network *network, struct ps_network *made);
enum ps_status network_parse(const char *text, size_t size, const char *source, struct ps_network **network,
                             struct ps_error *error);

/* Reads a network file (network_json.c); ps_network_read takes other formats, too. */
enum ps_status network_read_json(const char *path, struct ps_network **network, struct ps_error *error);
/* Writes one; ps_network_write writes other formats, too. */
enum ps_status network_write_json(const struct ps_network *network, const char *path, struct ps_error *error);

/* Appends a loss to a graph that ends in `output`: one of those of ps_network_set_loss; NULL, where nobody has
 * said it: cross-entropy, or mse where the output's first side is 1. PS_USAGE names what is known. */
enum ps_status network_add_loss(struct graph *graph, const char *loss, int output, struct ps_error *error);

/* Whether a node's random numbers are not those that its place would give it: the network was split. */
bool network_keeps_random_number(const struct graph *graph, const struct node *node);

/* Is what `whose` names, a file made for the network `name` with such a hash, for this network? PS_USAGE names both. An empty
 * hash, of a file that does not know it, fits where the names are the same, or no name is given. */
enum ps_status network_check(const struct ps_network *network, const char *whose, const char *name, const char *hash,
                             struct ps_error *error);

/* "1f0a...": 16 digits. */
const char *network_hash_text(uint64_t hash, char text[17]);

/* The translating network `whole` for a single position of the target: the same parameters, for decoding one word at a time.
 * PS_USAGE for a network that has no target. */
enum ps_status network_create_stepping(const struct ps_network *whole, struct ps_network **network, struct ps_error *error);
/* The translating network `whole` (which stays as long as the other) for `seq` tokens of the source, fewer than it has, and
 * a share of its target's that is rounded up: it has the same parameters, which lie in the kernels as those of `whole` do.
 * PS_USAGE for a network that has no target, and where it could not be the same but for the length. */
enum ps_status network_create_shorter(const struct ps_network *whole, int seq, struct ps_network **network,
                                      struct ps_error *error);
/* Tokens of the source where a network translates; else 0. */
int network_source(const struct ps_network *network);

/* e to the loss of a network whose labels are tokens of a sequence; NaN for others, and for NULL. */
double network_perplexity(const struct ps_network *network, double loss);

#endif
