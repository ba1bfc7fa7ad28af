/* penstock devices: what this machine has. */
#include "cli/command.h"
#include "cli/output.h"

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct common_arguments *common = values;
    return output_text(common->json ? ps_machine_json() : ps_machine_table(), error);
}

const struct command command_devices = {
    .name = "devices",
    .summary = "says what this machine has",
    .usage = "[--json]",
    .description =
        {"Lists the processor with the cores and the memory that this process may use, its instruction sets as far as "
         "they matter here, and the devices and transports of this build. `penstock cluster` measures them."},
    .example = "  penstock devices",
    .size = sizeof(struct common_arguments),
    .groups = {{&common_group, 0}},
    .run = run,
};
