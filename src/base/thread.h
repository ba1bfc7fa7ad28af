/* Threads of the library's: what they log goes where the log of the thread goes that started them. */
#ifndef PENSTOCK_BASE_THREAD_H
#define PENSTOCK_BASE_THREAD_H

#include <pthread.h>

/* As pthread_create, with its codes. */
int thread_start(pthread_t *thread, void *(*function)(void *argument), void *argument);

#endif
