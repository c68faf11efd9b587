/* A vector made orthogonal to others: all of them are read three times, a block that stays in the cache at a time.
 * Others in place of some of them: read and written once. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lanes.h"

#define STEP 2048 /* numbers of a block */

typedef struct {
  const float *rows; /* [count, size] */
  int64_t size, count;
  float *v;
  const double *parts;  /* of rows from ``removed`` on, taken away first */
  int64_t removed, met; /* then products with rows from ``met`` on */
  double *found;        /* of each thread: the products, and v^2 */
} task;

static void pass_over(void *given, int64_t begin, int64_t end, int which) {
  task *t = given;
  double *found = t->found + which * (t->count + 1);
  for (int64_t at = begin * STEP; at < end * STEP && at < t->size; at += STEP) {
    int64_t n = t->size - at < STEP ? t->size - at : STEP;
    float *v = t->v + at;
    for (int64_t i = t->removed; i < t->count; i++) {
      const float *row = t->rows + i * t->size + at, part = (float)t->parts[i];
      for (int64_t j = 0; j < n; j++) v[j] -= part * row[j];
    }
    for (int64_t i = t->met; i < t->count; i++) found[i] += product_sum(t->rows + i * t->size + at, v, n);
    if (t->met == t->count) found[t->count] += square_sum(v, n);
  }
}

static void pass(task *t, double *sums, int threads) {
  int64_t wide = t->count + 1;
  memset(t->found, 0, sizeof(double) * (size_t)(threads * wide));
  spread(pass_over, t, (t->size + STEP - 1) / STEP, threads);
  memset(sums, 0, sizeof(double) * (size_t)wide);
  for (int64_t k = 0; k < threads * wide; k++) sums[k % wide] += t->found[k];
}

/* Put parts of v along the rows into ``found``, [count], and behind them the length of what is left of it. All parts are
 * removed; those along rows before the last ``newest`` ones are rounding errors, and go last, or they would grow. ``once``:
 * these few rows are all that matters, and rounding does not. */
int orthogonalise(const float *rows, int64_t size, int64_t count, int64_t newest, float *v, double *found, int once,
                  int threads) {
  if (threads > THREADS) threads = THREADS;
  if (threads < 1) threads = 1;
  double *room = malloc(sizeof(double) * (size_t)((threads + 1) * (count + 1)));
  if (!room) return 1;
  double *parts = room + threads * (count + 1);
  task t = {rows, size, count, v, NULL, count, count - newest, room};
  pass(&t, once ? found : parts, threads);
  if (!once) {
    t.parts = parts, t.removed = count - newest, t.met = 0;
    pass(&t, found, threads);
  }
  t.parts = found, t.removed = 0, t.met = count;
  double left[count + 1];
  pass(&t, left, threads);
  for (int64_t i = count - newest; i < count && !once; i++) found[i] += parts[i];
  found[count] = sqrt(left[count]);
  free(room);
  return 0;
}

#define MIXED 512 /* numbers of a block of all results, of which there are few */

typedef struct {
  float *rows; /* [count, size] */
  int64_t size, count, kept;
  const float *mix; /* [kept, count] */
} blend;

static void blend_over(void *given, int64_t begin, int64_t end, int which) {
  (void)which;
  blend *t = given;
  float room[t->kept][MIXED];
  for (int64_t at = begin * MIXED; at < end * MIXED && at < t->size; at += MIXED) {
    int64_t n = t->size - at < MIXED ? t->size - at : MIXED;
    for (int64_t k = 0; k < t->kept; k++) {
      memset(room[k], 0, sizeof(float) * (size_t)n);
      for (int64_t i = 0; i < t->count; i++) {
        const float *row = t->rows + i * t->size + at, part = t->mix[k * t->count + i];
        for (int64_t j = 0; j < n; j++) room[k][j] += part * row[j];
      }
    }
    for (int64_t k = 0; k < t->kept; k++) memcpy(t->rows + k * t->size + at, room[k], sizeof(float) * (size_t)n);
  }
}

/* Put sum_i mix_ki row_i in place of the first ``kept`` rows. */
int mix_rows(float *rows, int64_t size, int64_t count, int64_t kept, const float *mix, int threads) {
  blend t = {rows, size, count, kept, mix};
  spread(blend_over, &t, (size + MIXED - 1) / MIXED, threads);
  return 0;
}
