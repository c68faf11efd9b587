/* Many columns at once: squares of the gradients of a convolution's weights, and gradients of its data. */

#include "picked.h"

#define MOST 12 /* columns whose sums stay in registers */

#define ALL(K) _Pragma("GCC unroll 16") for (int k = 0; k < K; k++)

/* s_k = sum_e v_ek x_e, a block of the rows x_e that begin at the places ``at`` */
#define SUMS(K, X)                                     \
  block s[K] = {{0}};                                  \
  for (int64_t e = 0; e < m; e++) {                    \
    block a = LOAD((X) + at[e]);                       \
    ALL(K) s[k] += a * v[e * K + k];                   \
  }

/* Add sum_k sign_k s_k^2 to a row, for all blocks of patches that begin at the places ``at``. */
typedef void (*squarer)(const layout *l, int64_t m, const int32_t *at, const float *v, const float *x, const float *signs,
                        float *to);

#define SQUARE(K)                                                                                                  \
  static void square_##K(const layout *l, int64_t m, const int32_t *at, const float *v, const float *x,            \
                         const float *signs, float *to) {                                                          \
    for (int64_t b = 0; b < l->blocks; b++, to += WIDTH) {                                                         \
      SUMS(K, x + l->offsets[b])                                                                                   \
      block all = LOAD(to);                                                                                        \
      ALL(K) all += s[k] * s[k] * signs[k];                                                                        \
      STORE(to, all);                                                                                              \
    }                                                                                                              \
  }

/* Add s_k to the patch of an image of each column, for all blocks of rows that begin at the places ``at``. */
typedef void (*layer)(const layout *l, int64_t m, const int32_t *at, const float *v, const float *x, float *patch);

#define LAY(K)                                                                                                      \
  static void lay_##K(const layout *l, int64_t m, const int32_t *at, const float *v, const float *x, float *patch) { \
    for (int64_t b = 0; b < l->blocks; b++, x += WIDTH) {                                                           \
      SUMS(K, x)                                                                                                    \
      float *to = patch + l->offsets[b];                                                                            \
      ALL(K) STORE(to + k * l->image, LOAD(to + k * l->image) + s[k]);                                              \
    }                                                                                                               \
  }

#define BOTH(K) SQUARE(K) LAY(K)
BOTH(1) BOTH(2) BOTH(3) BOTH(4) BOTH(5) BOTH(6) BOTH(7) BOTH(8) BOTH(9) BOTH(10) BOTH(11) BOTH(12)
static const squarer squarers[] = {NULL,     square_1, square_2, square_3,  square_4,  square_5, square_6,
                                   square_7, square_8, square_9, square_10, square_11, square_12};
static const layer layers[] = {NULL,  lay_1, lay_2, lay_3,  lay_4,  lay_5, lay_6,
                               lay_7, lay_8, lay_9, lay_10, lay_11, lay_12};

typedef struct {
  layout l;
  int64_t samples, columns;
  const float *images, *rows, *signs;
  lists picked;
  values v;
  float *found, *sums;
  int failed;
} task;

static void add_squares(const task *t, int64_t n, int64_t o, int64_t from, int64_t each, float *v) {
  const layout *l = &t->l;
  listed p = of_channel(l, &t->picked, n, o);
  float signs[MOST];
  double sums[MOST] = {0};
  gather(l, p, t->v, n, o, from, each, 0, v);
  for (int64_t e = 0; e < p.entries; e++)
    for (int64_t k = 0; k < each; k++) sums[k] += v[e * each + k];
  for (int64_t k = 0; k < each; k++) {
    signs[k] = t->signs ? t->signs[(from + k) * t->samples + n] : 1;
    t->sums[o] += (float)(sums[k] * sums[k]) * signs[k];
  }
  squarers[each](l, p.entries, p.at, v, t->images + n * l->image, signs, t->found + o * row(l));
}

static void squares_of(void *given, int64_t begin, int64_t end, int which) {
  task *t = given;
  int64_t most = even(t->columns, MOST);
  float *v = malloc(sizeof(float) * (size_t)(t->l.places * most));
  (void)which;
  if (!v) t->failed = 1;
  for (int64_t n = 0; n < t->samples && v; n++)
    for (int64_t o = begin; o < end; o++)
      for (int64_t k = 0; k < t->columns; k += most) add_squares(t, n, o, k, smaller(most, t->columns - k), v);
  free(v);
}

/* Add sum_nk sign_kn g_nk^2 to ``found``, [channels, row], for g_nk = sum_s v_kns x_ns; the same without x to ``sums``,
 * [channels]. ``signs`` may be NULL. */
int picked_squares(const int64_t *given, int64_t samples, const float *images, const int32_t *count, const int32_t *at,
                   const uint16_t *place, const float *v, const int64_t *steps, int64_t columns, const float *signs,
                   float *found, float *sums, int threads) {
  task all = {.l = read_layout(given), .samples = samples, .columns = columns, .images = images, .signs = signs,
              .picked = {.count = count, .at = at, .place = place}, .v = {v, steps}, .found = found, .sums = sums};
  spread(squares_of, &all, all.l.channels, threads);
  return all.failed;
}

static void lay(const task *t, const int32_t *first, int64_t each, const int32_t *at, const float *v, float *image) {
  const layout *l = &t->l;
  for (int64_t p = 0; p < l->positions; p++) {
    int64_t from = first[p], m = first[p + 1] - from;
    if (m) layers[each](l, m, at + from, v + from * each, t->rows, image + l->patches[p]);
  }
}

static void back_of(void *given, int64_t begin, int64_t end, int which) {
  task *t = given;
  const layout *l = &t->l;
  int64_t all = l->channels * l->places, most = even(t->columns, MOST);
  int32_t *at = malloc(sizeof(int32_t) * (size_t)all);
  float *v = malloc(sizeof(float) * (size_t)(all * most));
  (void)which;
  if (!at || !v) t->failed = 1;
  for (int64_t n = begin; n < end && at && v; n++) {
    where_rows_begin(l, &t->picked, n, at);
    for (int64_t k = 0; k < t->columns; k += most) {
      int64_t each = smaller(most, t->columns - k);
      for (int64_t o = 0; o < l->channels; o++) gather(l, of_channel(l, &t->picked, n, o), t->v, n, o, k, each, 1, v);
      float *image = t->found + (n * t->columns + k) * l->image;
      memset(image, 0, sizeof(float) * (size_t)(each * l->image));
      lay(t, t->picked.first + n * (l->positions + 1), each, at, v, image);
    }
  }
  free(at);
  free(v);
}

/* Put the gradients of the data into ``found``, [samples, columns, image]: sum_s v_kns w_s, each where its patch lies. */
int picked_back(const int64_t *given, int64_t samples, const float *rows, const int32_t *count, const int32_t *at,
                const uint16_t *place, const int32_t *first, const int32_t *rank, const uint16_t *channel, const float *v,
                const int64_t *steps, int64_t columns, float *found, int threads) {
  task all = {.l = read_layout(given), .samples = samples, .columns = columns, .rows = rows,
              .picked = {count, at, place, first, rank, channel}, .v = {v, steps}, .found = found};
  spread(back_of, &all, samples, threads);
  return all.failed;
}
