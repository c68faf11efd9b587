/* One column, the two halves of the product rule together: data and weights, each with what the other is moved by. */

#include "picked.h"

typedef struct {
  layout l;
  int64_t samples;
  const float *data[2], *rows[2]; /* images and weights; NULL: none */
  const int32_t *index;
  values v[2];
  const float *bias;
  const int64_t *steps; /* of the result */
  float *found, *sums;
  int failed;
} task;

/* found_e += <w, x_e>, some blocks of the rows x_e that begin at the places ``at``; still to be summed over a block */
typedef void (*dots)(int64_t m, const int64_t *at, const float *w, const float *x, const int64_t *by, block *found);

#define DOTS(G)                                                                                                         \
  static void dots_##G(int64_t m, const int64_t *at, const float *w, const float *x, const int64_t *by, block *found) { \
    const float *from[G];                                                                                               \
    block own[G];                                                                                                       \
    EACH(G) own[g] = LOAD(w + g * WIDTH);                                                                               \
    EACH(G) from[g] = x + by[g];                                                                                        \
    for (int64_t e = 0; e < m; e++) {                                                                                   \
      block s = found[e];                                                                                               \
      EACH(G) s += own[g] * LOAD(from[g] + at[e]);                                                                      \
      found[e] = s;                                                                                                     \
    }                                                                                                                   \
  }

DOTS(1) DOTS(2) DOTS(3) DOTS(4) DOTS(5) DOTS(6) DOTS(7) DOTS(8)
static const dots all_dots[] = {NULL, dots_1, dots_2, dots_3, dots_4, dots_5, dots_6, dots_7, dots_8};

/* Where the patches begin that a channel picked. No branch depends on it, which nothing could foresee. */
static int64_t where(const layout *l, const int32_t *index, int64_t *at) {
  int64_t m = 0;
  for (int64_t e = 0; e < l->places; e++) {
    int there = index[e] < l->positions;
    at[m] = l->patches[there ? index[e] : 0];
    m += there;
  }
  return m;
}

typedef float eight __attribute__((vector_size(32)));
typedef float eight_anywhere __attribute__((vector_size(32), aligned(4), may_alias));

static inline eight half(block x) { /* what is left when the second half is added to the first */
#if WIDTH == 16
  union { block all; eight both[2]; } v = {x};
  return v.both[0] + v.both[1];
#else
  return x;
#endif
}

/* The sums of eight blocks at once. */
static inline eight summed(const block *from) {
  eight all[8], two[4], four[2], *x = all;
  for (int i = 0; i < 8; i++) all[i] = half(from[i]);
  for (int i = 0; i < 4; i++, x += 2)
    two[i] = TAKE(x[0], x[1], 0, 8, 2, 10, 4, 12, 6, 14) + TAKE(x[0], x[1], 1, 9, 3, 11, 5, 13, 7, 15);
  x = two;
  for (int i = 0; i < 2; i++, x += 2)
    four[i] = TAKE(x[0], x[1], 0, 1, 8, 9, 4, 5, 12, 13) + TAKE(x[0], x[1], 2, 3, 10, 11, 6, 7, 14, 15);
  return TAKE(four[0], four[1], 0, 1, 2, 3, 8, 9, 10, 11) + TAKE(four[0], four[1], 4, 5, 6, 7, 12, 13, 14, 15);
}

static void forward(const task *t, int64_t n, int64_t o, int64_t *at, block *found) {
  const layout *l = &t->l;
  const int32_t *index = picks(l, t->index, n, o);
  float *to = t->found + n * t->steps[1] + o * t->steps[2], bias = t->bias ? t->bias[o] : 0;
  int64_t m = where(l, index, at);
  memset(found, 0, sizeof(block) * (size_t)(m + 8));
  for (int k = 0; k < 2; k++) {
    if (!t->data[k]) continue;
    const float *w = t->rows[k] + o * row(l), *x = t->data[k] + n * l->image;
    for (int64_t b = 0, each = even(l->blocks, GROUP); b < l->blocks; b += each)
      all_dots[smaller(each, l->blocks - b)](m, at, w + b * WIDTH, x, l->offsets + b, found);
  }
  float *sums = (float *)found; /* those of eight blocks take the place of the first */
  for (int64_t e = 0; e < m; e += 8) *(eight_anywhere *)(sums + e) = summed(found + e) + bias;
  for (int64_t e = 0, next = 0; e < l->places; e++) {
    int there = index[e] < l->positions;
    to[e * t->steps[3]] = there ? sums[next] : 0;
    next += there;
  }
}

static void forward_of(void *given, int64_t begin, int64_t end, int which) {
  task *t = given;
  int64_t *at = malloc(sizeof(int64_t) * (size_t)t->l.places);
  block *found = aligned_alloc(sizeof(block), sizeof(block) * (size_t)(t->l.places + 8)); /* summed by eight */
  (void)which;
  if (!at || !found) t->failed = 1;
  for (int64_t n = begin; n < end && at && found; n++)
    for (int64_t o = 0; o < t->l.channels; o++) forward(t, n, o, at, found);
  free(at);
  free(found);
}

/* Put bias_o + <x_s, w_o> + <y_s, u_o> into ``found``, [., samples, channels, places]; zero where nothing was picked. */
int picked_forward(const int64_t *given, int64_t samples, const float *x, const float *w, const float *y, const float *u,
                   const float *bias, const int32_t *index, float *found, const int64_t *steps, int threads) {
  task all = {.l = read_layout(given), .samples = samples, .data = {x, y}, .rows = {w, u}, .bias = bias,
              .index = index, .found = found, .steps = steps};
  spread(forward_of, &all, samples, threads);
  return all.failed;
}

/* Numbers from one place in memory to another: both halves are handled together, as if they lay in one piece. */
static inline int64_t apart(const float *one, const float *other) {
  return ((intptr_t)other - (intptr_t)one) / (int64_t)sizeof(float);
}

static void weights(const task *t, int64_t n, int64_t o, int64_t *at, float *v) {
  const layout *l = &t->l;
  const int32_t *index = picks(l, t->index, n, o);
  const float *x = (t->data[0] ? t->data[0] : t->data[1]) + n * l->image;
  float *to = t->found + o * row(l);
  int64_t m = where(l, index, at), all = 0;
  for (int k = 0; k < 2; k++) {
    if (!t->data[k]) continue;
    const float *from = value(t->v[k], n, o);
    int64_t further = apart(x, t->data[k] + n * l->image);
    for (int64_t e = 0, next = all; e < l->places; e++) {
      v[next] = from[e * t->v[k].steps[3]];
      next += index[e] < l->positions;
    }
    for (int64_t e = 0; e < m && !k && t->sums; e++) t->sums[o] += v[e];
    for (int64_t e = 0; e < m && all; e++) at[all + e] = at[e] + further;
    all += m;
  }
  for (int64_t b = 0, each = even(l->blocks, GROUP); b < l->blocks; b += each)
    adders[smaller(each, l->blocks - b)](all, at, v, x, l->offsets + b, to + b * WIDTH, in_row);
}

static void weights_of(void *given, int64_t begin, int64_t end, int which) {
  task *t = given;
  int64_t *at = malloc(sizeof(int64_t) * 2 * (size_t)t->l.places);
  float *v = malloc(sizeof(float) * 2 * (size_t)t->l.places);
  (void)which;
  if (!at || !v) t->failed = 1;
  for (int64_t n = 0; n < t->samples && at && v; n++)
    for (int64_t o = begin; o < end; o++) weights(t, n, o, at, v);
  free(at);
  free(v);
}

/* Add sum_ns v_ns x_ns + u_ns y_ns to ``found``, [channels, row], and sum_ns v_ns to ``sums``, which may be NULL. */
int picked_weights(const int64_t *given, int64_t samples, const float *x, const float *v, const int64_t *steps,
                   const float *y, const float *u, const int64_t *others, const int32_t *index, float *found,
                   float *sums, int threads) {
  task all = {.l = read_layout(given), .samples = samples, .data = {x, y}, .v = {{v, steps}, {u, others}},
              .index = index, .found = found, .sums = sums};
  spread(weights_of, &all, all.l.channels, threads);
  return all.failed;
}

static void data(const task *t, const sorted *by, int k, float *image) {
  const layout *l = &t->l;
  for (int64_t b = 0, each = even(l->blocks, GROUP); b < l->blocks; b += each) /* outermost: this part of all rows stays in the cache */
    for (int64_t p = 0; p < l->positions; p++) {
      int64_t from = by->first[p], m = by->first[p + 1] - from;
      if (m)
        adders[smaller(each, l->blocks - b)](m, by->row + from, by->value + from, t->rows[k] + b * WIDTH, in_row,
                                                image + l->patches[p], l->offsets + b);
    }
}

static void data_of(void *given, int64_t begin, int64_t end, int which) {
  task *t = given;
  sorted by = {0};
  int ready = make_sorted(&by, &t->l, 1);
  (void)which;
  if (!ready) t->failed = 1;
  for (int64_t n = begin; n < end && ready; n++) {
    float *image = t->found + n * t->l.image;
    memset(image, 0, sizeof(float) * (size_t)t->l.image);
    sort_picked(&by, &t->l, picks(&t->l, t->index, n, 0));
    for (int k = 0; k < 2; k++)
      if (t->rows[k]) {
        bring_values(&by, &t->l, t->v[k], n, 0, 1);
        data(t, &by, k, image);
      }
  }
  free_sorted(&by);
}

/* Put sum_s v_ns w_s + u_ns z_s, each where its patch lies, into ``found``, [samples, image]. */
int picked_data(const int64_t *given, int64_t samples, const float *w, const float *v, const int64_t *steps,
                const float *z, const float *u, const int64_t *others, const int32_t *index, float *found, int threads) {
  task all = {.l = read_layout(given), .samples = samples, .rows = {w, z}, .v = {{v, steps}, {u, others}},
              .index = index, .found = found};
  spread(data_of, &all, samples, threads);
  return all.failed;
}
