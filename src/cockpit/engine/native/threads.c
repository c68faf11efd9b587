/* Threads: made for one call, because a pool of our own would fight with torch's. */

#include <pthread.h>

#include "lanes.h"

typedef struct {
  part run;
  void *task;
  int64_t begin, end;
  int which;
} share;

static void *started(void *given) {
  share *mine = given;
  mine->run(mine->task, mine->begin, mine->end, mine->which);
  return NULL;
}

void spread(part run, void *task, int64_t count, int threads) {
  share shares[THREADS];
  pthread_t ids[THREADS];
  int running[THREADS];
  if (threads > THREADS) threads = THREADS;
  if (threads > count) threads = (int)count;
  if (threads < 1) threads = 1;
  for (int k = 0; k < threads; k++)
    shares[k] = (share){run, task, count * k / threads, count * (k + 1) / threads, k};
  for (int k = 1; k < threads; k++) running[k] = !pthread_create(&ids[k], NULL, started, &shares[k]);
  started(&shares[0]);
  for (int k = 1; k < threads; k++) {
    if (running[k])
      pthread_join(ids[k], NULL);
    else
      started(&shares[k]);
  }
}
