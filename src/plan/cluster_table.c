/* What a cluster is, for people: its devices, and its links where they are few. */
#include "base/text.h"
#include "plan/cluster.h"

/* More links than this are only counted. */
enum { LINKS_SHOWN = 24 };

/* A worker by its number, or "*" for any. */
static const char *end_text(const struct ps_cluster *cluster, int worker) {
    return worker < 0 ? "*" : cluster->devices[worker].name;
}

static void add_links(const struct ps_cluster *cluster, struct text *text) {
    struct text rows = {0};
    char bandwidth[32], latency[32];
    text_add(&rows, "from\tto\tbandwidth\tlatency\n");
    for (int l = 0; l < cluster->link_count; l++) {
        const struct cluster_link *link = &cluster->links[l];
        text_add(&rows, "%s\t%s\t%s/s\t%s\n", end_text(cluster, link->from), end_text(cluster, link->to),
                 text_bytes((int64_t)link->bandwidth_bytes_per_s, bandwidth), text_seconds(link->latency_s, latency));
    }
    text_add(text, "\n");
    text_add_table(text, &rows);
}

char *ps_cluster_table(const struct ps_cluster *cluster) {
    struct text text = {0}, rows = {0};
    char memory[32];
    text_add(&rows, "worker\tname\ttype\tspeed\tmemory\n");
    for (int w = 0; w < cluster->workers; w++) {
        const struct cluster_device *device = &cluster->devices[w];
        text_add(&rows, "%d\t%s\t%s\t%.3f\t%s\n", w, device->name, device->type[0] ? device->type : "-", device->speed,
                 device->memory_bytes > 0 ? text_bytes(device->memory_bytes, memory) : "-");
    }
    text_add_table(&text, &rows);
    if (cluster->link_count > LINKS_SHOWN) text_add(&text, "\n%d links\n", cluster->link_count);
    if (cluster->link_count > 0 && cluster->link_count <= LINKS_SHOWN) add_links(cluster, &text);
    return text_take(&text);
}
