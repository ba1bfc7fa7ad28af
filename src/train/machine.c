/* What this machine has for training: its processor, and what of the library's tables was compiled in. */
#include <jansson.h>
#include <string.h>

#include "base/host_memory.h"
#include "base/json.h"
#include "base/processor.h"
#include "base/text.h"
#include "comm/transport.h"
#include "compute/device.h"

static json_t *named(const char *name, const char *summary) {
    return json_pack("{s:s, s:s}", "name", name, "summary", summary);
}

static json_t *machine_document(void) {
    char cpu[128];
    const char *features[PROCESSOR_FEATURES_MAX];
    const size_t count = processor_features(features);
    const struct host_memory memory = host_memory_read();
    json_t *instructions = json_array(), *devices = json_array(), *transports = json_array();
    bool mpi = false;
    for (size_t f = 0; f < count; f++) json_array_append_new(instructions, json_string(features[f]));
    for (int d = 0; device_table[d]; d++)
        json_array_append_new(devices, named(device_table[d]->name, device_table[d]->summary));
    for (int t = 0; transport_table[t]; t++) {
        json_array_append_new(transports, named(transport_table[t]->name, transport_table[t]->summary));
        mpi = mpi || transport_table[t]->processes;
    }
    return json_pack("{s:s, s:i, s:I, s:I, s:I, s:o, s:b, s:b, s:o, s:o}", "processor", processor_name(cpu, sizeof cpu),
                     "cores", cores_usable(), "memory_bytes", (json_int_t)memory.free, "memory_total_bytes",
                     (json_int_t)memory.total, "memory_installed_bytes", (json_int_t)memory.installed, "instructions",
                     instructions, "bf16", processor_has_fast_bf16(), "mpi", mpi, "devices", devices, "transports", transports);
}

char *ps_machine_json(void) { return json_text(machine_document()); }

static void add_entries(struct text *out, const char *title, const json_t *list) {
    size_t index;
    json_t *entry;
    text_add(out, "\n%s\n", title);
    json_array_foreach(list, index, entry) text_add(out, "  %-14s %s\n", json_string_value(json_object_get(entry, "name")),
                                                    json_string_value(json_object_get(entry, "summary")));
}

char *ps_machine_table(void) {
    json_t *machine = machine_document(), *entry;
    struct text out = {0};
    char memory[2][32];
    size_t index;
    const int cores = (int)json_integer_value(json_object_get(machine, "cores"));
    text_add(&out, "processor     %s\ncores         %d that this process may use\n",
             json_string_value(json_object_get(machine, "processor")), cores);
    const json_int_t total = json_integer_value(json_object_get(machine, "memory_total_bytes"));
    text_add(&out, "memory        %s free of %s%s\ninstructions ",
             text_bytes(json_integer_value(json_object_get(machine, "memory_bytes")), memory[0]), text_bytes(total, memory[1]),
             total < json_integer_value(json_object_get(machine, "memory_installed_bytes"))
                 ? ", which its control group (cgroup) may take"
                 : "");
    json_array_foreach(json_object_get(machine, "instructions"), index, entry) text_add(&out, " %s", json_string_value(entry));
    text_add(&out, "%s\nbf16          %s\nMPI           %s\n",
             json_array_size(json_object_get(machine, "instructions")) > 0 ? "" : " not known",
             json_is_true(json_object_get(machine, "bf16")) ? "multiplied faster than f32"
                                                            : "computed in f32, no faster than it",
             json_is_true(json_object_get(machine, "mpi")) ? "compiled in" : "not compiled in: one machine only");
    add_entries(&out, "devices, for --device", json_object_get(machine, "devices"));
    add_entries(&out, "transports, for --transport", json_object_get(machine, "transports"));
    if (!machine) out.failed = true;
    json_decref(machine);
    return text_take(&out);
}
