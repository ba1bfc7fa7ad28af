/* penstock program: prints the programs that a plan is lowered to, or verifies one that is given as text. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/planning.h"

struct program_arguments {
    struct common_arguments common;
    struct cluster_arguments cluster;
    const char *plan, *profile, *check;
    int batches, format;
};

#define OF(member) offsetof(struct program_arguments, member)

enum { TORCH_CSV = 1 };
static const char *const formats[] = {"text", "torch-csv", NULL};

static const struct argument rows[] = {
    OPTION("plan", 'p', "FILE", text, plan, "the plan whose programs are printed", .excludes = "check"),
    OPTION("batches", 'n', "N", integer, batches, "mini-batches in the segment; 4 where nothing is said, 1 with torch-csv",
           RANGE(1, 100000), .excludes = "check"),
    OPTION("profile", 'P', "FILE", text, profile,
           "costs of its layers: with them the memory is held against --memory or --cluster", .excludes = "check"),
    OPTION("format", 0, "NAME", choice, format,
           "torch-csv: one mini-batch as the schedule that torch.distributed.pipelining loads", .choices = formats,
           .excludes = "check json"),
    OPTION("check", 0, "FILE", text, check, "verify a listing; - reads standard input"),
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static bool has_limits(const struct program_arguments *arguments) {
    return arguments->cluster.path != NULL || arguments->cluster.options.memory_bytes > 0;
}

static enum ps_status check_memory(const struct program_arguments *arguments, const struct ps_plan *plan,
                                   const struct ps_profile *profile, const struct ps_programs *programs,
                                   struct ps_error *error) {
    struct ps_cluster *cluster;
    CHECK(cluster_arguments_open(&arguments->cluster, ps_plan_info(plan).workers, NULL, &cluster, error));
    enum ps_status status = ps_programs_check_memory(programs, plan, profile, cluster, error);
    ps_cluster_destroy(cluster);
    return status;
}

static enum ps_status lower(const struct program_arguments *arguments, struct ps_programs **programs, struct ps_error *error) {
    struct ps_plan *plan = NULL;
    struct ps_profile *profile = NULL;
    CHECK(ps_plan_read(arguments->plan, &plan, error));
    enum ps_status status = PS_OK;
    if (arguments->profile != NULL) status = ps_profile_read(arguments->profile, &profile, error);
    const int batches = arguments->batches > 0 ? arguments->batches : arguments->format == TORCH_CSV ? 1 : 4;
    if (status == PS_OK) status = ps_programs_lower(plan, profile, batches, programs, error);
    if (status == PS_OK && has_limits(arguments)) {
        status = check_memory(arguments, plan, profile, *programs, error);
        if (status != PS_OK) ps_programs_destroy(*programs);
    }
    ps_profile_destroy(profile);
    ps_plan_destroy(plan);
    return status;
}

/* All of a stream as one string (free()). */
static enum ps_status read_stream(FILE *stream, const char *name, char **text, struct ps_error *error) {
    enum { LIMIT = 1 << 28 };
    size_t length = 0, capacity = 1 << 16;
    char *data = malloc(capacity);
    while (data != NULL) {
        length += fread(data + length, 1, capacity - length - 1, stream);
        if (length < capacity - 1 || capacity >= LIMIT) break;
        char *larger = realloc(data, capacity *= 2);
        if (larger == NULL) free(data);
        data = larger;
    }
    if (data == NULL) return message_set(error, PS_FAILED, "out of memory while reading %s", name);
    enum ps_status status = PS_OK;
    if (ferror(stream)) {
        status = message_set(error, PS_BAD_INPUT, "%s: %s", name, strerror(errno));
    } else if (!feof(stream)) {
        status = message_set(error, PS_BAD_INPUT, "%s: longer than %d bytes", name, LIMIT);
    } else if (memchr(data, '\0', length) != NULL) {
        status = message_set(error, PS_BAD_INPUT, "%s: not a text file", name);
    }
    data[length] = '\0';
    if (status != PS_OK) free(data);
    if (status == PS_OK) *text = data;
    return status;
}

static enum ps_status parse(const char *path, struct ps_programs **programs, struct ps_error *error) {
    bool standard_input = strcmp(path, "-") == 0;
    const char *name = standard_input ? "standard input" : path;
    FILE *stream = standard_input ? stdin : fopen(path, "r");
    if (stream == NULL) return message_set(error, PS_BAD_INPUT, "%s: %s", path, strerror(errno));
    char *text;
    enum ps_status status = read_stream(stream, name, &text, error);
    if (!standard_input) fclose(stream);
    if (status != PS_OK) return status;
    status = ps_programs_parse(text, programs, error);
    free(text);
    if (status == PS_OK) {
        status = ps_programs_verify(*programs, error);
        if (status == PS_OK) return PS_OK;
        ps_programs_destroy(*programs);
    }
    struct ps_error inner = *error;
    snprintf(error->message, sizeof error->message, "%s: %.900s", name, inner.message);
    return status;
}

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct program_arguments *arguments = values;
    if (arguments->plan == NULL && arguments->check == NULL) {
        return message_set(error, PS_USAGE, "--plan is missing; give --plan FILE, or --check FILE");
    }
    if (has_limits(arguments) && (arguments->plan == NULL || arguments->profile == NULL))
        return message_set(error, PS_USAGE, "%s: memory is counted with --plan FILE and --profile FILE only",
                           arguments->cluster.path != NULL ? "--cluster" : "--memory");
    struct ps_programs *programs;
    enum ps_status status = PS_OK;
    CHECK(arguments->plan != NULL ? lower(arguments, &programs, error) : parse(arguments->check, &programs, error));
    if (arguments->common.json) {
        status = output_text(ps_programs_json(programs), error);
    } else if (arguments->format == TORCH_CSV) {
        char *csv;
        status = ps_programs_torch_csv(programs, &csv, error);
        if (status == PS_OK) status = output_text(csv, error);
    } else if (arguments->check == NULL) {
        status = output_text(ps_programs_print(programs), error);
    } else {
        printf("%s: verified: order, no deadlock, weight versions and use of blocks\n\n", arguments->check);
        status = output_text(ps_programs_table(programs), error);
    }
    ps_programs_destroy(programs);
    return status;
}

const struct command command_program = {
    .name = "program",
    .summary = "prints the lowered programs of a plan, or verifies a listing",
    .usage = "(--plan FILE [--batches N] [--format NAME] [--profile FILE --memory SIZE] | --check FILE)",
    .description = {"Prints the instructions of every worker, one line each. What is printed is proved first: the "
                    "order of computations, that no worker can wait for ever, which version of the weights each "
                    "computation reads, and that no block is used twice. --check proves the same of a listing from a "
                    "file, and says how many copies of the weights each worker keeps and how many updates fall between "
                    "a forward and its backward."},
    .example = "  penstock program --plan plan.json --batches 3 > program.txt\n"
               "  penstock program --check program.txt",
    .size = sizeof(struct program_arguments),
    .groups = {{&group, 0}, {&memory_group, OF(cluster)}, {&common_group, 0}},
    .run = run,
};
