/* penstock program: prints the programs that a plan is lowered to, or verifies one that is given as text. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/output.h"

struct program_arguments {
    struct common_arguments common;
    const char *plan, *profile, *check;
    int batches;
};

#define OF(member) offsetof(struct program_arguments, member)

static const struct argument rows[] = {
    {.name = "plan",
     .letter = 'p',
     .value = "FILE",
     .help = "the plan whose programs are printed",
     .offset = OF(plan),
     .read = argument_read_text,
     .excludes = "check"},
    {.name = "batches",
     .letter = 'n',
     .value = "N",
     .help = "mini-batches in the segment; 4 where nothing is said",
     .offset = OF(batches),
     .read = argument_read_integer,
     .low = 1,
     .high = 100000,
     .excludes = "check"},
    {.name = "profile",
     .letter = 'P',
     .value = "FILE",
     .help = "with it the memory is checked too",
     .offset = OF(profile),
     .read = argument_read_text,
     .excludes = "check"},
    {.name = "check",
     .value = "FILE",
     .help = "verify a listing; - reads standard input",
     .offset = OF(check),
     .read = argument_read_text},
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static void defaults(void *values) { ((struct program_arguments *)values)->batches = 4; }

static enum ps_status lower(const struct program_arguments *arguments, struct ps_programs **programs, struct ps_error *error) {
    struct ps_plan *plan = NULL;
    struct ps_profile *profile = NULL;
    CHECK(ps_plan_read(arguments->plan, &plan, error));
    enum ps_status status = PS_OK;
    if (arguments->profile != NULL) status = ps_profile_read(arguments->profile, &profile, error);
    if (status == PS_OK) status = ps_programs_lower(plan, profile, arguments->batches, programs, error);
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
    struct ps_programs *programs;
    CHECK(arguments->plan != NULL ? lower(arguments, &programs, error) : parse(arguments->check, &programs, error));
    char *listing = ps_programs_print(programs);
    ps_programs_destroy(programs);
    if (listing == NULL) return message_set(error, PS_FAILED, "out of memory for the listing");
    if (arguments->common.json) {
        printf("{\"verified\": true, \"listing\": ");
        output_json_string(listing);
        printf("}\n");
    } else if (arguments->check != NULL) {
        printf("%s: verified: order, no deadlock, weight versions and use of blocks\n", arguments->check);
    } else {
        fputs(listing, stdout);
    }
    free(listing);
    return PS_OK;
}

const struct command command_program = {
    .name = "program",
    .summary = "prints the lowered programs of a plan, or verifies a listing",
    .usage = "(--plan FILE [--batches N] | --check FILE)",
    .description = {"Prints the instructions of every worker, one line each. What is printed is proved first: the "
                    "order of computations, that no worker can wait for ever, which version of the weights each "
                    "computation reads, and that no block is used twice. --check proves the same of a listing from a "
                    "file."},
    .example = "  penstock program --plan plan.json --batches 3 > program.txt\n"
               "  penstock program --check program.txt",
    .size = sizeof(struct program_arguments),
    .groups = {{&group, 0}, {&common_group, 0}},
    .defaults = defaults,
    .run = run,
};
