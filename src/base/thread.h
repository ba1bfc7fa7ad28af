/* Threads of the library's: what they log goes where the log of the thread goes that started them. */
#ifndef PENSTOCK_BASE_THREAD_H
#define PENSTOCK_BASE_THREAD_H

#include <pthread.h>

/* As pthread_create, with its codes. */
int thread_start(pthread_t *thread, void *(*function)(void *argument), void *argument);

/* Between these two a thread runs a function that the program gave the library, and that may wait as long as it likes: a
 * dataset's. The third says how many threads of the process do. */
void thread_enter_given(void);
void thread_leave_given(void);
int threads_in_given(void);

#endif
