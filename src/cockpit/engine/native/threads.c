/* Threads: those of torch, which wait for work anyway; a pool of our own would fight with them for the processor. */

#include <stddef.h>

#include "lanes.h"

typedef void (*team)(void (*member)(void *), void *data, unsigned threads, unsigned flags);

static team parallel = NULL; /* GOMP_parallel of the library that torch uses */

int join_team(void *found) {
  parallel = (team)found;
  return 0;
}

typedef struct {
  part run;
  void *task;
  int64_t count;
  int shares, next;
} job;

static void member(void *given) { /* takes shares until there are none, however many members there are */
  job *all = given;
  for (int k; (k = __atomic_fetch_add(&all->next, 1, __ATOMIC_RELAXED)) < all->shares;)
    all->run(all->task, all->count * k / all->shares, all->count * (k + 1) / all->shares, k);
}

void spread(part run, void *task, int64_t count, int threads) {
  if (threads > THREADS) threads = THREADS;
  if (threads > count) threads = (int)count;
  if (threads < 1) threads = 1;
  job all = {run, task, count, threads, 0};
  if (threads > 1 && parallel)
    parallel(member, &all, (unsigned)threads, 0);
  else
    member(&all);
}
