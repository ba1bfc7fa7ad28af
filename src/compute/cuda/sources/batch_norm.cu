/*
 * Batch normalisation; as reference/batch_norm.c. An activation is a matrix of R = N H W rows, of which a.number[0] says how
 * many, and FEATURES columns; vectors below have an element a column.
 *
 *     y = (x - mean) inverse gamma + beta,   inverse = 1 / sqrt(variance + epsilon)
 *     dgamma = inverse sum dy (x - mean),  dbeta = sum dy
 *     dx = gamma inverse (dy - dbeta / R - (x - mean) inverse dgamma / R)
 *
 * The rows are divided into a.number[1] pieces, and the columns into tiles of LANES vectors: a block has a tile of a piece,
 * LINES rows at a time. Sums go over x - k and (x - k)^2 with k the first row, in `real`; those of the pieces are added in
 * double. With double_precision everything is double and what is written is rounded once, as cpu/batch_norm.c says.
 *
 * With RELU the forward applies the one that follows.
 *
 * Inner memory holds mean and inverse of training, `real` as the workspace's two sums of the backward, sum dy and dgamma.
 * a.more[0]: sums of pieces. Outside of training mean and inverse come from the running statistics, and do not depend on x.
 */
#if A_double_precision
typedef double real;
#define ROOT(number) sqrt(number)
#else
typedef float real;
#define ROOT(number) sqrtf(number)
#endif

#ifdef HOST
#undef LANES
#define LANES 1
enum { LINES = 1, FINISH_LANES = 1, FINISH_LINES = 1 };
#else
enum { LINES = 256 / LANES, FINISH_LANES = 8, FINISH_LINES = 32 };
#endif
enum { WIDTH = LANES * VECTOR, TILES = (FEATURES + WIDTH - 1) / WIDTH };

#define EACH_NUMBER(j) UNROLL for (int j = 0; j < VECTOR; j++)

/* Vectors that a thread loads together: with fewer in the pass that holds most in registers, all its blocks run at once. */
enum { DEPTH = 4, SHALLOW = 2 };
#define EACH_DEPTH(d, depth) UNROLL for (int d = 0; d < depth; d++)

/* A block's tile of a piece of the rows, and this thread's place in it. */
struct place {
    int64_t piece, row, end; /* row: the thread's first */
    int line, lane, column;  /* column: its first of VECTOR; FEATURES or more: it has none */
};

DEVICE struct place place_of(const struct call *a, int64_t work) {
    const int64_t rows = a->number[0], pieces = a->number[1], each = (rows + pieces - 1) / pieces;
    struct place p;
    p.piece = work / TILES;
    p.line = THREAD / LANES;
    p.lane = THREAD % LANES;
    p.row = p.piece * each + p.line;
    p.end = (p.piece + 1) * each < rows ? (p.piece + 1) * each : rows;
    p.column = (int)(work % TILES) * WIDTH + p.lane * VECTOR;
    return p;
}

#define EACH_PLACE(work) for (int64_t work = BLOCK; work < TILES * a.number[1]; work += BLOCKS)

/* So many vectors of the thread's column, LINES rows apart; those beyond the piece's end stay as they are. */
#define LOAD(type, block, row, p, depth, numbers)                                                                              \
    EACH_DEPTH(d, depth) if ((row) + d * LINES < (p).end)                                                                      \
        GET_VECTOR(type, block, ((row) + d * LINES) * FEATURES + (p).column, numbers[d]);

DEVICE real mean_of(const struct call *a, int column) {
    return a->training ? ((const real *)a->inner)[column] : (real)a->statistics[2][column];
}
DEVICE real inverse_of(const struct call *a, int column) {
    return a->training ? ((const real *)a->inner)[FEATURES + column] : 1 / ROOT((real)a->statistics[3][column] + A_epsilon);
}

/* ----------------------------------------------------------------------- sums */

/* Two sums of each column over a piece: of x - k and its square, or of dy and dy (x - mean). */
DEVICE void sum_up(const struct call *a, const struct place *p, int backward, real sums[2][VECTOR]) {
    real from[VECTOR];
    EACH_NUMBER(j) sums[0][j] = sums[1][j] = 0;
    if (p->column >= FEATURES) return;
    EACH_NUMBER(j)
    from[j] = backward ? mean_of(a, p->column + j) : (real)GET(X0, a->input[0].value, p->column + j);
    for (int64_t row = p->row; row < p->end; row += DEPTH * LINES) {
        float x[DEPTH][VECTOR], dy[DEPTH][VECTOR];
        LOAD(X0, a->input[0].value, row, *p, DEPTH, x)
        if (backward) { LOAD(Y, a->output_gradient, row, *p, DEPTH, dy) }
        EACH_DEPTH(d, DEPTH) if (row + d * LINES < p->end) EACH_NUMBER(j) {
            const real distance = (real)x[d][j] - from[j], term = backward ? (real)dy[d][j] : distance;
            sums[0][j] += term, sums[1][j] += term * distance;
        }
    }
}

DEVICE void sum_pieces(const struct call *a, int64_t work, int backward) {
    SHARED real parts[2][LINES][WIDTH];
    const struct place p = place_of(a, work);
    const int first = p.column - p.lane * VECTOR;
    real sums[2][VECTOR];
    sum_up(a, &p, backward, sums);
    BARRIER();
    EACH_NUMBER(j) {
        parts[0][p.line][p.lane * VECTOR + j] = sums[0][j];
        parts[1][p.line][p.lane * VECTOR + j] = sums[1][j];
    }
    BARRIER();
    for (int i = THREAD; i < 2 * WIDTH; i += THREADS) {
        const int s = i / WIDTH, c = i % WIDTH;
        real sum = parts[s][0][c];
        for (int l = 1; l < LINES; l++) sum += parts[s][l][c];
        if (first + c < FEATURES) ((real *)a->more[0])[(s * a->number[1] + p.piece) * FEATURES + first + c] = sum;
    }
}

KERNEL(measure) {
    EACH_PLACE(work) sum_pieces(&a, work, 0);
}

KERNEL(sum_gradients) {
    EACH_PLACE(work) sum_pieces(&a, work, 1);
}

/* The sums of all pieces, of FINISH_LANES columns; true for the thread that stores those of `column`. */
DEVICE int add_pieces(const struct call *a, int64_t work, int *column, double sums[2]) {
    SHARED double parts[2][FINISH_LINES][FINISH_LANES];
    const int line = THREAD / FINISH_LANES, lane = THREAD % FINISH_LANES;
    const int64_t pieces = a->number[1];
    *column = (int)work * FINISH_LANES + lane;
    for (int s = 0; s < 2; s++) {
        sums[s] = 0;
        for (int64_t piece = line; piece < pieces && *column < FEATURES; piece += FINISH_LINES)
            sums[s] += (double)((const real *)a->more[0])[(s * pieces + piece) * FEATURES + *column];
    }
    BARRIER();
    for (int s = 0; s < 2; s++) parts[s][line][lane] = sums[s];
    BARRIER();
    for (int l = 1; l < FINISH_LINES && line == 0; l++)
        for (int s = 0; s < 2; s++) sums[s] += parts[s][l][lane];
    return line == 0 && *column < FEATURES;
}

#define EACH_FINISH(work) for (int64_t work = BLOCK; work * FINISH_LANES < FEATURES; work += BLOCKS)

DEVICE void move(float *running, double value) {
    *running = (float)((1 - (double)A_momentum) * (double)*running + (double)A_momentum * value);
}

KERNEL(finish_measure) {
    const double rows = (double)a.number[0];
    EACH_FINISH(work) {
        double sums[2];
        int column;
        if (!add_pieces(&a, work, &column, sums)) continue;
        const double apart = sums[1] - sums[0] * sums[0] / rows, distance = apart < 0 ? 0 : apart;
        const double mean = (double)GET(X0, a.input[0].value, column) + sums[0] / rows;
        ((real *)a.inner)[column] = (real)mean;
        ((real *)a.inner)[FEATURES + column] = (real)(1 / sqrt(distance / rows + (double)A_epsilon));
        if (!a.update_statistics) continue;
        move(&a.statistics[2][column], mean);
        move(&a.statistics[3][column], distance / (rows > 1 ? rows - 1 : 1));
    }
}

KERNEL(finish_gradients) {
    EACH_FINISH(work) {
        double sums[2];
        int column;
        if (!add_pieces(&a, work, &column, sums)) continue;
        ((real *)a.workspace)[column] = (real)sums[0];
        ((real *)a.workspace)[FEATURES + column] = (real)(sums[1] * (double)inverse_of(&a, column));
    }
}

/* --------------------------------------------------------------------- passes */

KERNEL(normalise) {
    EACH_PLACE(work) {
        const struct place p = place_of(&a, work);
        real mean[VECTOR], scale[VECTOR], shift[VECTOR];
        if (p.column >= FEATURES) continue;
        EACH_NUMBER(j) {
            mean[j] = mean_of(&a, p.column + j);
            scale[j] = (real)GET(W0, a.weights[0], p.column + j) * inverse_of(&a, p.column + j);
            shift[j] = (real)GET(W1, a.weights[1], p.column + j);
        }
        for (int64_t row = p.row; row < p.end; row += DEPTH * LINES) {
            float x[DEPTH][VECTOR];
            LOAD(X0, a.input[0].value, row, p, DEPTH, x)
            EACH_DEPTH(d, DEPTH) if (row + d * LINES < p.end) {
                EACH_NUMBER(j) {
                    x[d][j] = (float)(((real)x[d][j] - mean[j]) * scale[j] + shift[j]);
                    if (RELU && x[d][j] < 0) x[d][j] = 0;
                }
                PUT_VECTOR(Y, a.output, (row + d * LINES) * FEATURES + p.column, x[d]);
            }
        }
    }
}

KERNEL(backward_input) {
    const real share = a.training ? 1 / (real)a.number[0] : 0;
    EACH_PLACE(work) {
        const struct place p = place_of(&a, work);
        real mean[VECTOR], scale[VECTOR], bias[VECTOR], weight[VECTOR];
        if (p.column >= FEATURES) continue;
        EACH_NUMBER(j) {
            const real inverse = inverse_of(&a, p.column + j);
            mean[j] = mean_of(&a, p.column + j);
            scale[j] = (real)GET(W0, a.weights[0], p.column + j) * inverse;
            bias[j] = ((const real *)a.workspace)[p.column + j] * share;
            weight[j] = ((const real *)a.workspace)[FEATURES + p.column + j] * share * inverse;
        }
        for (int64_t row = p.row; row < p.end; row += SHALLOW * LINES) {
            float x[SHALLOW][VECTOR], dy[SHALLOW][VECTOR];
            LOAD(X0, a.input[0].value, row, p, SHALLOW, x)
            LOAD(Y, a.output_gradient, row, p, SHALLOW, dy)
            EACH_DEPTH(d, SHALLOW) if (row + d * LINES < p.end) {
                EACH_NUMBER(j)
                x[d][j] = (float)(scale[j] * ((real)dy[d][j] - bias[j] - ((real)x[d][j] - mean[j]) * weight[j]));
                PUT_VECTOR(X0, a.input[0].gradient, (row + d * LINES) * FEATURES + p.column, x[d]);
            }
        }
    }
}

KERNEL(backward_weight) {
    EACH(column, a.count) {
        if (a.gradients[0]) a.gradients[0][column] = (float)((const real *)a.workspace)[FEATURES + column];
        if (a.gradients[1]) a.gradients[1][column] = (float)((const real *)a.workspace)[column];
    }
}
