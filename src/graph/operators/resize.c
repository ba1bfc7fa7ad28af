/*
 * Resizes an image to `out` (height, width): each output pixel is a weighted mean of input pixels, along both sides alike, as
 * ONNX's Resize and PyTorch's interpolate. Reads out, mode, coordinates, rounding, cubic (0: -0.75) and scale_h, scale_w (0:
 * the ratio of the sides). Pixel i of the output lies at the input's
 *
 *     half_pixel          (i + 1/2) / scale - 1/2     (PyTorch with align_corners=False)
 *     pytorch_half_pixel  the same, but 0 for a side of 1 pixel
 *     align_corners       i (size - 1) / (out - 1)
 *     asymmetric          i / scale
 *
 * nearest takes the pixel that `rounding` says (PyTorch's nearest: asymmetric with floor; nearest-exact: half_pixel with
 * round_prefer_floor); linear weighs 2 of them, cubic 4, with the coefficient `cubic` (Keys, 1981). Pixels outside are those at
 * the edge.
 */
#include "graph/operators.h"

static const char *const resize_modes[] = {"nearest", "linear", "cubic"};
static const char *const coordinate_names[] = {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"};
static const char *const rounding_names[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};

static enum ps_status infer(struct operation *op) {
    struct attributes *a = op->attributes;
    TRY(require_image(op->inputs, op->error));
    if (a->out_h < 1 || a->out_w < 1) {
        return error_set(op->error, PS_USAGE, "out %dx%d: an image has at least one pixel", a->out_h, a->out_w);
    }
    op->output = (struct shape){.rank = 3, .dim = {op->inputs->dim[0], a->out_h, a->out_w}};
    return PS_OK;
}

static double flops(const struct operation *op) {
    const double pixels[] = {1, 4, 16};
    return 2 * pixels[op->attributes->mode] * (double)shape_elements(&op->output);
}

const struct operator_type operator_resize = {
    .name = "resize",
    .attributes = {SIDES("out", out_h, 1, SIDE_MAX, REQUIRED), CHOICE(mode, resize_modes, RESIZE_NEAREST),
                   CHOICE(coordinates, coordinate_names, COORDINATES_HALF_PIXEL),
                   CHOICE(rounding, rounding_names, ROUNDING_HALF_DOWN), NUMBER(cubic, -2, 2, -0.75),
                   NUMBER(scale_h, 0, 1e6, 0), NUMBER(scale_w, 0, 1e6, 0)},
    .flags = OPERATOR_IMAGES | OPERATOR_STARTS_LAYER,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .flops = flops,
};
