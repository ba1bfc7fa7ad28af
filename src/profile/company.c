/*
 * Others at work beside a measurement; see company.h. Their rounds begin with a stretch of forwards, another one each time:
 * they do not keep step with the measured rounds, and what is measured meets all that they do.
 */
#include "profile/company.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { STRIDE = 7919 }; /* a prime: no small network's stretches repeat soon */

struct member {
    struct company *company;
    int number;
    pthread_t thread;
    struct bench bench;
    enum ps_status status;
    struct ps_error error;
};

struct company {
    struct member *members;
    int count; /* threads started */
    atomic_bool leave;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int ready; /* members that have run a round, or failed */
};

static void report_ready(struct company *company) {
    pthread_mutex_lock(&company->lock);
    company->ready++;
    pthread_cond_signal(&company->changed);
    pthread_mutex_unlock(&company->lock);
}

static enum ps_status work(struct member *member) {
    struct bench *bench = &member->bench;
    struct ps_error *error = &member->error;
    if (bench->device->class->attach) bench->device->class->attach(bench->device);
    TRY(bench_open(bench, error));
    TRY(bench_round(bench, 0, -1, error));
    report_ready(member->company);
    for (int round = 1; !atomic_load(&member->company->leave); round++) {
        int stretch = (int)((int64_t)STRIDE * (round + member->number) % bench->layer_count);
        TRY(bench_forward(bench, stretch, error));
        TRY(bench_round(bench, round, -1, error));
    }
    return PS_OK;
}

static void *thread_main(void *argument) {
    struct member *member = argument;
    member->status = work(member);
    if (member->status != PS_OK) report_ready(member->company);
    return NULL;
}

static enum ps_status start_member(struct company *company, const struct bench *like, struct ps_error *error) {
    struct member *member = &company->members[company->count];
    const struct device *device = like->device;
    *member = (struct member){.company = company, .number = company->count, .bench = *like};
    member->bench.repeats = 1;
    TRY(device_open(device->class->name, &(struct device_options){.threads = device->threads}, &member->bench.device, error));
    int code = pthread_create(&member->thread, NULL, thread_main, member);
    if (code) {
        device_close(member->bench.device);
        return error_set(error, PS_FAILED, "cannot start a thread to profile beside: %s", strerror(code));
    }
    company->count++;
    return PS_OK;
}

enum ps_status company_end(struct company *company, struct ps_error *error) {
    enum ps_status status = PS_OK;
    if (!company) return PS_OK;
    atomic_store(&company->leave, true);
    for (int i = 0; i < company->count; i++) {
        struct member *member = &company->members[i];
        pthread_join(member->thread, NULL);
        bench_close(&member->bench);
        device_close(member->bench.device);
        if (status != PS_OK || member->status == PS_OK) continue;
        status = member->status;
        if (error) *error = member->error;
    }
    pthread_cond_destroy(&company->changed);
    pthread_mutex_destroy(&company->lock);
    free(company->members);
    free(company);
    return status;
}

enum ps_status company_start(const struct bench *like, int count, struct company **out, struct ps_error *error) {
    struct company *company = calloc(1, sizeof *company);
    if (company) company->members = calloc((size_t)count + 1, sizeof *company->members);
    if (!company || !company->members) {
        free(company);
        return error_memory(error, "profiling", (size_t)count * sizeof *company->members);
    }
    pthread_mutex_init(&company->lock, NULL);
    pthread_cond_init(&company->changed, NULL);
    enum ps_status status = PS_OK;
    for (int i = 0; i < count && status == PS_OK; i++) status = start_member(company, like, error);
    pthread_mutex_lock(&company->lock);
    while (company->ready < company->count) pthread_cond_wait(&company->changed, &company->lock);
    pthread_mutex_unlock(&company->lock);
    if (status != PS_OK) {
        company_end(company, NULL);
        return status;
    }
    *out = company;
    return PS_OK;
}
