/* Gradients of a convolution's weights for each sample, where many results have none: behind ReLUs and max-pooling. */

#include "picked.h"

typedef struct {
  layout l;
  const float *images;
  values v;
  float factor;
  int64_t inside, runs, width; /* channels of an image, runs of a patch, elements of the kernel in a run */
  float *found;
  int failed;
} task;

/* Values that are not zero, and where their patches begin. */
static int64_t compact(const task *t, const float *from, int32_t *at, float *v) {
  int64_t m = 0, p = 0, step = t->v.steps[3]; /* from one place to the next */
  for (; step == 1 && p + LANES <= t->l.positions; p += LANES)
    for (uint64_t which = bits((ints)(load(from + p) != 0)); which; which &= which - 1) {
      int64_t k = p + __builtin_ctzll(which);
      v[m] = from[k] * t->factor;
      at[m++] = (int32_t)t->l.patches[k];
    }
  for (; p < t->l.positions; p++)
    if (from[p * step] != 0) {
      v[m] = from[p * step] * t->factor;
      at[m++] = (int32_t)t->l.patches[p];
    }
  return m;
}

static void sum_patches(const layout *l, int64_t m, const int32_t *at, const float *v, const float *image, float *sums) {
  memset(sums, 0, sizeof(float) * (size_t)row(l));
  for (int64_t b = 0, g; b < l->blocks; b += g) add_to_row(l, b, g = together(l, b, HELD), m, at, v, image, sums);
}

/* From [kernel, channels], run by run, to [channels, kernel]. */
static void turn(const task *t, const float *sums, float *to) {
  int64_t size = t->runs * t->width, each = row(&t->l) / t->runs;
  for (int64_t r = 0; r < t->runs; r++)
    for (int64_t j = 0; j < t->width; j++) {
      const float *from = sums + r * each + j * t->inside;
      for (int64_t c = 0; c < t->inside; c++) to[c * size + r * t->width + j] = from[c];
    }
}

static void formed_of(void *given, int64_t begin, int64_t end, int which) {
  task *t = given;
  const layout *l = &t->l;
  int32_t *at = malloc(sizeof(int32_t) * (size_t)l->positions);
  float *v = malloc(sizeof(float) * (size_t)(l->positions + row(l))), *sums = v + l->positions;
  (void)which;
  if (!at || !v) t->failed = 1;
  for (int64_t k = begin; k < end && at && v; k++) {
    int64_t n = k / l->channels, m = compact(t, value(t->v, n, k % l->channels), at, v);
    sum_patches(l, m, at, v, t->images + n * l->image, sums);
    turn(t, sums, t->found + k * t->runs * t->width * t->inside);
  }
  free(at);
  free(v);
}

/* Put g_n = factor sum_p v_np x_np into ``found``, [samples, channels, inside, kernel]. */
int picked_formed(const int64_t *given, int64_t samples, const float *images, const float *v, const int64_t *steps,
                  float factor, int64_t inside, int64_t runs, int64_t width, float *found, int threads) {
  task all = {read_layout(given), images, {v, steps}, factor, inside, runs, width, found, 0};
  spread(formed_of, &all, samples * all.l.channels, threads);
  return all.failed;
}
