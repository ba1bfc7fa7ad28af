/* Running an optimizer over blocks of which some are bf16; see optimizer.h. */
#include "compute/optimizer.h"

#include <string.h>

#include "base/vector.h"

struct optimizer_call optimizer_part(const struct optimizer_call *call, size_t first, size_t count) {
    struct optimizer_call part = *call;
    const size_t bytes = first * number_types[call->type].bytes;
    part.count = count;
    if (part.weights != NULL) part.weights += first;
    if (part.updated != NULL) part.updated += first;
    if (part.gradient != NULL) part.gradient += first;
    if (part.predicted != NULL) part.predicted = (char *)part.predicted + bytes;
    if (part.copy != NULL) part.copy = (char *)part.copy + bytes;
    for (int m = 0; m < OPTIMIZER_MOMENTS_MAX; m++)
        if (part.moment[m] != NULL) part.moment[m] += first;
    return part;
}

static void run(const struct optimizer *rule, const struct optimizer_settings *settings, const struct optimizer_call *call,
                bool predict_only) {
    if (predict_only)
        rule->predict(settings, call);
    else
        rule->update(settings, call);
}

/* None has all bits of the exponent. */
static VECTOR_CLONES bool all_finite(size_t count, const float *numbers) {
    const uint32_t exponent = 0x7f800000;
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        found |= (bits & exponent) == exponent;
    }
    return found == 0;
}

bool optimizer_run(const struct optimizer *rule, const struct optimizer_settings *settings, const struct optimizer_call *call,
                   bool predict_only) {
    enum { PIECE = 4096 };
    float predicted[PIECE];
    bool finite = true;
    for (size_t first = 0; first < call->count; first += PIECE) {
        const size_t count = call->count - first < PIECE ? call->count - first : PIECE;
        struct optimizer_call part = optimizer_part(call, first, count);
        void *const wanted = call->type != TYPE_F32 ? part.predicted : NULL, *const copy = part.copy;
        if (wanted != NULL) part.predicted = predicted;
        part.copy = NULL;
        part.type = TYPE_F32;
        run(rule, settings, &part, predict_only);
        finite = finite && (predict_only || all_finite(count, part.updated));
        if (wanted != NULL) numbers_convert(count, call->type, wanted, TYPE_F32, predicted);
        if (copy != NULL) numbers_convert(count, call->type, copy, TYPE_F32, part.updated);
    }
    return finite;
}
