/*
 * Bi-Partition where neither transfers nor memory count: a lower bound for all other cases, and their answer where its plan
 * happens to fit.
 *
 * If workers k..P-1 can do all but the first i forward and j backward layers, they can do less. So of all j only the least
 * counts, J_k(i), and with F and B of worker k's type
 *
 *     J_k(i) = the least j with B[j] >= min over i2 >= i with F[i2] - F[i] <= T_k of ( F[i2] + B[J_k+1(i2)] ) - T_k - F[i]
 *
 * (where J_k+1(i2) <= j the condition on i2 says all). While i falls the range of i2 falls too, and j rises: a queue of minima
 * and one pointer, O(L) per worker.
 */
#include <math.h>
#include <stdlib.h>

#include "plan/planners/bipartition.h"

struct staircase {
    const struct bipartition *data;
    int *least_j; /* [k][i], k to workers; layers + 1: not possible */
    int *next_i;  /* [k][i]: what the next worker begins with */
    int *queue;   /* of i2, their values rising */
    int64_t *value;
};

static void find_row(struct staircase *stairs, int k, double period_ns) {
    const struct bipartition *data = stairs->data;
    const int64_t *forward = data->worker[k]->forward_ns, *backward = data->worker[k]->backward_ns;
    int side = data->layers + 1, none = side, *queue = stairs->queue;
    const int *after = &stairs->least_j[(k + 1) * side];
    int *least_j = &stairs->least_j[k * side], *next_i = &stairs->next_i[k * side];
    int64_t room = bipartition_room_ns(data, k, period_ns), *value = stairs->value;
    int first = 0, end = 0; /* of the queue */
    for (int i = data->layers, j = 0; i >= 0; i--) {
        if (after[i] < none) {
            int64_t own = forward[i] + backward[after[i]];
            while (end > first && value[end - 1] >= own) end--;
            queue[end] = i;
            value[end++] = own;
        }
        while (first < end && forward[queue[first]] - forward[i] > room) first++;
        if (first == end) {
            least_j[i] = none;
            continue;
        }
        int64_t needed = value[first] - room - forward[i];
        while (backward[j] < needed) j++;
        least_j[i] = j;
        next_i[i] = queue[first];
    }
}

static void read_cuts(const struct staircase *stairs, int *i, int *j) {
    int side = stairs->data->layers + 1;
    i[0] = j[0] = 0;
    for (int k = 0; k < stairs->data->workers; k++) {
        i[k + 1] = stairs->next_i[k * side + i[k]];
        int least = stairs->least_j[(k + 1) * side + i[k + 1]];
        j[k + 1] = least > j[k] ? least : j[k];
    }
}

static enum ps_status find(void *context, double period_ns, int *i, int *j, double *found_ns, struct ps_error *error) {
    (void)error;
    struct staircase *stairs = context;
    for (int k = stairs->data->workers - 1; k >= 0; k--) find_row(stairs, k, period_ns);
    *found_ns = INFINITY;
    if (stairs->least_j[0] > 0) return PS_OK;
    read_cuts(stairs, i, j);
    *found_ns = bipartition_longest_load_ns(stairs->data, i, j);
    return PS_OK;
}

/* No plan is faster: all work shared by all, or the largest piece that one worker must do. */
static double bound_ns(const struct bipartition *data) {
    const int64_t *forward = data->forward_ns, *backward = data->backward_ns;
    double speeds = 0, fastest = 0, largest = 0;
    for (int k = 0; k < data->workers; k++) {
        speeds += data->problem->cluster->devices[k].speed;
        fastest = fmax(fastest, data->problem->cluster->devices[k].speed);
    }
    for (int l = 0; l < data->layers; l++) {
        largest = fmax(largest, (double)(forward[l + 1] - forward[l]));
        largest = fmax(largest, (double)(backward[l + 1] - backward[l]));
    }
    return fmax((double)(forward[data->layers] + backward[data->layers]) / speeds, largest / fastest);
}

enum ps_status bipartition_free_least(const struct bipartition *data, int *i, int *j, double *period_ns,
                                      struct ps_error *error) {
    size_t side = (size_t)data->layers + 1, rows = (size_t)data->workers + 1;
    struct staircase stairs = {.data = data,
                               .least_j = malloc(rows * side * sizeof(int)),
                               .next_i = malloc(rows * side * sizeof(int)),
                               .queue = malloc(side * sizeof(int)),
                               .value = malloc(side * sizeof(int64_t))};
    enum ps_status status = PS_OK;
    if (stairs.least_j && stairs.next_i && stairs.queue && stairs.value) {
        int *last = &stairs.least_j[(rows - 1) * side];
        for (size_t l = 0; l + 1 < side; l++) last[l] = (int)side;
        last[side - 1] = data->layers;
        struct bipartition_test test = {find, &stairs};
        status = bipartition_least(&test, bound_ns(data), INFINITY, INFINITY, i, j, period_ns, error);
    } else {
        status = error_memory(error, "the tables of the planner", 2 * rows * side * sizeof(int));
    }
    free(stairs.least_j);
    free(stairs.next_i);
    free(stairs.queue);
    free(stairs.value);
    return status;
}
