/* Convolutions and pooling; images that are padded and resized. */
#include "onnx/lower_calls.h"

#include <math.h>
#include <string.h>

#include "base/log.h"

/* kernel_shape, strides, pads, dilations of one or two sides; a sequence is an image 1 wide. */
static enum ps_status windows(const struct call *call, const struct view *x, const int64_t *kernel, struct window *window) {
    const struct onnx_attribute *strides = onnx_attribute(call->node, "strides"), *pads = onnx_attribute(call->node, "pads");
    const struct onnx_attribute *dilations = onnx_attribute(call->node, "dilations");
    const char *automatic = onnx_string(call->node, "auto_pad", "NOTSET");
    const int sides = x->rank - 2;
    window[0] = window[1] = (struct window){.kernel = 1, .stride = 1, .dilation = 1};
    if (sides < 1 || sides > 2) return call_refuse(call, "windows over one or two dimensions are known");
    if ((strides != NULL && strides->count != sides) || (dilations != NULL && dilations->count != sides) ||
        (pads != NULL && pads->count != 2 * sides))
        return call_refuse(call, "its strides, pads or dilations do not fit");
    for (int s = 0; s < sides; s++) {
        struct window *n = &window[s];
        n->kernel = kernel[s];
        if (strides != NULL) n->stride = strides->ints[s];
        if (dilations != NULL) n->dilation = dilations->ints[s];
        if (pads != NULL) {
            n->before = pads->ints[s];
            n->after = pads->ints[sides + s];
        }
        if (strncmp(automatic, "SAME", 4) == 0 && n->stride > 0) {
            int64_t all = ((x->dims[2 + s] + n->stride - 1) / n->stride - 1) * n->stride + (n->kernel - 1) * n->dilation + 1 -
                          x->dims[2 + s];
            all = all < 0 ? 0 : all;
            n->before = strcmp(automatic, "SAME_LOWER") == 0 ? (all + 1) / 2 : all / 2;
            n->after = all - n->before;
        }
        const int64_t most = 1 << 14;
        if (n->kernel < 1 || n->stride < 1 || n->dilation < 1 || n->before < 0 || n->after < 0 || n->kernel > 1 << 20 ||
            n->stride > most || n->dilation > most || n->before > most || n->after > most)
            return call_refuse(call, "its window's numbers do not fit");
    }
    return PS_OK;
}

static int64_t window_positions(const struct window *w, int64_t size, bool ceiling) {
    int64_t room = size + w->before + w->after - (w->kernel - 1) * w->dilation - 1;
    if (room < 0) return 0;
    int64_t positions = (room + (ceiling ? w->stride - 1 : 0)) / w->stride + 1;
    return ceiling && (positions - 1) * w->stride >= size + w->before ? positions - 1 : positions;
}

/* (N, C, H, W) or (N, C, L) to channels and the window's positions. */
static enum ps_status window_output(const struct call *call, struct step *step, const struct view *x, int64_t channels) {
    int64_t dims[ONNX_RANK_MAX] = {x->dims[0], channels};
    const int from[ONNX_RANK_MAX] = {0, -1, -1, -1};
    for (int s = 0; s < x->rank - 2; s++) {
        const struct window *w = &step->window[s];
        const int64_t size = x->dims[2 + s];
        dims[2 + s] = window_positions(w, size, step->attributes.ceiling);
        if (step->kind == STEP_DECONVOLUTION)
            dims[2 + s] = (size - 1) * w->stride + (w->kernel - 1) * w->dilation + 1 - w->before - w->after + w->more;
        if (dims[2 + s] < 1) return call_refuse(call, "its kernel does not fit into its input");
    }
    for (int d = 1; d < x->rank; d++) TRY(call_needs_apart(call, x, d));
    TRY(call_output(call, step, x, x->rank, dims, from));
    call_give(call, 0, view_new(call->l, &step->output));
    return call_memory(call);
}

/* auto_pad and output_shape say the size of the output, and pads follow. */
static enum ps_status deconvolution_pads(const struct call *call, const struct view *x, struct window *window) {
    const struct onnx_attribute *shape = onnx_attribute(call->node, "output_shape");
    const char *automatic = onnx_string(call->node, "auto_pad", "NOTSET");
    const bool same = strncmp(automatic, "SAME", 4) == 0, upper = strcmp(automatic, "SAME_UPPER") == 0;
    const int sides = x->rank - 2;
    if (shape != NULL && shape->count != sides && shape->count != x->rank)
        return call_refuse(call, "its output_shape does not fit");
    for (int s = 0; s < sides && (shape != NULL || same); s++) {
        struct window *w = &window[s];
        const int64_t size = x->dims[2 + s], full = (size - 1) * w->stride + (w->kernel - 1) * w->dilation + 1 + w->more;
        const int64_t wanted = shape != NULL ? shape->ints[shape->count - sides + s] : size * w->stride;
        const int64_t all = full - wanted, half = all / 2;
        if (wanted < 1 || wanted > 1 << 20 || all > 1 << 14) return call_refuse(call, "its output_shape does not fit");
        w->before = all < 0 ? 0 : upper ? half : all - half;
        w->after = all < 0 ? 0 : all - w->before;
        if (all < 0) w->more -= all;
        if (w->more >= w->stride && w->more >= w->dilation && w->more > 0)
            return call_refuse(call, "its output_shape is larger than what its windows reach");
    }
    return PS_OK;
}

/* A parameter as it stands; or what was one before the exporter changed it, which is refused when it is emitted. */
static bool is_own(const struct lowering *l, const struct view *v) {
    const struct step *step = l->steps[v->step];
    bool same = view_is_parameter(l, v) != NULL && (step->kind == STEP_PARAMETER || step->tensor->unsaid) &&
                step->output.rank == v->rank;
    for (int d = 0; d < v->rank && same; d++) same = step->output.dims[d] == v->dims[d];
    return same;
}

/* More before and after each dimension. */
static enum ps_status pad_step(const struct call *call, struct view *x, const char *mode, const int64_t *before,
                               const int64_t *after, double value, struct view **out) {
    int64_t dims[ONNX_RANK_MAX];
    int from[ONNX_RANK_MAX];
    bool any = false;
    *out = x;
    for (int d = 0; d < x->rank; d++) {
        const bool here = before[d] != 0 || after[d] != 0;
        dims[d] = x->dims[d] + before[d] + after[d];
        from[d] = here ? -1 : d;
        any = any || here;
        if (here) TRY(call_needs_apart(call, x, d));
        if (dims[d] < 1) return call_refuse(call, "nothing would be left of its input");
    }
    if (!any) return PS_OK;
    struct step *step = step_add(call->l, STEP_PAD, call->node, 1);
    if (step == NULL) return call_memory(call);
    step->inputs[0] = x;
    step->function = mode;
    step->alpha = (float)call_finite(value);
    memcpy(step->before, before, (size_t)x->rank * sizeof *before);
    memcpy(step->after, after, (size_t)x->rank * sizeof *after);
    TRY(call_output(call, step, x, x->rank, dims, from));
    *out = view_new(call->l, &step->output);
    return call_memory(call);
}

/*
 * With a weight that is computed, as by weight norms, or constant: what each place of the kernel sees, side by side, times the
 * weight. With G groups of C channels and k places (N, G, positions, k C) by (G, k C, channels of a group).
 */
static enum ps_status convolve_by_product(const struct call *call, struct view *x, struct view *w, struct view *b,
                                          int64_t groups) {
    static const int positions_first[] = {0, 1, 3, 2}, places_first[] = {0, 3, 2, 1};
    const int sides = x->rank - 2;
    const int64_t kernel[2] = {w->dims[2], sides > 1 ? w->dims[3] : 1}, taps = kernel[0] * kernel[1], channels = w->dims[1];
    int64_t before[ONNX_RANK_MAX] = {0}, after[ONNX_RANK_MAX] = {0}, out[2] = {1, 1};
    struct window window[2];
    struct view made, turned, *y, *weight = view_new(call->l, w), **parts;
    TRY(windows(call, x, w->dims + 2, window));
    for (int s = 0; s < sides; s++) {
        before[2 + s] = window[s].before;
        after[2 + s] = window[s].after;
        out[s] = window_positions(&window[s], x->dims[2 + s], false);
        if (out[s] < 1) return call_refuse(call, "its kernel does not fit into its input");
    }
    const int64_t seen[5] = {x->dims[0], groups, channels, out[0], out[1]},
                  columns[4] = {x->dims[0], groups, taps * channels, out[0] * out[1]},
                  grouped[4] = {groups, w->dims[0] / groups, channels, taps},
                  rows[3] = {groups, taps * channels, w->dims[0] / groups},
                  result[4] = {x->dims[0], w->dims[0], out[0], out[1]}, each[3] = {w->dims[0], 1, 1};
    if (taps > 1 << 16) return call_refuse(call, "its kernel has more than 65,536 places");
    TRY(pad_step(call, x, "constant", before, after, 0, &x));
    parts = arena_take(&call->l->arena, (size_t)taps, sizeof *parts);
    if (parts == NULL || weight == NULL) return call_memory(call);
    for (int64_t t = 0; t < taps; t++) {
        const int64_t place[2] = {t / kernel[1], t % kernel[1]};
        parts[t] = view_new(call->l, x);
        if (parts[t] == NULL) return call_memory(call);
        for (int s = 0; s < sides; s++)
            TRY(lower_slice_axis(call, &parts[t], 2 + s, place[s] * window[s].dilation, out[s], window[s].stride));
        TRY(view_reshape(call->l, parts[t], 5, seen, &made));
        *parts[t] = made;
    }
    TRY(lower_concat_many(call, parts, taps, 2, &y));
    TRY(view_reshape(call->l, y, 4, columns, &made));
    TRY(view_transpose(&made, positions_first, y));
    TRY(view_reshape(call->l, w, 4, grouped, &made));
    TRY(view_transpose(&made, places_first, &turned));
    TRY(view_reshape(call->l, &turned, 3, rows, weight));
    TRY(lower_product_step(call, y, weight, &y));
    TRY(view_transpose(y, positions_first, &made));
    TRY(view_reshape(call->l, &made, x->rank, result, y));
    if (b != NULL) {
        TRY(view_reshape(call->l, b, x->rank - 1, each, &made));
        TRY(lower_binary_step(call, "add", y, &made, &y));
    }
    log_warn(
        "%s: node '%.100s' (%s): its weight is no parameter as it stands, so that it is a product of what its windows see, "
        "which is slow",
        call->l->path, call->node->name, call->node->op);
    call_give(call, 0, y);
    return call_memory(call);
}

enum ps_status lower_convolution(const struct call *call) {
    const bool turned = strcmp(call->node->op, "ConvTranspose") == 0;
    const struct onnx_attribute *more = onnx_attribute(call->node, "output_padding");
    struct view *x, *w, *b = NULL;
    const int64_t groups = onnx_int(call->node, "group", 1);
    double zero;
    TRY(call_view(call, 0, &x));
    TRY(call_view(call, 1, &w));
    if (call_given(call, 2) && !(tensor_uniform(call_constant(call, 2), &zero) && zero == 0)) TRY(call_view(call, 2, &b));
    if (x->rank < 3 || w->rank != x->rank || groups < 1 || groups > 1 << 24 || w->dims[1] > (1 << 24) / groups ||
        x->dims[1] != (turned ? w->dims[0] : w->dims[1] * groups))
        return call_refuse(call, "its input and weight do not fit together");
    const bool own = is_own(call->l, w) && (b == NULL || is_own(call->l, b));
    if (!own && (turned || w->dims[0] % groups != 0)) return call_refuse(call, "its weight must be a parameter as it stands");
    if (!own) return convolve_by_product(call, x, w, b, groups);
    if (more != NULL && more->count != x->rank - 2) return call_refuse(call, "its output_padding does not fit");
    struct step *step = step_add(call->l, turned ? STEP_DECONVOLUTION : STEP_CONVOLUTION, call->node, 1);
    if (step == NULL) return call_memory(call);
    TRY(windows(call, x, w->dims + 2, step->window));
    for (int s = 0; more != NULL && s < more->count; s++) {
        step->window[s].more = more->ints[s];
        if (more->ints[s] < 0 || more->ints[s] >= step->window[s].stride * step->window[s].dilation)
            return call_refuse(call, "its output_padding does not fit");
    }
    if (turned) TRY(deconvolution_pads(call, x, step->window));
    step->attributes.groups = (int)groups;
    step->attributes.channels = (int)(turned ? w->dims[1] * groups : w->dims[0]);
    step->attributes.bias = b != NULL;
    step->inputs[0] = x;
    step->parameters[0] = w;
    step->parameters[1] = b;
    return window_output(call, step, x, step->attributes.channels);
}

enum ps_status lower_pool(const struct call *call) {
    const struct onnx_attribute *kernel = onnx_attribute(call->node, "kernel_shape");
    struct view *x;
    TRY(call_view(call, 0, &x));
    if (kernel == NULL || kernel->count != x->rank - 2) return call_refuse(call, "its kernel does not fit");
    const bool largest = call->row->function[0] == 'm';
    struct window window[2];
    TRY(windows(call, x, kernel->ints, window));
    bool same = true; /* each window is one element */
    for (int side = 0; side < 2; side++)
        same = same && window[side].kernel == 1 && window[side].stride == 1 && window[side].before + window[side].after == 0;
    if (same) {
        call_give(call, 0, x);
        return PS_OK;
    }
    struct step *step = step_add(call->l, STEP_POOL, call->node, 1);
    if (step == NULL) return call_memory(call);
    step->function = largest ? "max_pool" : "average_pool";
    step->attributes.ceiling = onnx_int(call->node, "ceil_mode", 0) != 0;
    step->attributes.count_padding = !largest && onnx_int(call->node, "count_include_pad", 0) != 0;
    memcpy(step->window, window, sizeof window);
    step->inputs[0] = x;
    return window_output(call, step, x, x->dims[1]);
}

enum ps_status lower_pad(const struct call *call) {
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
    const struct tensor *pads = call_constant(call, 1), *axes = call_constant(call, 3);
    const char *mode = onnx_string(call->node, "mode", "constant");
    int64_t before[ONNX_RANK_MAX] = {0}, after[ONNX_RANK_MAX] = {0};
    int known = 0;
    double value = 0;
    struct view *x;
    TRY(call_view(call, 0, &x));
    if (pads == NULL || pads->whole == NULL || (call_given(call, 3) && (axes == NULL || axes->whole == NULL)))
        return call_refuse(call, "its pads depend on the data");
    if (call_given(call, 2) && !tensor_uniform(call_constant(call, 2), &value))
        return call_refuse(call, "its value depends on the data");
    const int64_t count = axes != NULL ? axes->elements : x->rank;
    if (pads->elements != 2 * count) return call_refuse(call, "its pads do not fit");
    for (int64_t i = 0; i < count; i++) {
        int axis;
        TRY(fold_axis(axes != NULL ? axes->whole[i] : i, x->rank, &axis, call->error));
        before[axis] = pads->whole[i];
        after[axis] = pads->whole[count + i];
        if (before[axis] < -(1 << 20) || before[axis] > 1 << 20 || after[axis] < -(1 << 20) || after[axis] > 1 << 20)
            return call_refuse(call, "its pads do not fit");
    }
    while (known < 4 && strcmp(modes[known], mode) != 0) known++;
    if (known == 4) return call_refuse(call, "its mode is not known");
    TRY(pad_step(call, x, modes[known], before, after, value, &x));
    call_give(call, 0, x);
    return PS_OK;
}

/* The scale or size of each dimension of Resize; `usual` of those that it does not name, and of all where nothing is said.
 * Sizes that keep the picture's proportions are the smallest, or the largest, of what the sides would be. */
static enum ps_status resize_numbers(const struct call *call, const struct view *x, const struct tensor *numbers, double usual,
                                     double *out) {
    const struct onnx_attribute *axes = onnx_attribute(call->node, "axes");
    const char *policy = onnx_string(call->node, "keep_aspect_ratio_policy", "stretch");
    const bool smaller = strcmp(policy, "not_larger") == 0, larger = strcmp(policy, "not_smaller") == 0;
    const int count = axes != NULL ? axes->count : x->rank;
    double scale = 0;
    for (int d = 0; d < x->rank; d++)
        out[d] = numbers != NULL && numbers->elements > 0 && usual == 0 ? (double)x->dims[d] : usual;
    if (numbers == NULL || numbers->elements == 0) return PS_OK;
    if (numbers->elements != count) return call_refuse(call, "its sizes do not fit");
    for (int i = 0; i < count; i++) {
        int d;
        TRY(fold_axis(axes != NULL ? axes->ints[i] : i, x->rank, &d, call->error));
        out[d] = numbers->reals != NULL ? numbers->reals[i] : (double)numbers->whole[i];
        if (!(out[d] > 0)) return call_refuse(call, "its sizes do not fit");
        const double here = out[d] / (double)x->dims[d];
        if (i == 0 || (smaller ? here < scale : here > scale)) scale = here;
    }
    for (int i = 0; i < count && usual == 0 && (smaller || larger); i++) {
        int d;
        TRY(fold_axis(axes != NULL ? axes->ints[i] : i, x->rank, &d, call->error));
        out[d] = floor(scale * (double)x->dims[d] + 0.5);
    }
    return PS_OK;
}

enum ps_status lower_resize(const struct call *call) {
    const char *mode = onnx_string(call->node, "mode", "nearest");
    const char *coordinates = onnx_string(call->node, "coordinate_transformation_mode", "half_pixel");
    const char *rounding = onnx_string(call->node, "nearest_mode", "round_prefer_floor");
    const struct tensor *scales = call_constant(call, 2), *sizes = call_constant(call, 3);
    int64_t dims[ONNX_RANK_MAX];
    int from[ONNX_RANK_MAX];
    struct view *x;
    TRY(call_view(call, 0, &x));
    if ((call_given(call, 2) && scales == NULL) || (call_given(call, 3) && sizes == NULL))
        return call_refuse(call, "its sizes depend on the data");
    if (x->rank != 3 && x->rank != 4) return call_refuse(call, "images and sequences can be resized");
    double factor[ONNX_RANK_MAX], pixels[ONNX_RANK_MAX];
    TRY(resize_numbers(call, x, scales, 1, factor));
    TRY(resize_numbers(call, x, sizes, 0, pixels));
    /* Each pixel stands on itself where coordinates are of pixels' centres or of corners: all modes give the values as they
     * are, as of tables of positions that are resized to the size that they have. */
    bool same = strcmp(coordinates, "tf_crop_and_resize") != 0 && strcmp(coordinates, "tf_half_pixel_for_nn") != 0;
    for (int d = 0; d < x->rank && same; d++) same = pixels[d] > 0 ? pixels[d] == (double)x->dims[d] : factor[d] == 1;
    if (same) {
        call_give(call, 0, x);
        return PS_OK;
    }
    if (onnx_int(call->node, "antialias", 0) != 0 || onnx_int(call->node, "exclude_outside", 0) != 0)
        return call_refuse(call, "antialias and exclude_outside are known only where the size stays");
    struct step *step = step_add(call->l, STEP_RESIZE, call->node, 1);
    if (step == NULL) return call_memory(call);
    for (int d = 0; d < x->rank; d++) {
        const double scale = factor[d], size = pixels[d];
        const double wanted = size > 0 ? size : floor((double)x->dims[d] * scale);
        if (!(wanted >= 1 && wanted <= 1 << 20)) return call_refuse(call, "its sizes do not fit");
        dims[d] = (int64_t)wanted;
        from[d] = d < 2 ? d : -1;
        if (d < 2 && dims[d] != x->dims[d]) return call_refuse(call, "only height and width can be resized");
        if (d >= 2) TRY(call_needs_apart(call, x, d));
        if (d >= 2) step->scale[d - 2] = size > 0 ? 0 : scale;
    }
    step->inputs[0] = x;
    step->function = mode;
    step->words[0] = coordinates;
    step->words[1] = rounding;
    step->alpha = onnx_float(call->node, "cubic_coeff_a", -0.75f);
    TRY(call_output(call, step, x, x->rank, dims, from));
    call_give(call, 0, view_new(call->l, &step->output));
    return call_memory(call);
}
