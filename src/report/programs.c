/* How verified programs are shown: what each worker keeps of the weights, and how stale its gradients are. */
#include <stdlib.h>

#include "program/lower.h"
#include "report/parts.h"

/* Of one worker, the most of any stage that it holds. */
struct worker_facts {
    int weight_copies, staleness;
};

/* Free with free(); NULL: out of memory. */
static struct worker_facts *count_facts(const struct ps_programs *programs) {
    struct version_table versions;
    struct worker_facts *facts = calloc((size_t)programs->workers, sizeof *facts);
    if (!facts || version_table_count(programs, &versions, NULL) != PS_OK) {
        free(facts);
        return NULL;
    }
    for (int p = 0; p < programs->instance_count; p++) {
        const struct instance *instance = &programs->instances[p];
        struct worker_facts *worker = &facts[instance->worker];
        int staleness = instance->backward ? version_table_staleness(&versions, instance->stage) : 0;
        if (programs->slots[p].weights > worker->weight_copies) worker->weight_copies = programs->slots[p].weights;
        if (staleness > worker->staleness) worker->staleness = staleness;
    }
    version_table_free(&versions);
    return facts;
}

char *ps_programs_table(const struct ps_programs *programs) {
    struct worker_facts *facts = count_facts(programs);
    if (!facts) return NULL;
    struct text rows = {0}, text = {0};
    text_add(&rows, "worker\tinstructions\tweight copies\tlargest staleness\n");
    for (int w = 0; w < programs->workers; w++)
        text_add(&rows, "%d\t%d\t%d\t%d\n", w, programs->worker[w].count, facts[w].weight_copies, facts[w].staleness);
    text_add_table(&text, &rows);
    free(facts);
    return text_take(&text);
}

char *ps_programs_json(const struct ps_programs *programs) {
    struct worker_facts *facts = count_facts(programs);
    char *listing = ps_programs_print(programs);
    json_t *workers = json_array(), *root = NULL;
    for (int w = 0; facts && w < programs->workers; w++)
        json_array_append_new(workers, json_pack("{s:i, s:i, s:i}", "instructions", programs->worker[w].count, "weight_copies",
                                                 facts[w].weight_copies, "staleness", facts[w].staleness));
    if (facts && listing) root = json_pack("{s:b, s:O, s:s}", "verified", 1, "workers", workers, "listing", listing);
    json_decref(workers);
    free(listing);
    free(facts);
    return root ? json_text(root) : NULL;
}
