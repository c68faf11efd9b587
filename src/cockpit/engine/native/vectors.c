/* Sums over parameter-sized vectors, several at once. */

#include <stdlib.h>

#include "lanes.h"

/* Visit some of the blocks of all vectors, numbered through. */
typedef void (*visit)(void *task, int64_t p, int64_t at, int64_t n, int which);

static void each_block(const int64_t *sizes, int64_t vectors, int64_t begin, int64_t end, visit run, void *task,
                       int which) {
  int64_t first = 0;
  for (int64_t p = 0; p < vectors && first < end; p++) {
    int64_t blocks = (sizes[p] + BLOCK - 1) / BLOCK;
    int64_t from = begin > first ? begin - first : 0, to = end - first < blocks ? end - first : blocks;
    for (int64_t k = from; k < to; k++) {
      int64_t at = k * BLOCK;
      run(task, p, at, sizes[p] - at < BLOCK ? sizes[p] - at : BLOCK, which);
    }
    first += blocks;
  }
}

/* Let threads sum ``wide`` numbers for each vector. */
static int summed(part run, void *task, double **each, const int64_t *sizes, int64_t vectors, int wide, double *found,
                  int threads) {
  int64_t blocks = 0, number = vectors * wide;
  for (int64_t p = 0; p < vectors; p++) blocks += (sizes[p] + BLOCK - 1) / BLOCK;
  if (threads > THREADS) threads = THREADS;
  if (threads < 1) threads = 1;
  *each = calloc((size_t)threads * number + 1, sizeof **each);
  if (!*each) return 1;
  spread(run, task, blocks, threads);
  for (int64_t k = 0; k < number; k++) found[k] = 0;
  for (int64_t k = 0; k < threads * number; k++) found[k % number] += (*each)[k];
  free(*each);
  return 0;
}

/* ---- lengths, inner products, distances */

typedef struct {
  const float *const *one, *const *other; /* other: NULL for lengths */
  const int64_t *sizes;
  int64_t vectors;
  int apart;
  double *found; /* of each thread */
} vector_task;

static void vector_block(void *given, int64_t p, int64_t at, int64_t n, int which) {
  vector_task *t = given;
  double *found = t->found + which * t->vectors + p;
  if (!t->other)
    *found += square_sum(t->one[p] + at, n);
  else if (t->apart)
    *found += distance_sum(t->one[p] + at, t->other[p] + at, n);
  else
    *found += product_sum(t->one[p] + at, t->other[p] + at, n);
}

static void vector_blocks(void *given, int64_t begin, int64_t end, int which) {
  vector_task *t = given;
  each_block(t->sizes, t->vectors, begin, end, vector_block, t, which);
}

int vector_sums(const float *const *one, const float *const *other, const int64_t *sizes, int64_t vectors, int apart,
                double *found, int threads) {
  vector_task task = {one, other, sizes, vectors, apart, NULL};
  return summed(vector_blocks, &task, &task.found, sizes, vectors, 1, found, threads);
}

/* ---- a step of the optimizer: update = now - before where wanted, and how far it follows the gradient */

#define SUMS 4 /* of update^2, update * gradient, before^2, gradient^2 */

typedef struct {
  const float *const *now, *const *before, *const *gradient;
  float *const *update;
  const int64_t *sizes;
  int64_t vectors;
  double *found; /* of each thread: [vectors, SUMS] */
} motion_task;

/* All sums in one pass; ``beside`` and ``kept`` are known where it is called, and the loop is made for them. */
static inline __attribute__((always_inline)) void moved(const float *now, const float *before, const float *gradient,
                                                        float *update, int64_t n, int beside, int kept, double *found) {
  doubles all[SUMS] = {{0}};
  int64_t i = 0;
  while (i + LANES <= n) {
    floats s[SUMS] = {{0}};
    int64_t end = i + SUM < n ? i + SUM : n;
    for (; i + LANES <= end; i += LANES) {
      floats b = load(before + i), u = load(now + i) - b;
      if (kept) *(loose *)(update + i) = u;
      s[0] += u * u, s[2] += b * b;
      if (!beside) continue;
      floats g = load(gradient + i);
      s[1] += u * g, s[3] += g * g;
    }
    for (int k = 0; k < SUMS; k++) all[k] = added(all[k], s[k]);
  }
  for (int k = 0; k < SUMS; k++) found[k] += sum(all[k]);
  for (; i < n; i++) {
    float u = now[i] - before[i];
    double b = before[i], g = beside ? gradient[i] : 0;
    if (kept) update[i] = u;
    found[0] += (double)u * u, found[1] += u * g, found[2] += b * b, found[3] += g * g;
  }
}

static void motion_block(void *given, int64_t p, int64_t at, int64_t n, int which) {
  motion_task *t = given;
  double *found = t->found + SUMS * (which * t->vectors + p);
  const float *now = t->now[p] + at, *before = t->before[p] + at, *gradient = t->gradient ? t->gradient[p] + at : NULL;
  float *update = t->update[p] ? t->update[p] + at : NULL;
  if (gradient && update)
    moved(now, before, gradient, update, n, 1, 1, found);
  else if (gradient)
    moved(now, before, gradient, update, n, 1, 0, found);
  else if (update)
    moved(now, before, gradient, update, n, 0, 1, found);
  else
    moved(now, before, gradient, update, n, 0, 0, found);
}

static void motion_blocks(void *given, int64_t begin, int64_t end, int which) {
  motion_task *t = given;
  each_block(t->sizes, t->vectors, begin, end, motion_block, t, which);
}

/* Of the first ``most`` elements: sums of (update - c * gradient)^2, with the best c for all of them, and of before^2. */
static void probe(const motion_task *t, int64_t p, int64_t most, const double *sums, double *found) {
  int64_t size = t->sizes[p] < most ? t->sizes[p] : most;
  float room[BLOCK], c = sums[3] > 0 ? (float)(sums[1] / sums[3]) : 0;
  for (int64_t at = 0; at < size; at += BLOCK) {
    int64_t n = size - at < BLOCK ? size - at : BLOCK;
    const float *x = t->now[p] + at, *y = t->before[p] + at, *g = t->gradient[p] + at;
    for (int64_t i = 0; i < n; i++) room[i] = (x[i] - y[i]) - c * g[i];
    found[0] += square_sum(room, n);
    found[1] += square_sum(y, n);
  }
}

/* ``found``: of each vector the sums over all elements, then those over the first ``most``. */
int motion(const float *const *now, const float *const *before, float *const *update, const float *const *gradient,
           const int64_t *sizes, int64_t vectors, int64_t most, double *found, int threads) {
  motion_task task = {now, before, gradient, update, sizes, vectors, NULL};
  double *sums = calloc((size_t)(SUMS * vectors + 1), sizeof *sums);
  int lacking = !sums || summed(motion_blocks, &task, &task.found, sizes, vectors, SUMS, sums, threads);
  for (int64_t p = 0; p < vectors && !lacking; p++) {
    double *row = found + (SUMS + 2) * p;
    for (int k = 0; k < SUMS; k++) row[k] = sums[SUMS * p + k];
    row[SUMS] = row[SUMS + 1] = 0;
    if (gradient) probe(&task, p, most, row, row + SUMS);
  }
  free(sums);
  return lacking;
}
