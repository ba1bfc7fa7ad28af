/*
 * Clusters: uniform ones from a few numbers, heterogeneous ones from a file:
 *
 *     { "format": "penstock-cluster", "version": 1,
 *       "devices": [ { "name": "big", "type": "cpu", "speed": 1.0, "memory_bytes": 8589934592 }, ... ],
 *       "links": [ { "from": "*", "to": "*", "bandwidth_bytes_per_s": 1.25e9, "latency_s": 5e-5 },
 *                  { "from": "big", "to": 1, "bandwidth_bytes_per_s": 1.2e10, "duplex": "half", "shared_link": "bus" } ],
 *       "overlap": true, "streaming": false }
 *
 * Device w is worker w. A link's end is a device's name, a worker's number, or "*" for any. If several links match a pair the
 * last one counts, so exceptions follow the rule. A link has one direction and its own bandwidth (full duplex). If either
 * direction has "duplex": "half", only one of the two transfers at a time. Of all pairs whose links name the same
 * "shared_link", too, only one transfers at a time.
 */
#include "plan/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/versioned.h"
#include "plan/plan.h"

#define BANDWIDTH_MAX 1e18
#define LATENCY_MAX 1e6
#define MEMORY_MAX ((int64_t)1 << 60)

int ps_cluster_workers(const struct ps_cluster *cluster) { return cluster->workers; }

void ps_cluster_destroy(struct ps_cluster *cluster) {
    if (!cluster) return;
    arena_release(&cluster->arena);
    free(cluster);
}

enum ps_status cluster_create(int workers, int links, struct ps_cluster **cluster, struct ps_error *error) {
    struct ps_cluster *made;
    TRY(memory_new(&made, 1, "a cluster", error));
    *made = (struct ps_cluster){.workers = workers, .link_count = links, .overlap = true};
    made->devices = arena_take(&made->arena, (size_t)workers, sizeof *made->devices);
    made->links = arena_take(&made->arena, (size_t)links + 1, sizeof *made->links);
    enum ps_status status = arena_check(&made->arena, "a cluster", error);
    if (status == PS_OK)
        *cluster = made;
    else
        free(made);
    return status;
}

enum ps_status cluster_copy(const struct ps_cluster *cluster, struct ps_cluster **copy, struct ps_error *error) {
    struct ps_cluster *made;
    TRY(cluster_create(cluster->workers, cluster->link_count, &made, error));
    memcpy(made->devices, cluster->devices, (size_t)cluster->workers * sizeof *made->devices);
    if (cluster->link_count > 0) memcpy(made->links, cluster->links, (size_t)cluster->link_count * sizeof *made->links);
    made->overlap = cluster->overlap;
    made->streaming = cluster->streaming;
    made->cores = cluster->cores;
    *copy = made;
    return PS_OK;
}

void ps_cluster_options_init(struct ps_cluster_options *options) {
    *options = (struct ps_cluster_options){.struct_size = sizeof *options};
}

enum ps_status ps_cluster_uniform(const struct ps_cluster_options *given, struct ps_cluster **cluster, struct ps_error *error) {
    struct ps_cluster_options own = {0};
    const struct ps_cluster_options *options = &own;
    TRY(VERSIONED_TAKE(ps_cluster_options, given, &own, error));
    if (options->workers < 1 || options->workers > PLAN_WORKERS_MAX)
        return error_set(error, PS_USAGE, "workers: %d is not from 1 to %d", options->workers, PLAN_WORKERS_MAX);
    if (options->memory_bytes < 0 || options->memory_bytes > MEMORY_MAX)
        return error_set(error, PS_USAGE, "memory: %lld bytes are not from 0 to %lld", (long long)options->memory_bytes,
                         (long long)MEMORY_MAX);
    if (!(options->bandwidth_bytes_per_s >= 0 && options->bandwidth_bytes_per_s <= BANDWIDTH_MAX))
        return error_set(error, PS_USAGE, "bandwidth: %g bytes per second are not from 0 to %g", options->bandwidth_bytes_per_s,
                         BANDWIDTH_MAX);
    if (!(options->latency_s >= 0 && options->latency_s <= LATENCY_MAX))
        return error_set(error, PS_USAGE, "latency: %g s are not from 0 to %g", options->latency_s, LATENCY_MAX);
    if (options->cores < 0) return error_set(error, PS_USAGE, "cores: %d is negative", options->cores);
    if (options->streaming && options->no_overlap)
        return error_set(error, PS_USAGE, "`streaming`: transfers that begin with their computation need overlap");
    bool links = options->bandwidth_bytes_per_s > 0 || options->latency_s > 0;
    TRY(cluster_create(options->workers, links, cluster, error));
    for (int w = 0; w < options->workers; w++) {
        struct cluster_device *device = &(*cluster)->devices[w];
        *device = (struct cluster_device){.type = "", .speed = 1, .memory_bytes = options->memory_bytes};
        snprintf(device->name, sizeof device->name, "worker%d", w);
    }
    if (links)
        (*cluster)->links[0] = (struct cluster_link){
            .from = -1, .to = -1, .bandwidth_bytes_per_s = options->bandwidth_bytes_per_s, .latency_s = options->latency_s};
    (*cluster)->overlap = !options->no_overlap;
    (*cluster)->streaming = options->streaming;
    (*cluster)->cores = options->cores;
    return PS_OK;
}

/* Nothing is said of other machines. */
static bool shares_machine(const struct ps_cluster_options *options) {
    return options->bandwidth_bytes_per_s <= 0 && options->latency_s <= 0 && options->cores == 0;
}

struct ps_cluster_options cluster_options_here(const struct ps_cluster_options *options, const struct ps_profile *profile) {
    struct ps_cluster_options here = *options;
    const int cores = shares_machine(options) ? profile_workers_here(profile) : 0;
    if (cores > 0 && cores < options->workers) here.cores = cores;
    return here;
}

enum ps_status ps_cluster_here(const struct ps_cluster_options *given, const struct ps_profile *profile,
                               struct ps_cluster **cluster, struct ps_error *error) {
    struct ps_cluster_options own = {0}, here;
    TRY(VERSIONED_TAKE(ps_cluster_options, given, &own, error));
    here = cluster_options_here(&own, profile);
    TRY(ps_cluster_uniform(&here, cluster, error));
    (*cluster)->here = shares_machine(&own) && own.memory_bytes == 0 && profile_workers_here(profile) > 0;
    if (here.cores != own.cores)
        log_info(
            "%d workers share this machine, where %d can compute at a time; `cores` or `bandwidth` describe other machines",
            here.workers, here.cores);
    return PS_OK;
}

const struct cluster_link *cluster_link_between(const struct ps_cluster *cluster, int from, int to) {
    if (from == to) return NULL;
    for (int l = cluster->link_count - 1; l >= 0; l--) {
        const struct cluster_link *link = &cluster->links[l];
        if ((link->from == -1 || link->from == from) && (link->to == -1 || link->to == to)) return link;
    }
    return NULL;
}

/* The same direction, or the other one if either is half duplex. */
static bool share_pair(const struct ps_cluster *cluster, int from, int to, int other_from, int other_to) {
    if (from == other_from && to == other_to) return true;
    if (from != other_to || to != other_from) return false;
    const struct cluster_link *link = cluster_link_between(cluster, from, to), *back = cluster_link_between(cluster, to, from);
    return link && back && (link->half_duplex || back->half_duplex);
}

/* The name of the shared link from one worker to another; "": none. */
static const char *shared_name(const struct ps_cluster *cluster, int from, int to) {
    const struct cluster_link *link = cluster_link_between(cluster, from, to);
    return link ? link->shared_link : "";
}

bool cluster_share_link(const struct ps_cluster *cluster, int from, int to, int other_from, int other_to) {
    if (share_pair(cluster, from, to, other_from, other_to)) return true;
    const char *name = shared_name(cluster, from, to);
    return *name && strcmp(name, shared_name(cluster, other_from, other_to)) == 0;
}

void cluster_pair_links(const struct ps_cluster *cluster, struct cluster_pair *pairs, int index) {
    struct cluster_pair *pair = &pairs[index];
    const char *name = shared_name(cluster, pair->from, pair->to);
    pair->link[0] = 2 * index;
    pair->link[1] = 2 * index + 1;
    for (int other = index - 1; other >= 0; other--) {
        if (!share_pair(cluster, pair->from, pair->to, pairs[other].from, pairs[other].to)) continue;
        pair->link[0] = pairs[other].link[0];
        break;
    }
    for (int other = index - 1; other >= 0 && *name; other--) {
        if (strcmp(name, shared_name(cluster, pairs[other].from, pairs[other].to)) != 0) continue;
        pair->link[1] = pairs[other].link[1];
        break;
    }
}

double cluster_transfer_s(const struct ps_cluster *cluster, int from, int to, int64_t bytes) {
    const struct cluster_link *link = bytes == 0 ? NULL : cluster_link_between(cluster, from, to);
    if (!link) return 0;
    return link->latency_s + (link->bandwidth_bytes_per_s > 0 ? (double)bytes / link->bandwidth_bytes_per_s : 0);
}

enum ps_status cluster_check_types(const struct ps_cluster *cluster, const struct cost_table *costs, struct ps_error *error) {
    for (int w = 0; costs->other_device && w < cluster->workers; w++) {
        const struct cluster_device *device = &cluster->devices[w];
        if (strcmp(cost_table_on(costs, device->type)->device, device->type) == 0) continue;
        error_set(error, PS_USAGE, "devices[%d].type: '%s' has no profile", w, device->type);
        error_hint(error, "the type of a device is the name that its profile has in `device`: '%s', '%s', ...", costs->device,
                   costs->other_device->device);
        return PS_USAGE;
    }
    return PS_OK;
}

bool cluster_one_type(const struct ps_cluster *cluster, const struct cost_table *costs) {
    for (int w = 1; w < cluster->workers; w++)
        if (cost_table_on(costs, cluster->devices[w].type) != cost_table_on(costs, cluster->devices[0].type)) return false;
    return true;
}

bool cluster_links_alike(const struct ps_cluster *cluster) {
    return cluster->link_count == 0 || (cluster->link_count == 1 && cluster->links[0].from < 0 && cluster->links[0].to < 0);
}

bool cluster_shares_links(const struct ps_cluster *cluster) {
    for (int l = 0; l < cluster->link_count; l++)
        if (cluster->links[l].half_duplex || cluster->links[l].shared_link[0]) return true;
    return false;
}

double cluster_ring_s(const struct ps_cluster *cluster, int first, int count, int64_t bytes) {
    double step_s = 0;
    int64_t piece = (bytes + count - 1) / count;
    const bool shared = cluster_shares_links(cluster);
    const int hops = cluster_links_alike(cluster) ? 1 : count; /* all are as the first */
    for (int a = 0; count > 1 && a < hops; a++) {
        double link_s = 0;
        for (int b = shared ? 0 : a; b < (shared ? count : a + 1); b++)
            if (cluster_share_link(cluster, first + a, first + (a + 1) % count, first + b, first + (b + 1) % count))
                link_s += cluster_transfer_s(cluster, first + b, first + (b + 1) % count, piece);
        step_s = link_s > step_s ? link_s : step_s;
    }
    return 2 * (count - 1) * step_s;
}

/* ----------------------------------------------------------------- reading */

static enum ps_status read_text(const struct json_place *place, const char *field, bool required, char out[64],
                                struct ps_error *error) {
    const char *text = NULL;
    TRY(json_get_string(place, field, required, &text, error));
    if (!text) return PS_OK;
    if (!*text || strlen(text) >= 64) return json_error(place, error, "%s must have 1 to 63 bytes", field);
    snprintf(out, 64, "%s", text);
    return PS_OK;
}

static enum ps_status read_device(const struct json_place *place, struct ps_cluster *cluster, int w, struct ps_error *error) {
    static const char *const fields[] = {"name", "type", "speed", "memory_bytes"};
    struct cluster_device *device = &cluster->devices[w];
    TRY(json_object_fields(place, fields, sizeof fields / sizeof fields[0], error));
    *device = (struct cluster_device){.speed = 1};
    TRY(read_text(place, "name", true, device->name, error));
    TRY(read_text(place, "type", false, device->type, error));
    TRY(json_get_number(place, "speed", false, 1e-6, 1e6, &device->speed, error));
    TRY(json_get_integer(place, "memory_bytes", false, 0, MEMORY_MAX, &device->memory_bytes, error));
    if (strcmp(device->name, "*") == 0) return json_error(place, error, "name '*' means any device");
    for (int v = 0; v < w; v++)
        if (strcmp(cluster->devices[v].name, device->name) == 0)
            return json_error(place, error, "name '%s' is also that of devices[%d]", device->name, v);
    return PS_OK;
}

static enum ps_status read_end(const struct json_place *place, const char *name, const struct ps_cluster *cluster, int *worker,
                               struct ps_error *error) {
    struct json_place field;
    TRY(json_field(place, name, true, &field, error));
    if (json_is_integer(field.value)) {
        json_int_t number = json_integer_value(field.value);
        if (number < 0 || number >= cluster->workers)
            return json_error(&field, error, "%lld is no worker; they are 0 to %d", (long long)number, cluster->workers - 1);
        *worker = (int)number;
        return PS_OK;
    }
    if (!json_is_string(field.value)) return json_error(&field, error, "must be a device's name, a worker's number or \"*\"");
    const char *text = json_string_value(field.value);
    *worker = -1;
    if (strcmp(text, "*") == 0) return PS_OK;
    for (int w = 0; w < cluster->workers; w++) {
        if (strcmp(cluster->devices[w].name, text) != 0) continue;
        *worker = w;
        return PS_OK;
    }
    return json_error(&field, error, "'%s' is no device of this file", text);
}

static enum ps_status read_duplex(const struct json_place *place, bool *half, struct ps_error *error) {
    const char *duplex = "full";
    TRY(json_get_string(place, "duplex", false, &duplex, error));
    *half = strcmp(duplex, "half") == 0;
    if (*half || strcmp(duplex, "full") == 0) return PS_OK;
    return json_error(place, error, "duplex '%s' is neither 'full' nor 'half'", duplex);
}

static enum ps_status read_link(const struct json_place *place, struct ps_cluster *cluster, int l, struct ps_error *error) {
    static const char *const fields[] = {"from", "to", "bandwidth_bytes_per_s", "latency_s", "duplex", "shared_link"};
    struct cluster_link *link = &cluster->links[l];
    TRY(json_object_fields(place, fields, sizeof fields / sizeof fields[0], error));
    TRY(read_end(place, "from", cluster, &link->from, error));
    TRY(read_end(place, "to", cluster, &link->to, error));
    TRY(json_get_number(place, "bandwidth_bytes_per_s", true, 1, BANDWIDTH_MAX, &link->bandwidth_bytes_per_s, error));
    TRY(json_get_number(place, "latency_s", false, 0, LATENCY_MAX, &link->latency_s, error));
    TRY(read_text(place, "shared_link", false, link->shared_link, error));
    return read_duplex(place, &link->half_duplex, error);
}

static enum ps_status read_document(const struct json_place *root, struct ps_cluster **cluster, struct ps_error *error) {
    static const char *const fields[] = {"format", "version", "devices", "links", "overlap", "streaming", "cores"};
    struct json_place devices, links, item;
    struct ps_cluster *made = NULL;
    size_t workers, link_count = 0;
    enum ps_status status;
    TRY(json_object_fields(root, fields, sizeof fields / sizeof fields[0], error));
    TRY(json_field(root, "devices", true, &devices, error));
    TRY(json_field(root, "links", false, &links, error));
    TRY(json_array_length(&devices, &workers, error));
    if (links.value) TRY(json_array_length(&links, &link_count, error));
    if (workers < 1 || workers > PLAN_WORKERS_MAX)
        return json_error(&devices, error, "%zu devices; 1 to %d are accepted", workers, PLAN_WORKERS_MAX);
    if (link_count > (size_t)1 << 24) return json_error(&links, error, "%zu links are too many", link_count);
    TRY(cluster_create((int)workers, (int)link_count, &made, error));
    for (size_t w = 0; w < workers; w++) {
        TRY_OUT(json_item(&devices, w, &item, error));
        TRY_OUT(read_device(&item, made, (int)w, error));
    }
    for (size_t l = 0; l < link_count; l++) {
        TRY_OUT(json_item(&links, l, &item, error));
        TRY_OUT(read_link(&item, made, (int)l, error));
    }
    TRY_OUT(json_get_bool(root, "overlap", false, &made->overlap, error));
    TRY_OUT(json_get_bool(root, "streaming", false, &made->streaming, error));
    if (made->streaming && !made->overlap) {
        status = json_error(root, error, "streaming: transfers that begin with their computation need overlap");
        goto out;
    }
    TRY_OUT(json_get_int(root, "cores", false, 0, 1 << 20, &made->cores, error));
    *cluster = made;
    return PS_OK;
out:
    ps_cluster_destroy(made);
    return status;
}

enum ps_status ps_cluster_read(const char *path, struct ps_cluster **cluster, struct ps_error *error) {
    json_t *document;
    TRY(json_read_file(path, "penstock-cluster", &document, error));
    struct json_place root = json_root(document, path);
    enum ps_status status = read_document(&root, cluster, error);
    json_decref(document);
    return json_tell_line(path, status, error);
}

enum ps_status cluster_parse(const char *text, size_t size, struct ps_cluster **cluster, struct ps_error *error) {
    json_t *document;
    TRY(json_parse(text, size, "the cluster of rank 0", "penstock-cluster", &document, error));
    struct json_place root = json_root(document, "the cluster of rank 0");
    enum ps_status status = read_document(&root, cluster, error);
    json_decref(document);
    return status;
}

/* ----------------------------------------------------------------- writing */

/* A link's end: a device's name, or "*". */
static json_t *end_json(const struct ps_cluster *cluster, int worker) {
    return json_string(worker < 0 ? "*" : cluster->devices[worker].name);
}

static json_t *link_json(const struct ps_cluster *cluster, const struct cluster_link *link) {
    json_t *object = json_pack("{s:o, s:o}", "from", end_json(cluster, link->from), "to", end_json(cluster, link->to));
    /* A link without cost has no bandwidth that JSON can express; this value has the same effect. */
    double bandwidth = link->bandwidth_bytes_per_s > 0 ? link->bandwidth_bytes_per_s : BANDWIDTH_MAX;
    json_object_set_new(object, "bandwidth_bytes_per_s", json_real(bandwidth));
    json_object_set_new(object, "latency_s", json_real(link->latency_s));
    if (link->half_duplex) json_object_set_new(object, "duplex", json_string("half"));
    if (link->shared_link[0]) json_object_set_new(object, "shared_link", json_string(link->shared_link));
    return object;
}

json_t *cluster_document(const struct ps_cluster *cluster) {
    json_t *devices = json_array(), *links = json_array();
    for (int w = 0; w < cluster->workers; w++) {
        const struct cluster_device *device = &cluster->devices[w];
        json_t *object = json_pack("{s:s, s:f}", "name", device->name, "speed", device->speed);
        if (device->type[0]) json_object_set_new(object, "type", json_string(device->type));
        if (device->memory_bytes > 0) json_object_set_new(object, "memory_bytes", json_integer(device->memory_bytes));
        json_array_append_new(devices, object);
    }
    for (int l = 0; l < cluster->link_count; l++) json_array_append_new(links, link_json(cluster, &cluster->links[l]));
    bool whole = json_array_size(devices) == (size_t)cluster->workers && json_array_size(links) == (size_t)cluster->link_count;
    json_t *root = json_pack("{s:s, s:i, s:o, s:o, s:b, s:b}", "format", "penstock-cluster", "version", 1, "devices", devices,
                             "links", links, "overlap", cluster->overlap, "streaming", cluster->streaming);
    if (root && cluster->cores > 0) json_object_set_new(root, "cores", json_integer(cluster->cores));
    if (root && !whole) {
        json_decref(root);
        return NULL;
    }
    return root;
}

char *ps_cluster_json(const struct ps_cluster *cluster) { return json_text(cluster_document(cluster)); }

enum ps_status ps_cluster_write(const struct ps_cluster *cluster, const char *path, struct ps_error *error) {
    return json_write_file(cluster_document(cluster), path, error);
}

/* Tables for people: the devices, and the links if they are few. */

/* More links than this are only counted. */
enum { LINKS_SHOWN = 24 };

static void show_rate(struct text *out, const json_t *value) {
    double bandwidth = json_number_value(value);
    char shown[32];
    text_add(out, "%s/s", text_bytes(bandwidth < BANDWIDTH_MAX ? (int64_t)bandwidth : 0, shown));
}

char *ps_cluster_table(const struct ps_cluster *cluster) {
    static const struct json_column devices[] = {
        JSON_COLUMN("worker", NULL, NULL),
        JSON_COLUMN("name", "name", json_show_text),
        JSON_COLUMN("type", "type", json_show_text),
        JSON_NUMBER("speed", "speed", 3),
        JSON_COLUMN("memory", "memory_bytes", json_show_bytes),
    };
    static const struct json_column links[] = {
        JSON_COLUMN("from", "from", json_show_text),
        JSON_COLUMN("to", "to", json_show_text),
        JSON_COLUMN("bandwidth", "bandwidth_bytes_per_s", show_rate),
        JSON_COLUMN("latency", "latency_s", json_show_seconds),
    };
    struct text text = {0}, rows = {0};
    json_t *document = cluster_document(cluster);
    json_table(&rows, json_object_get(document, "devices"), devices, sizeof devices / sizeof devices[0]);
    text_add_table(&text, &rows);
    if (cluster->link_count > LINKS_SHOWN) text_add(&text, "\n%d links\n", cluster->link_count);
    if (cluster->link_count > 0 && cluster->link_count <= LINKS_SHOWN) {
        json_table(&rows, json_object_get(document, "links"), links, sizeof links / sizeof links[0]);
        text_add(&text, "\n");
        text_add_table(&text, &rows);
    }
    if (!document) text.failed = true;
    json_decref(document);
    return text_take(&text);
}
