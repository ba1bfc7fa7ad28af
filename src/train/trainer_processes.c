/* Distributing and gathering; see trainer.h. Documents travel as the text of their files. */
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "graph/split.h"
#include "train/joint_profile.h"

/* ------------------------------------------------------------ values of parameters */

/* Names, types and shapes; the numbers follow in this order. */
static json_t *list_values(const struct values *values) {
    json_t *list = json_array();
    for (int i = 0; i < values_count(values); i++) {
        const struct array *array = values_at(values, i);
        json_t *shape = json_array();
        for (int d = 0; d < array->rank; d++) json_array_append_new(shape, json_integer(array->shape[d]));
        json_array_append_new(list,
                              json_pack("{s:s, s:i, s:o}", "name", array->name, "type", (int)array->type, "shape", shape));
    }
    return list;
}

/* Is the parameter of that name, or a slice of it, in one of this process's stages? */
static bool needs_values(const struct ps_trainer *trainer, const char *name) {
    const struct job *job = &trainer->job;
    const struct graph *graph = job->graph;
    for (int n = 0; n < graph->node_count; n++)
        for (int p = 0; p < graph->nodes[n].parameter_count; p++) {
            if (strcmp(split_whole_name(&graph->parameters[graph->nodes[n].parameter_first + p]), name) != 0) continue;
            for (int s = 0; s < job->plan->stage_count; s++) {
                const struct plan_stage *stage = &job->plan->stages[s];
                bool within = graph->nodes[n].layer >= stage->first && graph->nodes[n].layer <= stage->last;
                if (within && plan_stage_is_on(stage, trainer->processes->rank)) return true;
            }
        }
    return false;
}

static enum ps_status take_value(struct ps_trainer *trainer, const struct json_place *item, struct values *values,
                                 struct ps_error *error) {
    struct array array = {0};
    struct json_place sides;
    size_t rank, size;
    void *data;
    int type;
    TRY(json_get_string(item, "name", true, &array.name, error));
    TRY(json_get_int(item, "type", true, 0, ARRAY_TYPE_COUNT - 1, &type, error));
    TRY(json_field(item, "shape", true, &sides, error));
    TRY(json_array_length(&sides, &rank, error));
    array.type = (enum array_type)type;
    array.rank = (int)rank;
    for (int d = 0; d < array.rank; d++) array.shape[d] = json_integer_value(json_array_get(sides.value, (size_t)d));
    TRY(processes_broadcast(trainer->processes, &data, &size, error));
    array.data = data;
    if (needs_values(trainer, array.name)) return values_set(values, &array, VALUES_TAKE, error);
    free(data);
    return PS_OK;
}

/* Takes the numbers that rank 0 sends, and keeps those of this process's stages. */
static enum ps_status take_values(struct ps_trainer *trainer, const struct json_place *list, struct ps_error *error) {
    struct job *job = &trainer->job;
    struct json_place item;
    size_t count;
    TRY(json_array_length(list, &count, error));
    if (count == 0) return PS_OK;
    job->values = values_create();
    TRY(memory_check(job->values, "values of parameters", error));
    for (size_t i = 0; i < count; i++) {
        TRY(json_item(list, i, &item, error));
        TRY(take_value(trainer, &item, job->values, error));
    }
    for (int l = 0; l < job->lengths.count || l == 0; l++) job_network(job, l)->graph->values = values_share(job->values);
    return PS_OK;
}

/* One after the other, so that only the largest is held twice. */
static enum ps_status send_values(const struct ps_trainer *trainer, struct ps_error *error) {
    const struct values *values = trainer->job.values;
    for (int i = 0; i < values_count(values); i++) {
        const struct array *array = values_at(values, i);
        void *data = (void *)array->data;
        size_t size = array_bytes(array);
        TRY(processes_broadcast(trainer->processes, &data, &size, error));
    }
    return PS_OK;
}

static enum ps_status distribute_values(struct ps_trainer *trainer, struct ps_error *error) {
    static const char source[] = "the values of rank 0";
    const bool first = trainer->processes->rank == 0;
    char *text = first ? json_text(list_values(trainer->job.values)) : NULL;
    void *data = text;
    size_t size = text ? strlen(text) : 0;
    json_t *document = NULL;
    if (first) TRY(memory_check(text, "values for the others", error));
    enum ps_status status = processes_broadcast(trainer->processes, &data, &size, error);
    if (status == PS_OK && first) status = send_values(trainer, error);
    if (status == PS_OK && !first) status = json_parse(data, size, source, NULL, &document, error);
    if (document) {
        struct json_place list = json_root(document, source);
        status = take_values(trainer, &list, error);
    }
    json_decref(document);
    free(data);
    return status;
}

/* ------------------------------------------------------------------------ the job */

static void set_text(json_t *object, const char *field, char *text) {
    if (text) json_object_set_new(object, field, json_string(text));
    free(text);
}

/* What the others need to know, as one text. */
static char *write_handout(const struct ps_trainer *trainer) {
    const struct job *job = &trainer->job;
    json_t *root = json_pack("{s:I, s:I, s:i}", "samples", (json_int_t)trainer->data.count, "valid",
                             (json_int_t)trainer->valid.count, "batch", job->batch);
    set_text(root, "plan", ps_plan_json(job->plan));
    if (job->profile) set_text(root, "profile", ps_profile_json(job->profile));
    set_text(root, "cluster", ps_cluster_json(job->cluster));
    if (job->network_text) json_object_set_new(root, "network", json_string(job->network_text));
    return json_text(root);
}

static enum ps_status read_instance(const struct json_place *root, const char *field, bool required, const char **text,
                                    struct ps_error *error) {
    *text = NULL;
    return json_get_string(root, field, required, text, error);
}

static enum ps_status read_handout(struct ps_trainer *trainer, const struct json_place *root, struct ps_error *error) {
    struct job *job = &trainer->job;
    const char *plan, *profile, *cluster, *network;
    TRY(json_get_integer(root, "samples", true, 0, INT64_MAX, &trainer->data.count, error));
    TRY(json_get_integer(root, "valid", true, 0, INT64_MAX, &trainer->valid.count, error));
    TRY(read_instance(root, "plan", true, &plan, error));
    TRY(read_instance(root, "profile", false, &profile, error));
    TRY(read_instance(root, "cluster", true, &cluster, error));
    TRY(read_instance(root, "network", false, &network, error));
    if (network) TRY(memory_text(network, strlen(network), &job->network_text, "a network's file", error));
    TRY(plan_parse(plan, strlen(plan), &job->plan, error));
    TRY(cluster_parse(cluster, strlen(cluster), &job->cluster, error));
    return profile ? profile_parse(profile, strlen(profile), &job->profile, error) : PS_OK;
}

/* *planned: it was the plan, and not a request to measure. */
static enum ps_status take_in(struct ps_trainer *trainer, const char *text, size_t size, bool *planned,
                              struct ps_error *error) {
    static const char source[] = "what rank 0 hands out";
    json_t *document;
    TRY(json_parse(text, size, source, NULL, &document, error));
    struct json_place root = json_root(document, source);
    *planned = !joint_profile_requested(&root);
    enum ps_status status =
        *planned ? read_handout(trainer, &root, error) : joint_profile_answer(trainer->processes, &root, error);
    json_decref(document);
    return status;
}

/* Which length each sample has, as rank 0 has found in the data. */
static enum ps_status distribute_lengths(struct ps_trainer *trainer, struct ps_error *error) {
    struct lengths *lengths = &trainer->job.lengths;
    void *of = lengths->of;
    size_t size = (size_t)lengths->samples;
    if (lengths->count == 0) return PS_OK;
    TRY(processes_broadcast(trainer->processes, &of, &size, error));
    lengths->of = of;
    lengths->samples = (int64_t)size;
    for (size_t i = 0; i < size; i++)
        if (lengths->of[i] >= lengths->count)
            return error_set(error, PS_FAILED, "internal error: rank 0 sent lengths that the run does not have");
    return PS_OK;
}

static enum ps_status take_job(struct ps_trainer *trainer, struct ps_error *error) {
    for (bool planned = false; !planned;) {
        void *text;
        size_t size;
        TRY(processes_broadcast(trainer->processes, &text, &size, error));
        enum ps_status status = take_in(trainer, text, size, &planned, error);
        free(text);
        TRY(status);
    }
    TRY(job_complete(&trainer->job, error));
    TRY(distribute_values(trainer, error));
    return distribute_lengths(trainer, error);
}

enum ps_status trainer_distribute_job(struct ps_trainer *trainer, struct ps_error *error) {
    struct processes *processes = trainer->processes;
    if (processes->count == 1) return PS_OK;
    if (processes->rank > 0) return take_job(trainer, error);
    void *text = write_handout(trainer);
    TRY(memory_check(text, "the plan for the others", error));
    size_t size = strlen(text);
    enum ps_status status = processes_broadcast(processes, &text, &size, error);
    free(text);
    TRY(status);
    TRY(distribute_values(trainer, error));
    return distribute_lengths(trainer, error);
}

/* ------------------------------------------------------------------------- memory */

enum ps_status trainer_gather_needs(struct ps_trainer *trainer,
                                    enum ps_status (*agree)(const struct ps_trainer *, struct ps_error *),
                                    struct ps_error *error) {
    struct processes *processes = trainer->processes;
    struct worker_memory own;
    struct executor *executor = trainer->executor;
    char go = 1;
    void *word = &go;
    size_t size = sizeof go;
    TRY(memory_new(&trainer->needed, executor->worker_count, "figures", error));
    for (int number = executor->first_here; number < executor->end_here; number++)
        trainer->needed[number] = worker_memory_needed(&executor->workers[number], trainer->rule.moments);
    own = trainer->needed[processes->rank];
    TRY(processes_gather(processes, &own, sizeof own, trainer->needed, error));
    if (processes->rank == 0) TRY(agree(trainer, error));
    TRY(processes_broadcast(processes, &word, &size, error));
    if (processes->rank > 0) free(word);
    return PS_OK;
}

/* -------------------------------------------------------------------------- losses */

/* Which steps of which segment follow. */
struct record_head {
    int32_t segment, first, count, padding;
};

/* What a worker holds of the last stage; NULL: nothing. */
static const struct instance *last_instance(const struct ps_trainer *trainer, int worker) {
    const struct ps_programs *programs = trainer->executor->segment.programs;
    int instance = programs_instance(programs, worker, programs->stages - 1);
    return instance == NO_INSTANCE ? NULL : &programs->instances[instance];
}

/* Steps of which the worker has recorded what it can: losses if it runs the forwards, updates if it runs the backwards. */
static int steps_told(const struct replica_record *record, const struct instance *instance) {
    int losses = atomic_load_explicit(&record->losses_done, memory_order_acquire);
    int updates = atomic_load_explicit(&record->updates_done, memory_order_acquire);
    return !instance->backward ? losses : !instance->forward || updates < losses ? updates : losses;
}

static enum ps_status send_records(struct ps_trainer *trainer, struct ps_error *error) {
    const struct instance *instance = last_instance(trainer, trainer->processes->rank);
    if (!instance) return PS_OK;
    const struct replica_record *record = &trainer->executor->records[instance->replica];
    int done = steps_told(record, instance);
    struct record_head head = {trainer->executor->segment_number, trainer->seen, done - trainer->seen, 0};
    if (head.count == 0) return PS_OK;
    size_t size = sizeof head + (size_t)head.count * sizeof *record->steps;
    char *data;
    TRY(memory_new(&data, size, "losses for rank 0", error));
    memcpy(data, &head, sizeof head);
    memcpy(data + sizeof head, record->steps + head.first, (size_t)head.count * sizeof *record->steps);
    enum ps_status status = processes_report(trainer->processes, data, size, error);
    free(data);
    trainer->seen = done;
    return status;
}

/* Takes over of a worker's steps what it has recorded. Times of another host's clock mean nothing here. */
static void take_records(struct replica_record *record, const struct instance *instance, const struct record_head *head,
                         const struct step_record *steps, bool same_clock) {
    int end = head->first + head->count;
    for (int i = head->first; i < end; i++, steps++) {
        if (instance->forward) record->steps[i].sum = steps->sum;
        if (instance->backward) record->steps[i].done_at = same_clock ? steps->done_at : clock_now();
    }
    if (instance->forward) atomic_store_explicit(&record->losses_done, end, memory_order_release);
    if (instance->backward) atomic_store_explicit(&record->updates_done, end, memory_order_release);
}

/* The others may be ahead by segments: what they report of later ones waits for these. */
static void receive_records(struct ps_trainer *trainer) {
    struct processes *processes = trainer->processes;
    struct executor *executor = trainer->executor;
    void *data;
    size_t size;
    int rank;
    while (processes_next_report(processes, executor->segment_number, &rank, &data, &size)) {
        bool same_clock = processes->info[rank].machine == processes->info[0].machine;
        const struct instance *instance = last_instance(trainer, rank);
        struct record_head head = {0};
        if (size >= sizeof head) memcpy(&head, data, sizeof head);
        const bool fits = head.first >= 0 && head.count > 0 && head.count <= executor->step_capacity - head.first;
        if (instance && fits && size == sizeof head + (size_t)head.count * sizeof(struct step_record))
            take_records(&executor->records[instance->replica], instance, &head,
                         (const struct step_record *)(const void *)((char *)data + sizeof head), same_clock);
        free(data);
    }
}

enum ps_status trainer_gather_records(struct ps_trainer *trainer, struct ps_error *error) {
    if (trainer->processes->count == 1) return PS_OK;
    if (trainer->processes->rank > 0) return trainer->executor->segment.training ? send_records(trainer, error) : PS_OK;
    receive_records(trainer);
    return PS_OK;
}

enum ps_status trainer_gather_segment(struct ps_trainer *trainer, struct ps_error *error) {
    struct processes *processes = trainer->processes;
    struct executor *executor = trainer->executor;
    if (processes->count == 1) return PS_OK;
    TRY(trainer_gather_records(trainer, error));
    struct stage_result *all;
    TRY(memory_new(&all, processes->count, "figures", error));
    const struct instance *own = last_instance(trainer, processes->rank);
    struct stage_result seen = own ? executor->records[own->replica].evaluation : (struct stage_result){0};
    enum ps_status status = processes_gather(processes, &seen, sizeof seen, all, error);
    if (status == PS_OK && processes->rank == 0) {
        for (int worker = 0; worker < executor->worker_count; worker++) {
            const struct instance *held = last_instance(trainer, worker);
            if (held && held->forward) executor->records[held->replica].evaluation = all[worker];
        }
        receive_records(trainer);
    }
    free(all);
    return status;
}

/* ------------------------------------------------------------ figures of a segment */

/* What was seen of a worker's predictions since this was asked last. */
struct seen_predictions {
    double predicted_off, newest_off, size;
};

static struct seen_predictions take_predictions(struct worker *worker) {
    struct seen_predictions seen = {0};
    for (int i = 0; i < worker->stage_count; i++) {
        struct prediction_watch *watch = &worker->stages[i].update.watch;
        prediction_watch_settle(watch);
        seen.predicted_off += watch->predicted_off;
        seen.newest_off += watch->newest_off;
        seen.size += watch->size;
        watch->predicted_off = watch->newest_off = watch->size = 0;
    }
    return seen;
}

static void note_predictions(struct ps_trainer *trainer, const struct seen_predictions *seen) {
    for (int number = 0; number < trainer->executor->worker_count; number++) {
        struct ps_run_worker *figures = &trainer->run->worker[number];
        bool some = seen[number].size > 0;
        figures->prediction_error = some ? sqrt(seen[number].predicted_off / seen[number].size) : NAN;
        figures->newest_error = some ? sqrt(seen[number].newest_off / seen[number].size) : NAN;
    }
}

enum ps_status trainer_gather_predictions(struct ps_trainer *trainer, struct ps_error *error) {
    struct executor *executor = trainer->executor;
    struct processes *processes = trainer->processes;
    struct seen_predictions *seen;
    enum ps_status status = PS_OK;
    TRY(memory_new(&seen, executor->worker_count, "figures", error));
    for (int number = executor->first_here; number < executor->end_here; number++)
        seen[number] = take_predictions(&executor->workers[number]);
    if (processes->count > 1) {
        struct seen_predictions own = seen[processes->rank];
        status = processes_gather(processes, &own, sizeof own, seen, error);
    }
    if (status == PS_OK) note_predictions(trainer, seen);
    free(seen);
    return status;
}

enum ps_status trainer_gather_totals(struct ps_trainer *trainer, struct ps_error *error) {
    struct executor *executor = trainer->executor;
    struct processes *processes = trainer->processes;
    struct worker_totals *totals;
    enum ps_status status = PS_OK;
    TRY(memory_new(&totals, executor->worker_count, "figures", error));
    for (int number = 0; number < executor->worker_count; number++) totals[number] = executor->workers[number].totals;
    if (processes->count > 1) {
        struct worker_totals own = totals[processes->rank];
        status = processes_gather(processes, &own, sizeof own, totals, error);
    }
    for (int number = 0; status == PS_OK && trainer_coordinates(trainer) && number < executor->worker_count; number++) {
        struct ps_run_worker *figures = &trainer->run->worker[number];
        executor->workers[number].totals = totals[number];
        figures->busy_s = totals[number].busy_s;
        figures->sent_bytes = totals[number].traffic.sent;
        figures->received_bytes = totals[number].traffic.received;
    }
    free(totals);
    return status;
}

/* ------------------------------------------------------------------------- figures */

/* What one worker was, for the summary; its remembered computations follow. */
struct worker_figures {
    struct ps_run_worker worker;
    struct ps_run_process process;
    double segment_started_s;
    int64_t events, transfers; /* since the segment began */
    int event_capacity, transfer_capacity;
};

/* With the rings that follow. */
static size_t figures_size(const struct worker_figures *figures) {
    return sizeof *figures + (size_t)figures->event_capacity * sizeof(struct timeline_event) +
           (size_t)figures->transfer_capacity * sizeof(struct recorded_transfer);
}

static enum ps_status give_figures(const struct ps_trainer *trainer, struct ps_error *error) {
    const struct worker *worker = &trainer->executor->workers[trainer->processes->rank];
    const struct recorder *recorder = &worker->recorder;
    struct worker_figures figures = {.worker = trainer->run->worker[worker->number],
                                     .process = trainer->run->process[worker->number],
                                     .segment_started_s = trainer->executor->segment_started_s,
                                     .events = recorder->count,
                                     .transfers = recorder->transfer_count,
                                     .event_capacity = recorder->capacity,
                                     .transfer_capacity = recorder->transfer_capacity};
    const size_t ring = (size_t)recorder->capacity * sizeof *recorder->events,
                 transfers = (size_t)recorder->transfer_capacity * sizeof *recorder->transfers;
    size_t size = sizeof figures + ring + transfers;
    char *data;
    TRY(memory_new(&data, size, "figures for rank 0", error));
    memcpy(data, &figures, sizeof figures);
    if (ring > 0) memcpy(data + sizeof figures, recorder->events, ring);
    if (transfers > 0) memcpy(data + sizeof figures + ring, recorder->transfers, transfers);
    void *given = data;
    enum ps_status status = processes_send_to_rank_0(trainer->processes, 0, &given, &size, error);
    free(data);
    return status;
}

/* The other worker's computations as if they had been seen here. Clocks of one host are the same; of two hosts, segments are
 * taken to have begun together. */
static enum ps_status take_events(struct ps_trainer *trainer, int rank, const struct worker_figures *figures, const char *ring,
                                  struct ps_error *error) {
    struct recorder *recorder = &trainer->executor->workers[rank].recorder;
    struct arena *arena = &trainer->executor->workers[rank].arena;
    const size_t events = (size_t)figures->event_capacity, transfers = (size_t)figures->transfer_capacity;
    if (events == 0) return PS_OK;
    recorder->events = arena_take(arena, events, sizeof *recorder->events);
    recorder->transfers = arena_take(arena, transfers, sizeof *recorder->transfers);
    TRY(arena_status(arena, "a trace", error));
    memcpy(recorder->events, ring, events * sizeof *recorder->events);
    if (transfers > 0)
        memcpy(recorder->transfers, ring + events * sizeof *recorder->events, transfers * sizeof *recorder->transfers);
    recorder->capacity = figures->event_capacity;
    recorder->transfer_capacity = figures->transfer_capacity;
    recorder->count = figures->events;
    recorder->transfer_count = figures->transfers;
    bool same_clock = trainer->processes->info[rank].machine == trainer->processes->info[0].machine;
    double later_s = same_clock ? figures->segment_started_s - trainer->executor->segment_started_s : 0;
    for (int i = 0; i < recorder->capacity; i++) {
        recorder->events[i].start_s += later_s;
        recorder->events[i].end_s += later_s;
    }
    for (int i = 0; i < recorder->transfer_capacity; i++) {
        recorder->transfers[i].transfer.start_s += later_s;
        recorder->transfers[i].transfer.end_s += later_s;
    }
    return PS_OK;
}

/* Of stages that run elsewhere, as the profile says. */
static void fill_in_sizes(struct ps_trainer *trainer) {
    const struct ps_plan *plan = trainer->job.plan;
    for (int s = 0; s < plan->stage_count && trainer->job.sizes; s++)
        if (trainer->executor->sizes[s].parameter_bytes == 0) trainer->executor->sizes[s] = trainer->job.sizes[s];
}

enum ps_status trainer_gather_figures(struct ps_trainer *trainer, struct ps_error *error) {
    struct processes *processes = trainer->processes;
    if (processes->rank > 0) return give_figures(trainer, error);
    fill_in_sizes(trainer);
    for (int rank = 1; rank < processes->count; rank++) {
        struct worker_figures figures;
        void *data = NULL;
        size_t size = 0;
        TRY(processes_send_to_rank_0(processes, rank, &data, &size, error));
        if (size >= sizeof figures) memcpy(&figures, data, sizeof figures);
        if (size < sizeof figures || figures_size(&figures) != size) {
            free(data);
            return error_set(error, PS_FAILED, "internal error: rank %d sent other figures", rank);
        }
        trainer->run->worker[rank].measured_bytes = figures.worker.measured_bytes;
        trainer->run->process[rank] = figures.process;
        enum ps_status status = take_events(trainer, rank, &figures, (char *)data + sizeof figures, error);
        free(data);
        TRY(status);
    }
    return PS_OK;
}
