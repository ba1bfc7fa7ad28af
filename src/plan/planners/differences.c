/* Longest paths between all pairs of times, kept up to date. */
#include "plan/planners/differences.h"

#include <stdlib.h>

enum ps_status differences_open(int count, struct differences *differences, struct ps_error *error) {
    size_t pairs = (size_t)count * (size_t)count;
    *differences = (struct differences){
        .count = count, .least = malloc(pairs * sizeof(int64_t)), .longer = malloc((size_t)count * sizeof(int))};
    if (!differences->least || !differences->longer)
        return error_memory(error, "the bounds of a schedule", pairs * sizeof(int64_t));
    for (size_t p = 0; p < pairs; p++) differences->least[p] = DIFFERENCES_NONE;
    for (int t = 0; t < count; t++) differences->least[(size_t)t * (size_t)count + (size_t)t] = 0;
    return PS_OK;
}

void differences_close(struct differences *differences) {
    free(differences->least);
    free(differences->longer);
    free(differences->trail);
}

/* Room for one row more. */
static bool reserve(struct differences *d) {
    if (d->trail_count + (size_t)d->count <= d->trail_capacity) return true;
    size_t capacity = 2 * d->trail_capacity + 16 * (size_t)d->count;
    struct difference_change *larger = realloc(d->trail, capacity * sizeof *larger);
    if (!larger) return false;
    d->trail = larger;
    d->trail_capacity = capacity;
    return true;
}

/* As all is closed, the path from x to y gets longer only where that from x to `to` does, and that from `from` to y. */
bool differences_add(struct differences *d, int from, int to, int64_t least) {
    if (differences_least(d, from, to) >= least) return true;
    if (differences_least(d, to, from) > -least) return false;
    const int64_t *behind = &d->least[(size_t)to * (size_t)d->count], *own = &d->least[(size_t)from * (size_t)d->count];
    int longer = 0;
    for (int y = 0; y < d->count; y++) {
        d->longer[longer] = y;
        longer += behind[y] != DIFFERENCES_NONE && least + behind[y] > own[y];
    }
    for (int x = 0; x < d->count; x++) {
        int64_t before = differences_least(d, x, from), through = before + least;
        int64_t *row = &d->least[(size_t)x * (size_t)d->count];
        if (before == DIFFERENCES_NONE || through <= row[to]) continue;
        if (!reserve(d)) {
            d->failed = true;
            return false;
        }
        for (int l = 0; l < longer; l++) {
            int y = d->longer[l];
            if (through + behind[y] <= row[y]) continue;
            d->trail[d->trail_count++] = (struct difference_change){(int32_t)(x * d->count + y), row[y]};
            row[y] = through + behind[y];
        }
    }
    return true;
}

void differences_undo(struct differences *d, size_t mark) {
    while (d->trail_count > mark) {
        struct difference_change change = d->trail[--d->trail_count];
        d->least[change.place] = change.old;
    }
}
