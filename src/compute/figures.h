/* What a network's loss says about some samples, as people read it. */
#ifndef PENSTOCK_COMPUTE_FIGURES_H
#define PENSTOCK_COMPUTE_FIGURES_H

#include "compute/stage.h"
#include "graph/network.h"

/* NaN where nothing counted, or where the figure has no meaning: an accuracy without classes, the five best of five classes,
 * the perplexity of what is no text. */
struct figures {
    double loss, accuracy, top5, perplexity;
};

/* `network` may be NULL: nothing is known of the classes. */
struct figures figures_of(const struct ps_network *network, const struct stage_result *sum);
/* ", accuracy 93.75%" for lines about a loss; "" for NaN. */
const char *figures_accuracy_text(double accuracy, char text[32]);

#endif
