/* The public view of every table of the library: names and one-line summaries, in the tables' own order. */
#include "comm/transport.h"
#include "compute/device.h"
#include "compute/optimizer.h"
#include "data/dataset.h"
#include "exec/learning_rate.h"
#include "graph/model.h"
#include "plan/partitioner.h"
#include "plan/planner.h"
#include "profile/modelled.h"
#include "program/lower.h"

/* Entries of a table are structs of their own; all have a name and a summary. */
#define VIEW(function, table)                                                                                                  \
    static bool function(size_t index, struct ps_entry *entry) {                                                               \
        if (!table[index]) return false;                                                                                       \
        *entry = (struct ps_entry){.name = table[index]->name, .summary = table[index]->summary};                              \
        return true;                                                                                                           \
    }

VIEW(view_model, model_table)
VIEW(view_schedule, schedule_table)
VIEW(view_policy, policy_table)
VIEW(view_partitioner, partitioner_table)
VIEW(view_planner, planner_table)
VIEW(view_optimizer, optimizer_table)
VIEW(view_device, device_table)
VIEW(view_modelled, modelled_table)
VIEW(view_transport, transport_table)
VIEW(view_dataset, dataset_table)
VIEW(view_learning_rate, learning_rate_table)

/* One table after the other. */
#define VIEW_BOTH(function, first, first_table, second)                                                                        \
    static bool function(size_t index, struct ps_entry *entry) {                                                               \
        size_t count = 0;                                                                                                      \
        while (first_table[count]) count++;                                                                                    \
        return index < count ? first(index, entry) : second(index - count, entry);                                             \
    }

VIEW_BOTH(view_method, view_partitioner, partitioner_table, view_planner)
VIEW_BOTH(view_profile_device, view_device, device_table, view_modelled)

/* False past the table's end. */
static bool (*const views[PS_TABLE_COUNT])(size_t index, struct ps_entry *entry) = {
    [PS_TABLE_MODELS] = view_model,
    [PS_TABLE_SCHEDULES] = view_schedule,
    [PS_TABLE_POLICIES] = view_policy,
    [PS_TABLE_METHODS] = view_method,
    [PS_TABLE_OPTIMIZERS] = view_optimizer,
    [PS_TABLE_DEVICES] = view_device,
    [PS_TABLE_PROFILE_DEVICES] = view_profile_device,
    [PS_TABLE_TRANSPORTS] = view_transport,
    [PS_TABLE_DATASETS] = view_dataset,
    [PS_TABLE_LEARNING_RATES] = view_learning_rate,
};

size_t ps_table_count(enum ps_table table) {
    struct ps_entry entry;
    size_t count = 0;
    while (views[table](count, &entry)) count++;
    return count;
}

struct ps_entry ps_table_entry(enum ps_table table, size_t index) {
    struct ps_entry entry = {0};
    views[table](index, &entry);
    return entry;
}
