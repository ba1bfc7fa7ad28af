#include "compute/figures.h"

#include <math.h>

#include "base/number.h"

struct figures figures_of(const struct ps_network *network, const struct stage_result *sum) {
    const int classes = network != NULL ? network->classes : 0;
    const double loss = sum->weight > 0 ? sum->loss / sum->weight : NAN;
    const double labels = sum->counted > 0 ? (double)sum->counted : NAN;
    return (struct figures){.loss = loss,
                            .accuracy = classes > 0 ? (double)sum->correct / labels : NAN,
                            .top5 = classes > 5 ? (double)sum->correct5 / labels : NAN,
                            .perplexity = network_perplexity(network, loss)};
}

const char *figures_accuracy_text(double accuracy, char text[32]) {
    text[0] = '\0';
    if (isfinite(accuracy)) number_print(text, 32, ", accuracy %.2f%%", 100 * accuracy);
    return text;
}
