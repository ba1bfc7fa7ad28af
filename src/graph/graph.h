/*
 * A network as a graph of nodes in topological order, and its view as a chain of layers.
 *
 * A layer is a run of nodes that are never separated: one that does the work (convolution, linear, pooling, add, ...) and
 * those that follow it elementwise. Layers are what plans cut between. The cut c lies before layer c (layers from 0): cut 0
 * carries all inputs of the network, cut `layer_count` nothing. A cut carries every value made before it and used after it,
 * each once: a skip connection crosses all the cuts between its ends.
 *
 * A value is named by the node that owns its memory: in-place nodes and views share their input's (node.root).
 */
#ifndef PENSTOCK_GRAPH_GRAPH_H
#define PENSTOCK_GRAPH_GRAPH_H

#include "graph/operator.h"
#include "graph/values.h"

struct node {
    enum operator_id id;
    char name[64];
    struct attributes attributes;
    int inputs[GRAPH_INPUTS_MAX], input_count; /* node numbers, all smaller than this node's */
    struct shape shape;                        /* of the output, for one sample */
    unsigned flags;                            /* enum operator_flags: the operator's with those of its attributes */
    int layer;                                 /* -1: an input of the network */
    int root;                                  /* node whose buffer holds the output; itself, or an earlier one */
    int parameter_first, parameter_count;      /* into graph.parameters, statistics included */
    bool data;                                 /* the data, or moved from them, or tokens: it has no gradient */
    bool untrained;                            /* after graph_finish: nothing before it, nor itself, is trained, and nothing
                                                  that shares its memory: its gradient is not needed */
    bool given;                                /* after graph_finish: made of data and constants alone, and so is what shares
                                                  its memory */
    int gradient_layer;                        /* after graph_finish: the last layer with a node that gives its value a gradient
                                                  (a root's: all values that share its memory); -1: none does */
    bool sourceless;                           /* made of parameters alone */
    unsigned sources;                          /* of data: the network's inputs that they are moved from, as bits */
    int random_number;                         /* tells its random numbers from other nodes'; its own number, but in a split
                                                  network the one that it had before */
};

struct layer {
    int node_first, node_count;
    const char *name, *kind; /* of its first node */
};

/* Of the target, where nothing else is said. */
#define TARGET_NAME "labels"

/* Of a network: graph_set_precision. */
enum precision { PRECISION_F32, PRECISION_BF16, PRECISION_MIXED, PRECISION_COUNT };
extern const char *const precision_names[PRECISION_COUNT];

struct graph {
    enum ps_status status; /* of the first call that failed */
    struct node *nodes;
    int node_count;
    size_t node_capacity;
    int input_count;      /* of the network: the first so many nodes */
    char target[64];      /* name of what the loss reads; "": TARGET_NAME */
    float *class_weights; /* of so many classes; NULL: all are 1 */
    int class_count;
    struct parameter *parameters;
    int parameter_count;
    size_t parameter_capacity;
    /* The same network for longer sequences (network_create_shorter), node by node: weights lie in kernels of both as they do
     * in those of the longer one. NULL: there is none; borrowed. */
    const struct graph *longest;
    struct values *values;    /* of parameters, in place of their initial values; owned together with others; NULL: none */
    enum precision precision; /* graph_set_precision */
    /* after graph_finish */
    struct layer *layers;
    int layer_count;
    int *cut_first;     /* layer_count + 2 offsets into cut_values */
    int *cut_values;    /* root nodes crossing each cut, ascending */
    struct graph *wide; /* the same network with the values of the precision f32, for kernels that compute in it; it borrows all
                           but its nodes. NULL: this one is that */
};

struct graph *graph_create(void);
void graph_destroy(struct graph *graph);

/* What follows a '/' in a node's name is left out of its parameters' names: so the nodes that make up one module of PyTorch
 * keep its parameters' names.
 *
 * Adds a node and returns its number, or -1 with `error` set. Once something failed, further calls return -1 and touch nothing,
 * so a network is written without a check at each line and checked at the end by graph_finish. The first nodes are the
 * network's inputs (OPERATOR_INPUT), 1 to NETWORK_INPUTS_MAX. */
int graph_add(struct graph *graph, enum operator_id id, const char *name, const struct attributes *attributes,
              const int *inputs, int input_count, struct ps_error *error);

/* Adds a node of another graph with these attributes and inputs: with its parameters, whose shapes must stay, and its random
 * numbers. */
int graph_add_copy(struct graph *graph, const struct graph *from, const struct node *node, const struct attributes *attributes,
                   const int *inputs, struct ps_error *error);

/* Changes the initial values of a node's parameter (0: the first), where a network's paper says so. */
void graph_set_initial(struct graph *graph, int node, int parameter, struct initial initial);

/* Gives a node's parameter (0: the first) another name than the node's and the tensor's. PS_USAGE where it is too long, or
 * where `shape` is not the parameter's. */
enum ps_status graph_name_parameter(struct graph *graph, int node, int parameter, const char *name, const struct shape *shape,
                                    struct ps_error *error);

/* Makes parameter `parameter` of node `use` one with parameter `own` of node `owner`, which stands before it: one trained
 * tensor with the owner's name and initial values. Any number of nodes may share one. Each use has a gradient of its own;
 * whoever updates the parameter adds them up (graph/ties.h). PS_USAGE at graph_finish where the shapes differ. */
void graph_tie(struct graph *graph, int use, int parameter, int owner, int own);

/* The node for the functions of its operator; `inputs` gets the shapes. */
struct operation node_operation(const struct graph *graph, struct node *node, struct shape inputs[GRAPH_INPUTS_MAX]);
double node_flops(const struct graph *graph, struct node *node); /* of its forward for one sample */

/* Does the parameter with this number in graph.parameters belong to the node? */
static inline bool graph_has_parameter(const struct node *node, int parameter) {
    return parameter >= node->parameter_first && parameter < node->parameter_first + node->parameter_count;
}

/* The pattern against all of a name, with '*' for any characters and '?' for one. */
bool graph_name_matches(const char *pattern, const char *name);

/* Fixes the trained parameters (of a finished graph) whose names the pattern matches; a parameter that two layers
 * share in both. Returns how many there are now or were before. */
int graph_freeze(struct graph *graph, const char *pattern);
/* Returns PS_USAGE: `what` says a pattern, of `length` characters, that no parameter's name matches. Names those that there
 * are. */
enum ps_status graph_refuse_pattern(const struct graph *graph, const char *what, const char *pattern, size_t length,
                                    struct ps_error *error);

/*
 * The precision of a network: bf16 means that values and matrices are bf16 where that saves bytes, mixed that values are where
 * PyTorch's autocast has them so, f32 that the types are what the operators say. With bf16
 *   - outputs of operators that multiply by matrices (OPERATOR_NARROW) and these matrices (parameters of two and more sides)
 * are bf16; a parameter that several nodes share only if it is for each of them;
 *   - outputs of other operators are bf16 where one of their inputs is: data, and what is made of data and constants alone,
 * stay f32 up to the first matrix;
 *   - losses, statistics, biases and the parameters of norms stay f32, tokens i32, and a cast gives what it says.
 * With mixed matrices are bf16, too, embeddings only where they share their table with a product, and
 *   - outputs of products, of a value with a matrix or another value (OPERATOR_ROUNDS), and what only these read are bf16;
 *   - outputs of other operators are bf16 where all their inputs are, but for single numbers. So sums of a bf16 with an f32 are
 * f32, as are embeddings: what goes from block to block of a transformer by its residual connections.
 * Before graph_finish or after.
 */
enum ps_status graph_set_precision(struct graph *graph, enum precision precision, struct ps_error *error);

/* Cuts the chain into layers, decides what runs in place, finds the crossing values. After it the graph does not change.
 * PS_USAGE where no network was made: a name that two nodes have, an output that nobody reads, a loss in the middle. */
enum ps_status graph_finish(struct graph *graph, struct ps_error *error);

int graph_cut_count(const struct graph *graph, int cut);
const int *graph_cut_values(const struct graph *graph, int cut);
/* Bytes of one sample's values that cross the cut, without alignment. */
int64_t graph_cut_bytes(const struct graph *graph, int cut);
int64_t graph_value_bytes(const struct graph *graph, int node);

/* What the loss reads of one sample: labels (i32), one or one for each position or pixel; or numbers (f32). A graph without a
 * loss has one label. */
struct shape graph_target(const struct graph *graph);
/* Its elements. */
int64_t graph_labels(const struct graph *graph);
/* What a label counts in a mean: the weight of its class; 0 for those below 0, which do not count. */
static inline double graph_label_weight(const struct graph *graph, int32_t label) {
    if (label < 0) return 0;
    return graph->class_weights != NULL ? (double)graph->class_weights[label] : 1;
}
/* Gives the graph what another has beside its nodes: the name of its target, class weights and precision. */
enum ps_status graph_take_target(struct graph *graph, const struct graph *other, struct ps_error *error);
/* Weighs the labels of so many classes; copied. Before graph_finish or after. PS_USAGE: a weight is negative or not finite. */
enum ps_status graph_weigh_classes(struct graph *graph, const float *weights, int count, struct ps_error *error);
/* Of a network that reads tokens: how many there are; 0: it reads no tokens. */
int graph_vocabulary(const struct graph *graph);
/* How many tokens one of the network's inputs is numbered by, as the first embedding that reads it says; 0: none does. */
int graph_input_vocabulary(const struct graph *graph, int input);
/* The same of the embedding with the fewest: tokens below it can stand anywhere. */
int graph_input_tokens(const struct graph *graph, int input);

/* Whether the node's backward reads its input number `input`. */
bool node_keeps_input(const struct graph *graph, const struct node *node, int input);
/* Whether a backward of the layer that makes the value (a root) reads it: as its own output, or as a node's input. */
bool graph_output_kept_by_own_layer(const struct graph *graph, int root);

#endif
