/* One column, the two halves of the product rule together: data and weights, each with what the other is moved by. */

#include "picked.h"

typedef struct {
  layout l;
  int64_t samples;
  const float *data[2], *rows[2]; /* images and weights; NULL: none */
  lists picked;
  values v[2];
  const float *bias;
  float *found, *sums;
  int failed;
} task;

typedef float eight __attribute__((vector_size(32)));

static inline eight half(block x) { /* what is left when the second half is added to the first */
#if WIDTH == 16
  union { block all; eight both[2]; } v = {x};
  return v.both[0] + v.both[1];
#else
  return x;
#endif
}

/* Neighbours added, of two vectors in turn: within each half of them, which no shuffle has to leave. */
static inline eight neighbours(eight a, eight b) {
  return TAKE(a, b, 0, 2, 8, 10, 4, 6, 12, 14) + TAKE(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
}

/* The sums of eight blocks at once. */
static inline eight summed(const block *from) {
  eight all[8], two[4], four[2];
  EACH(8) all[g] = half(from[g]);
  EACH(4) two[g] = neighbours(all[2 * g], all[2 * g + 1]);
  EACH(2) four[g] = neighbours(two[2 * g], two[2 * g + 1]);
  return TAKE(four[0], four[1], 0, 1, 2, 3, 8, 9, 10, 11) + TAKE(four[0], four[1], 4, 5, 6, 7, 12, 13, 14, 15);
}

/* From [height, width] to [width, height]. */
static void turn(const float *x, int64_t height, int64_t width, float *to) {
  for (int64_t j = 0; j < width; j++)
    for (int64_t i = 0; i < height; i++) to[j * height + i] = x[i * width + j];
}

/* <w, x_e> for up to eight patches x_e that begin at the places ``at`` of an image: all sums stay in registers. */
typedef eight (*dots)(const layout *l, const int32_t *at, const float *w, const float *image);

#define DOTS(M)                                                                                      \
  static eight dots_##M(const layout *l, const int32_t *at, const float *w, const float *image) {    \
    const float *from[M];                                                                            \
    block s[8] = {{0}};                                                                              \
    EACH(M) from[g] = image + at[g];                                                                 \
    for (int64_t b = 0; b < l->blocks; b++) {                                                        \
      block own = LOAD(w + b * WIDTH);                                                               \
      EACH(M) s[g] += own * LOAD(from[g] + l->offsets[b]);                                           \
    }                                                                                                \
    return summed(s);                                                                                \
  }                                                                                                  \
  static eight run_dots_##M(const layout *l, const int32_t *at, const float *w, const float *image) { \
    const float *from[M];                                                                            \
    block s[8] = {{0}};                                                                              \
    for (int64_t r = 0; r < l->blocks; r += l->run, w += l->run * WIDTH) {                           \
      EACH(M) from[g] = image + l->offsets[r] + at[g];                                               \
      for (int64_t b = 0; b < l->run * WIDTH; b += WIDTH) {                                          \
        block own = LOAD(w + b);                                                                     \
        EACH(M) s[g] += own * LOAD(from[g] + b);                                                     \
      }                                                                                              \
    }                                                                                                \
    return summed(s);                                                                                \
  }

DOTS(1) DOTS(2) DOTS(3) DOTS(4) DOTS(5) DOTS(6) DOTS(7) DOTS(8)
static const dots of_blocks[] = {NULL, dots_1, dots_2, dots_3, dots_4, dots_5, dots_6, dots_7, dots_8};
static const dots of_runs[] = {NULL,       run_dots_1, run_dots_2, run_dots_3, run_dots_4,
                               run_dots_5, run_dots_6, run_dots_7, run_dots_8};

/* Of one channel, to its places; ``fresh``: the first half, which begins with the bias. */
static void forward(const task *t, int64_t n, int64_t o, int k, int fresh, float *to) {
  const layout *l = &t->l;
  const dots *all = l->run < LONG ? of_blocks : of_runs;
  float bias = fresh && t->bias ? t->bias[o] : 0;
  const float *x = t->data[k] ? t->data[k] + n * l->image : NULL, *w = x ? t->rows[k] + o * row(l) : NULL;
  listed p = of_channel(l, &t->picked, n, o);
  for (int64_t e = 0, each = even(p.entries + !p.entries, 8); e < p.entries; e += each) {
    int64_t m = smaller(each, p.entries - e);
    const uint16_t *place = p.place + e;
    eight more = {0};
    if (x) more = all[m](l, p.at + e, w, x);
    more += bias;
    for (int64_t i = 0; i < m; i++) to[place[i]] = (fresh ? 0 : to[place[i]]) + more[i];
  }
}

static void repeat(const task *t, int64_t n, int64_t o, float *to) {
  listed p = of_channel(&t->l, &t->picked, n, o);
  for (int64_t r = t->l.places - p.repeats; r < t->l.places; r++) to[p.place[r]] = to[p.place[p.at[r]]];
}

static void forward_of(void *given, int64_t begin, int64_t end, int which) {
  task *t = given;
  const layout *l = &t->l;
  size_t size = (size_t)(l->channels * l->places);
  float *room = malloc(sizeof(float) * size); /* [channels, places] */
  (void)which;
  if (!room) t->failed = 1;
  for (int64_t n = begin; n < end && room; n++) {
    memset(room, 0, sizeof(float) * size);
    for (int k = 0; k < 2; k++) /* one half after the other: an image at a time stays in the cache */
      for (int64_t o = 0; o < l->channels && (t->data[k] || !k); o++) forward(t, n, o, k, !k, room + o * l->places);
    for (int64_t o = 0; o < l->channels; o++) repeat(t, n, o, room + o * l->places);
    turn(room, l->channels, l->places, t->found + (size_t)n * size);
  }
  free(room);
}

/* Put bias_o + <x_s, w_o> + <y_s, u_o> into ``found``, [samples, places, channels]; zero where nothing was picked. */
int picked_forward(const int64_t *given, int64_t samples, const float *x, const float *w, const float *y, const float *u,
                   const float *bias, const int32_t *count, const int32_t *at, const uint16_t *place, float *found,
                   int threads) {
  task all = {.l = read_layout(given), .samples = samples, .data = {x, y}, .rows = {w, u}, .bias = bias,
              .picked = {.count = count, .at = at, .place = place}, .found = found};
  spread(forward_of, &all, samples, threads);
  return all.failed;
}

/* Of one half of a channel; ``v``: room for values, and zeros behind the last. */
static void weights(const task *t, int64_t n, int64_t o, int k, float *v) {
  const layout *l = &t->l;
  listed p = of_channel(l, &t->picked, n, o);
  gather(l, p, t->v[k], n, o, 0, 1, 0, v);
  if (!k) {
    block some = {0};
    double sum = 0;
    STORE(v + p.entries, some);
    for (int64_t e = 0; e < p.entries; e += WIDTH) some += LOAD(v + e);
    for (int i = 0; i < WIDTH; i++) sum += some[i];
    t->sums[o] += (float)sum;
  }
  const float *image = t->data[k] + n * l->image;
  for (int64_t b = 0, g; b < l->blocks; b += g)
    add_to_row(l, b, g = together(l, b, HELD), p.entries, p.at, v, image, t->found + o * row(l));
}

static void weights_of(void *given, int64_t begin, int64_t end, int which) {
  task *t = given;
  float *v = malloc(sizeof(float) * (size_t)(t->l.places + WIDTH));
  (void)which;
  if (!v) t->failed = 1;
  for (int64_t n = 0; n < t->samples && v; n++)
    for (int k = 0; k < 2 && t->data[k]; k++)
      for (int64_t o = begin; o < end; o++) weights(t, n, o, k, v);
  free(v);
}

/* Add sum_ns v_ns x_ns + u_ns y_ns to ``found``, [channels, row], and sum_ns v_ns to ``sums``; ``y`` may be NULL. */
int picked_weights(const int64_t *given, int64_t samples, const float *x, const float *v, const int64_t *steps,
                   const float *y, const float *u, const int64_t *others, const int32_t *count, const int32_t *at,
                   const uint16_t *place, float *found, float *sums, int threads) {
  task all = {.l = read_layout(given), .samples = samples, .data = {x, y}, .v = {{v, steps}, {u, others}},
              .picked = {.count = count, .at = at, .place = place}, .found = found, .sums = sums};
  spread(weights_of, &all, all.l.channels, threads);
  return all.failed;
}

static void data(const task *t, int64_t n, int k, const int32_t *at, const float *v) {
  const layout *l = &t->l;
  const int32_t *first = t->picked.first + n * (l->positions + 1);
  float *image = t->found + n * l->image;
  int64_t most = CACHE / (l->channels * WIDTH * (int64_t)sizeof(float));
  for (int64_t b = 0, g; b < l->blocks; b += g) { /* outermost: this part of all rows stays in the cache */
    g = together(l, b, most < LONG ? LONG : smaller(most, HELD));
    for (int64_t p = 0; p < l->positions; p++) {
      int64_t from = first[p], m = first[p + 1] - from;
      if (m) add_to_patch(l, b, g, m, at + from, v + from, t->rows[k], image + l->patches[p]);
    }
  }
}

static void data_of(void *given, int64_t begin, int64_t end, int which) {
  task *t = given;
  const layout *l = &t->l;
  size_t most = (size_t)(l->channels * l->places);
  int32_t *at = malloc(sizeof(int32_t) * most);
  float *v = malloc(sizeof(float) * most);
  (void)which;
  if (!at || !v) t->failed = 1;
  for (int64_t n = begin; n < end && at && v; n++) {
    where_rows_begin(l, &t->picked, n, at);
    memset(t->found + n * l->image, 0, sizeof(float) * (size_t)l->image);
    for (int k = 0; k < 2; k++)
      if (t->rows[k]) {
        for (int64_t o = 0; o < l->channels; o++) gather(l, of_channel(l, &t->picked, n, o), t->v[k], n, o, 0, 1, 1, v);
        data(t, n, k, at, v);
      }
  }
  free(at);
  free(v);
}

/* Put sum_s v_ns w_s + u_ns z_s, each where its patch lies, into ``found``, [samples, image]. */
int picked_data(const int64_t *given, int64_t samples, const float *w, const float *v, const int64_t *steps,
                const float *z, const float *u, const int64_t *others, const int32_t *count, const int32_t *at,
                const uint16_t *place, const int32_t *first, const int32_t *rank, const uint16_t *channel, float *found,
                int threads) {
  task all = {.l = read_layout(given), .samples = samples, .rows = {w, z}, .v = {{v, steps}, {u, others}},
              .picked = {count, at, place, first, rank, channel}, .found = found};
  spread(data_of, &all, samples, threads);
  return all.failed;
}
