/* Steps made simpler: what PyTorch computes in one operator and exporters write as several becomes one step again. */
#include <string.h>

#include "onnx/lower.h"

/* ------------------------------------------------------------------- uses */

static void need(struct lowering *l, int number) {
    struct step *step = l->steps[number];
    if (step->uses++ > 0) return;
    for (int i = 0; i < step->input_count; i++) need(l, step->inputs[i]->step);
}

/* Parameters in step.parameters belong to the step: they need no step of their own. */
void lower_count_uses(struct lowering *l) {
    for (int s = 0; s < l->step_count; s++) l->steps[s]->uses = 0;
    need(l, l->output_view->step);
}

/* Views of steps that others have taken the place of. */
static void redirect(struct lowering *l) {
    for (int s = 0; s < l->step_count; s++)
        for (int i = 0; i < l->steps[s]->input_count; i++)
            while (l->steps[l->steps[s]->inputs[i]->step]->alias != 0)
                l->steps[s]->inputs[i]->step = l->steps[l->steps[s]->inputs[i]->step]->alias - 1;
    while (l->steps[l->output_view->step]->alias != 0) l->output_view->step = l->steps[l->output_view->step]->alias - 1;
}

/* The view shows its step's output as it is: each element at its place. */
static bool is_natural(const struct view *v) {
    int64_t stride = 1;
    for (int i = v->count - 1; i >= 0; i--) {
        if (v->atoms[i].batch) continue;
        if (v->atoms[i].stride != stride) return false;
        stride *= v->atoms[i].size;
    }
    return true;
}

/* ----------------------------------------------------------------- patterns */

/* A sum with a vector that is a parameter, right behind a linear layer without bias that nobody else reads. */
static void fuse_bias(struct lowering *l, struct step *sum) {
    if (sum->kind != STEP_BINARY || strcmp(sum->function, "add") != 0) return;
    for (int side = 0; side < 2; side++) {
        struct view *x = sum->inputs[side], *b = sum->inputs[1 - side];
        struct step *linear = l->steps[x->step], *bias = l->steps[b->step];
        if (linear->kind != STEP_LINEAR || linear->uses != 1 || linear->parameters[1] != NULL || !is_natural(x) ||
            bias->kind != STEP_PARAMETER || bias->output.rank != 1)
            continue;
        const int last = sum->output.rank - 1;
        const int64_t features = linear->output.dims[linear->output.rank - 1];
        bool fits = bias->output.dims[0] == features && sum->output.dims[last] == features;
        int64_t stride = 1;
        for (int i = b->count - 1; i >= 0 && fits; i--) {
            if (b->atoms[i].axis != last) {
                fits = b->atoms[i].stride == 0;
                continue;
            }
            fits = b->atoms[i].stride == stride;
            stride *= b->atoms[i].size;
        }
        for (int i = 0; i < x->count && fits; i++) fits = x->atoms[i].batch || x->atoms[i].stride != 0;
        if (!fits) continue;
        linear->parameters[1] = &bias->output;
        sum->alias = x->step + 1;
        return;
    }
}

enum ps_status lower_fuse(struct lowering *l) {
    lower_count_uses(l);
    for (int s = 0; s < l->step_count; s++)
        if (l->steps[s]->uses > 0) fuse_bias(l, l->steps[s]);
    redirect(l);
    lower_count_uses(l);
    return PS_OK;
}
