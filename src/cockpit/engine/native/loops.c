/* Loops over single-precision numbers that torch has no operation for, or only several passes.
 *
 * Bins: x belongs to bin k if k edges are not above it; NaN is below no edge and belongs to the last bin.
 * Sums: at most 16 numbers are added in single precision, then in double.
 */

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX__)
#define LANES 8 /* numbers in a register */
#else
#define LANES 4
#endif
#define BLOCK 4096 /* numbers that stay in the innermost cache */
#define SUM (16 * LANES) /* numbers added in single precision, 16 in each lane */
#define MANY 64    /* edges from which on looking up is faster than comparing */
#define TOGETHER 4 /* edges compared with at once */
#define THREADS 64

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

typedef struct {
  const float *edges;
  int64_t count;       /* of edges */
  float radius;        /* inside, the sign alone decides the bin */
  int64_t below, zero; /* bins of negative numbers and of the others there */
} bins;

static inline floats load(const float *x) { return (floats) * (const loose *)x; }

static inline floats choose(ints which, floats one, floats other) {
  return (floats)((which & (ints)one) | (~which & (ints)other));
}

static inline double sum(floats x) {
  double found = 0;
  for (int j = 0; j < LANES; j += 4) found += (double)x[j] + x[j + 1] + ((double)x[j + 2] + x[j + 3]);
  return found;
}

static inline int64_t total(ints x) {
  int64_t found = 0;
  for (int j = 0; j < LANES; j++) found += x[j];
  return found;
}

/* ---- threads: made for one call, because a pool of our own would fight with torch's */

typedef void (*part)(void *task, int64_t begin, int64_t end, int which);
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

static void spread(part run, void *task, int64_t count, int threads) {
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

/* ---- ranges and counts of scaled numbers: x = r * c[i] */

typedef struct {
  float low, high, least; /* least: smallest size that is not zero */
  int64_t negative, positive;
  int finite;
} range;

static range range_of(const float *c, int64_t n) {
  floats low = {0}, high = {0}, least = {0};
  ints negative = {0}, positive = {0}, odd = {0};
  low += INFINITY, high -= INFINITY, least += INFINITY;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    floats x = load(c + i), size = (floats)((ints)x & 0x7fffffff);
    low = choose(x < low, x, low);
    high = choose(x > high, x, high);
    least = choose((size < least) & (size > 0), size, least);
    negative -= x < 0;
    positive -= x > 0;
    odd |= ~(size <= FLT_MAX);
  }
  range found = {INFINITY, -INFINITY, INFINITY, total(negative), total(positive), 1};
  for (int j = 0; j < LANES; j++) {
    if (low[j] < found.low) found.low = low[j];
    if (high[j] > found.high) found.high = high[j];
    if (least[j] < found.least) found.least = least[j];
    if (odd[j]) found.finite = 0;
  }
  for (; i < n; i++) {
    float x = c[i], size = fabsf(x);
    if (x < found.low) found.low = x;
    if (x > found.high) found.high = x;
    if (size < found.least && size > 0) found.least = size;
    found.negative += x < 0;
    found.positive += x > 0;
    if (!(size <= FLT_MAX)) found.finite = 0;
  }
  return found;
}

/* Largest size, as its bits, which order as sizes do and put NaN last; and how many numbers are negative. */
static int32_t top_of(const float *x, int64_t n, int64_t *negative) {
  ints top = {0}, found = {0};
  int64_t i = 0, rest = 0;
  int32_t highest = 0;
  for (; i + LANES <= n; i += LANES) {
    floats a = load(x + i);
    ints bits = (ints)a & 0x7fffffff, more = bits > top;
    top = (more & bits) | (~more & top);
    found -= a < 0;
  }
  for (; i < n; i++) {
    floats a = {x[i]};
    int32_t bits = ((ints)a)[0] & 0x7fffffff;
    if (bits > highest) highest = bits;
    rest += x[i] < 0;
  }
  for (int j = 0; j < LANES; j++)
    if (top[j] > highest) highest = top[j];
  *negative = total(found) + rest;
  return highest;
}

static inline float from_bits(int32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static int64_t below(const float *c, int64_t n, float r, float edge) {
  ints found = {0};
  int64_t i = 0, rest = 0;
  for (; i + LANES <= n; i += LANES) found -= r * load(c + i) < edge;
  for (; i < n; i++) rest += r * c[i] < edge;
  return total(found) + rest;
}

static void below_two(const float *c, int64_t n, float r, const float *one, const float *other, int64_t *found) {
  ints f0 = {0}, f1 = {0};
  float e0 = *one, e1 = *other;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    floats x = r * load(c + i);
    f0 -= x < e0;
    f1 -= x < e1;
  }
  found[0] = total(f0), found[1] = total(f1);
  for (; i < n; i++) found[0] += r * c[i] < e0, found[1] += r * c[i] < e1;
}

/* The same for several edges at once, of which ``number`` are there. */
static void below_each(const float *c, int64_t n, float r, const float *edges, int64_t number, int64_t *found) {
  if (number <= 2) {
    below_two(c, n, r, edges, edges + number - 1, found);
    return;
  }
  float e0 = edges[0], e1 = edges[1], e2 = edges[2], e3 = edges[number > 3 ? 3 : 2];
  ints f0 = {0}, f1 = {0}, f2 = {0}, f3 = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    floats x = r * load(c + i);
    f0 -= x < e0;
    f1 -= x < e1;
    f2 -= x < e2;
    f3 -= x < e3;
  }
  found[0] = total(f0), found[1] = total(f1), found[2] = total(f2), found[3] = total(f3);
  for (; i < n; i++) {
    float x = r * c[i];
    found[0] += x < e0;
    found[1] += x < e1;
    found[2] += x < e2;
    found[3] += x < e3;
  }
}

static int64_t not_above(const bins *b, float x) { /* number of edges that are not above x: its bin */
  int64_t first = 0, last = b->count;
  while (first < last) {
    int64_t middle = (first + last) / 2;
    if (x < b->edges[middle])
      last = middle;
    else
      first = middle + 1;
  }
  return first;
}

static void look_up(const float *c, int64_t n, float r, const bins *b, int64_t *counts) {
  float first = b->edges[0], width = b->edges[b->count - 1] - first;
  float each = width > 0 ? (float)(b->count - 1) / width : 0;
  for (int64_t i = 0; i < n; i++) {
    float x = r * c[i], place = (x - first) * each + 1;
    int64_t k = place > 0 ? (place < (float)b->count ? (int64_t)place : b->count) : 0;
    if (x != x) k = b->count;
    while (k < b->count && !(x < b->edges[k])) k++;
    while (k > 0 && x < b->edges[k - 1]) k--;
    counts[k]++;
  }
}

static void count_scaled(const float *c, int64_t n, float r, const range *of, const bins *b, int64_t *counts) {
  float size = fabsf(r), top = -of->low > of->high ? -of->low : of->high;
  if (of->finite && size * top < b->radius) {
    int64_t negative = 0;
    if (b->below != b->zero && r != 0) {
      if (size * of->least >= FLT_MIN)
        negative = r > 0 ? of->negative : of->positive;
      else /* a product may round to zero, which has no sign */
        negative = below(c, n, r, 0);
    }
    counts[b->below] += negative;
    counts[b->zero] += n - negative;
    return;
  }
  int64_t first = 0, last = b->count;
  if (of->finite && size <= FLT_MAX) {
    float one = r * of->low, two = r * of->high;
    first = not_above(b, one < two ? one : two);
    last = not_above(b, one < two ? two : one);
  }
  if (last - first > MANY) {
    look_up(c, n, r, b, counts);
    return;
  }
  int64_t before = 0;
  for (int64_t k = first; k < last; k += TOGETHER) {
    int64_t found[TOGETHER] = {0};
    below_each(c, n, r, b->edges + k, last - k, found);
    for (int64_t j = 0; j < TOGETHER && k + j < last; j++) {
      counts[k + j] += found[j] - before;
      before = found[j];
    }
  }
  counts[last] += n - before;
}

static void count_numbers(const float *x, int64_t n, float top, int64_t negative, const bins *b, int64_t *counts) {
  if (top < b->radius) {
    if (b->below == b->zero) negative = 0;
    counts[b->below] += negative;
    counts[b->zero] += n - negative;
    return;
  }
  range of = range_of(x, n);
  count_scaled(x, n, 1, &of, b, counts);
}

/* ---- histogram of row[n, o] * col[n, i] */

typedef struct {
  const float *row, *col;
  int64_t row_step, col_step, rows, columns;
  const bins *b;
  int64_t *counts; /* of each thread */
} outer_task;

/* The signs of the factors decide all bins: nothing is done for single rows. */
static int all_small(const float *r, int64_t rows, int64_t columns, const range *of, const bins *b, int64_t *counts) {
  range beside = range_of(r, rows);
  float top = -of->low > of->high ? -of->low : of->high;
  float most = -beside.low > beside.high ? -beside.low : beside.high;
  if (!of->finite || !beside.finite || !(most * top < b->radius)) return 0;
  if (!(beside.least * of->least >= FLT_MIN)) return 0; /* a product may round to zero, which has no sign */
  int64_t negative = beside.positive * of->negative + beside.negative * of->positive;
  if (b->below == b->zero) negative = 0;
  counts[b->below] += negative;
  counts[b->zero] += rows * columns - negative;
  return 1;
}

static void outer_samples(void *given, int64_t begin, int64_t end, int which) {
  outer_task *t = given;
  int64_t *counts = t->counts + which * (t->b->count + 1);
  for (int64_t n = begin; n < end; n++) {
    const float *c = t->col + n * t->col_step, *r = t->row + n * t->row_step;
    range of = range_of(c, t->columns);
    if (all_small(r, t->rows, t->columns, &of, t->b, counts)) continue;
    for (int64_t o = 0; o < t->rows; o++) count_scaled(c, t->columns, r[o], &of, t->b, counts);
  }
}

int outer_counts(const float *row, int64_t row_step, const float *col, int64_t col_step, int64_t samples, int64_t rows,
                 int64_t columns, const float *edges, int64_t count, float radius, int64_t under,
                 int64_t zero, int64_t *counts, int threads) {
  bins b = {edges, count, radius, under, zero};
  if (threads > THREADS) threads = THREADS;
  if (threads < 1) threads = 1;
  int64_t *each = calloc((size_t)threads * (count + 1), sizeof *each);
  if (!each) return 1;
  outer_task task = {row, col, row_step, col_step, rows, columns, &b, each};
  if (columns > 0) spread(outer_samples, &task, samples, threads);
  for (int64_t k = 0; k <= count; k++) counts[k] = 0;
  for (int64_t k = 0; k < threads * (count + 1); k++) counts[k % (count + 1)] += each[k];
  free(each);
  return 0;
}

/* ---- everything from g[n, d] in one pass: lengths, inner products, sums of squares, largest size, histogram */

/* Sum over i of TERM, a product of ``a``, which is VECTOR for several numbers and SINGLE for one. */
#define SUMMED(VECTOR, SINGLE, TERM)                          \
  double found = 0;                                           \
  int64_t i = 0;                                              \
  while (i + LANES <= n) {                                    \
    floats s = {0};                                           \
    int64_t end = i + SUM < n ? i + SUM : n;                  \
    for (; i + LANES <= end; i += LANES) {                    \
      floats a = VECTOR;                                      \
      s += TERM;                                              \
    }                                                         \
    found += sum(s);                                          \
  }                                                           \
  for (; i < n; i++) {                                        \
    double a = SINGLE;                                        \
    found += TERM;                                            \
  }                                                           \
  return found;

static double square_sum(const float *x, int64_t n) { SUMMED(load(x + i), x[i], a * a) }

static double distance_sum(const float *x, const float *y, int64_t n) {
  SUMMED(load(x + i) - load(y + i), (float)(x[i] - y[i]), a * a)
}

static double product_sum(const float *x, const float *y, int64_t n) {
  SUMMED(load(x + i) * load(y + i), (double)x[i] * y[i], a)
}

typedef struct {
  const float *g;
  int64_t step, samples, size, vectors;
  const float *const *v;
  int lengths;
  int whole;     /* rows are short and lie side by side: their elements are counted together */
  const bins *b; /* or NULL */
  float *squares;
  double *sums; /* of each thread: [1 + vectors, samples] */
  int64_t *counts;
  int32_t *tops; /* of each thread, as bits */
} scan_task;

static void look_at(scan_task *t, const float *x, int64_t n, int64_t *counts, int which) {
  if (!t->b && !t->tops) return;
  int64_t negative;
  int32_t top = top_of(x, n, &negative);
  if (t->tops && top > t->tops[which]) t->tops[which] = top;
  if (t->b) count_numbers(x, n, from_bits(top), negative, t->b, counts);
}

static void scan_blocks(void *given, int64_t begin, int64_t end, int which) {
  scan_task *t = given;
  double *sums = t->sums + which * (1 + t->vectors) * t->samples;
  int64_t *counts = t->b ? t->counts + which * (t->b->count + 1) : NULL;
  for (int64_t block = begin; block < end; block++) {
    int64_t from = block * BLOCK, n = t->size - from < BLOCK ? t->size - from : BLOCK;
    for (int64_t k = 0; k < t->samples; k++) {
      const float *x = t->g + k * t->step + from;
      if (t->lengths) sums[k] += square_sum(x, n);
      for (int64_t j = 0; j < t->vectors; j++) sums[(1 + j) * t->samples + k] += product_sum(x, t->v[j] + from, n);
      if (t->squares)
        for (int64_t i = 0; i < n; i++) t->squares[from + i] += x[i] * x[i];
      if (!t->whole) look_at(t, x, n, counts, which);
    }
  }
}

int scan(const float *g, int64_t step, int64_t samples, int64_t size, const float *const *vectors, int64_t number,
         const float *edges, int64_t count, float radius, int64_t under, int64_t zero, int64_t *counts, float *rows,
         int64_t row_step, float *squares, float *top, int threads) {
  bins b = {edges, count, radius, under, zero};
  int64_t blocks = (size + BLOCK - 1) / BLOCK, wide = (1 + number) * samples;
  if (threads > THREADS) threads = THREADS;
  if (threads > blocks) threads = (int)blocks;
  if (threads < 1) threads = 1;
  double *sums = calloc((size_t)threads * wide + 1, sizeof *sums);
  int64_t *each = calloc((size_t)threads * (count + 1), sizeof *each);
  int32_t tops[THREADS] = {0};
  if (!sums || !each) {
    free(sums), free(each);
    return 1;
  }
  int whole = step == size && size < BLOCK;
  scan_task task = {g,     step,               samples, size, number, vectors,          rows != NULL,
                    whole, counts ? &b : NULL, squares, sums, each,   top ? tops : NULL};
  spread(scan_blocks, &task, blocks, threads);
  for (int64_t at = 0; whole && at < samples * size; at += BLOCK)
    look_at(&task, g + at, samples * size - at < BLOCK ? samples * size - at : BLOCK, each, 0);
  for (int t = 1; t < threads; t++) {
    for (int64_t k = 0; k < wide; k++) sums[k] += sums[t * wide + k];
    if (tops[t] > tops[0]) tops[0] = tops[t];
  }
  if (rows)
    for (int64_t k = 0; k < wide; k++) rows[k / samples * row_step + k % samples] = (float)sums[k];
  if (counts)
    for (int64_t k = 0; k < threads * (count + 1); k++) counts[k % (count + 1)] += each[k];
  if (top && !(from_bits(tops[0]) <= *top)) *top = *top != *top ? *top : from_bits(tops[0]);
  free(sums), free(each);
  return 0;
}

/* ---- inner products of the rows of two matrices */

int row_products(const float *one, int64_t one_step, const float *other, int64_t other_step, int64_t rows,
                  int64_t columns, float *found) {
  for (int64_t n = 0; n < rows; n++)
    found[n] = (float)product_sum(one + n * one_step, other + n * other_step, columns);
  return 0;
}

/* ---- numbers of each sample, [parameters, samples], summed: see ``derived`` */

/* Mean, sample variance and mean size. */
static void moments_of(const double *totals, int64_t samples, double *found) {
  double mean = 0, sizes = 0, apart = 0;
  for (int64_t n = 0; n < samples; n++) mean += totals[n], sizes += fabs(totals[n]);
  mean /= samples;
  for (int64_t n = 0; n < samples; n++) apart += (totals[n] - mean) * (totals[n] - mean);
  found[0] = mean;
  found[1] = samples > 1 ? apart / (samples - 1) : mean * 0;
  found[2] = sizes / samples;
}

int moments(const void *rows, int wide, const double *weights, int64_t parameters, int64_t samples, double *found) {
  double *totals = calloc(samples + 1, sizeof *totals);
  if (!totals) return 1;
  for (int64_t p = 0; p < parameters; p++)
    for (int64_t n = 0; n < samples; n++) {
      int64_t at = p * samples + n;
      totals[n] += (weights ? weights[p] : 1) * (wide ? ((const double *)rows)[at] : ((const float *)rows)[at]);
    }
  moments_of(totals, samples, found);
  free(totals);
  return 0;
}

int row_sums(const float *rows, int64_t parameters, int64_t samples, double *found) {
  for (int64_t p = 0; p < parameters; p++) {
    found[p] = 0;
    for (int64_t n = 0; n < samples; n++) found[p] += rows[p * samples + n];
  }
  return 0;
}

/* Each sample's share of the loss: ``total`` is distributed as the losses are. */
int shares(const float *losses, int64_t samples, const float *total, double known, const float *arrived,
           double *found) {
  double summed = 0;
  for (int64_t n = 0; n < samples; n++) summed += losses[n];
  double factor = (summed != 0 ? *total / summed : known) * *arrived;
  for (int64_t n = 0; n < samples; n++) found[n] = factor * losses[n];
  return 0;
}

int centres(const float *dots, int64_t parameters, int64_t samples, double *found) {
  for (int64_t p = 0; p < parameters; p++) {
    double mean = 0, size = 0;
    for (int64_t n = 0; n < samples; n++) mean += dots[p * samples + n], size += fabs((double)dots[p * samples + n]);
    found[p] = mean / samples;
    found[parameters + p] = size / samples;
  }
  return 0;
}

/* Sum of all squared lengths, and of the squares of all inner products. */
int scatter(const float *squares, const float *dots, int64_t parameters, int64_t samples, double *found) {
  found[0] = found[1] = 0;
  for (int64_t n = 0; n < samples; n++) {
    double along = 0;
    for (int64_t p = 0; p < parameters; p++) {
      found[0] += squares[p * samples + n];
      along += dots[p * samples + n];
    }
    found[1] += along * along;
  }
  return 0;
}

/* ---- parameter-sized vectors, several at once */

typedef struct {
  const float *const *one, *const *other; /* other: NULL for lengths */
  const int64_t *sizes;
  int64_t vectors;
  int apart;
  double *found; /* of each thread */
} vector_task;

static void vector_blocks(void *given, int64_t begin, int64_t end, int which) {
  vector_task *t = given;
  int64_t first = 0;
  for (int64_t p = 0; p < t->vectors && first < end; p++) {
    int64_t blocks = (t->sizes[p] + BLOCK - 1) / BLOCK;
    int64_t from = begin > first ? begin - first : 0, to = end - first < blocks ? end - first : blocks;
    for (int64_t k = from; k < to; k++) {
      int64_t at = k * BLOCK, n = t->sizes[p] - at < BLOCK ? t->sizes[p] - at : BLOCK;
      double *found = t->found + which * t->vectors + p;
      if (!t->other)
        *found += square_sum(t->one[p] + at, n);
      else if (t->apart)
        *found += distance_sum(t->one[p] + at, t->other[p] + at, n);
      else
        *found += product_sum(t->one[p] + at, t->other[p] + at, n);
    }
    first += blocks;
  }
}

int vector_sums(const float *const *one, const float *const *other, const int64_t *sizes, int64_t vectors, int apart,
                double *found, int threads) {
  int64_t blocks = 0;
  for (int64_t p = 0; p < vectors; p++) blocks += (sizes[p] + BLOCK - 1) / BLOCK;
  if (threads > THREADS) threads = THREADS;
  if (threads < 1) threads = 1;
  double *each = calloc((size_t)threads * vectors + 1, sizeof *each);
  if (!each) return 1;
  vector_task task = {one, other, sizes, vectors, apart, each};
  spread(vector_blocks, &task, blocks, threads);
  for (int64_t p = 0; p < vectors; p++) found[p] = 0;
  for (int64_t k = 0; k < threads * vectors; k++) found[k % vectors] += each[k];
  free(each);
  return 0;
}

/* ---- a step of the optimizer: update = now - before, where wanted, and sums of update^2, update * gradient, before^2 */

typedef struct {
  const float *const *now, *const *before, *const *gradient;
  float *const *update;
  const int64_t *sizes;
  int64_t vectors;
  double *found; /* of each thread: [vectors, 3] */
} motion_task;

static void motion_block(const motion_task *t, int64_t p, int64_t at, int64_t n, double *found) {
  const float *now = t->now[p] + at, *before = t->before[p] + at;
  float room[BLOCK], *update = t->update[p] ? t->update[p] + at : room;
  for (int64_t i = 0; i < n; i++) update[i] = now[i] - before[i];
  found[0] += square_sum(update, n);
  if (t->gradient) found[1] += product_sum(update, t->gradient[p] + at, n);
  found[2] += square_sum(before, n);
}

static void motion_blocks(void *given, int64_t begin, int64_t end, int which) {
  motion_task *t = given;
  int64_t first = 0;
  for (int64_t p = 0; p < t->vectors && first < end; p++) {
    int64_t blocks = (t->sizes[p] + BLOCK - 1) / BLOCK;
    int64_t from = begin > first ? begin - first : 0, to = end - first < blocks ? end - first : blocks;
    for (int64_t k = from; k < to; k++) {
      int64_t at = k * BLOCK, n = t->sizes[p] - at < BLOCK ? t->sizes[p] - at : BLOCK;
      motion_block(t, p, at, n, t->found + 3 * (which * t->vectors + p));
    }
    first += blocks;
  }
}

int motion(const float *const *now, const float *const *before, float *const *update, const float *const *gradient,
           const int64_t *sizes, int64_t vectors, double *found, int threads) {
  int64_t blocks = 0;
  for (int64_t p = 0; p < vectors; p++) blocks += (sizes[p] + BLOCK - 1) / BLOCK;
  if (threads > THREADS) threads = THREADS;
  if (threads < 1) threads = 1;
  double *each = calloc((size_t)threads * vectors * 3 + 1, sizeof *each);
  if (!each) return 1;
  motion_task task = {now, before, gradient, update, sizes, vectors, each};
  spread(motion_blocks, &task, blocks, threads);
  for (int64_t k = 0; k < 3 * vectors; k++) found[k] = 0;
  for (int64_t k = 0; k < threads * vectors * 3; k++) found[k % (3 * vectors)] += each[k];
  free(each);
  return 0;
}

/* Of the first ``most`` elements: sums of (now - before - coefficient * gradient)^2 and of before^2. */
int residuals(const float *const *now, const float *const *before, const float *const *gradient, const int64_t *sizes,
              int64_t vectors, int64_t most, const double *coefficients, double *found) {
  for (int64_t p = 0; p < vectors; p++) {
    int64_t size = sizes[p] < most ? sizes[p] : most;
    float room[BLOCK], c = (float)coefficients[p];
    found[2 * p] = 0;
    for (int64_t at = 0; at < size; at += BLOCK) {
      int64_t n = size - at < BLOCK ? size - at : BLOCK;
      const float *x = now[p] + at, *y = before[p] + at, *g = gradient[p] + at;
      for (int64_t i = 0; i < n; i++) room[i] = (x[i] - y[i]) - c * g[i];
      found[2 * p] += square_sum(room, n);
    }
    found[2 * p + 1] = square_sum(before[p], size);
  }
  return 0;
}

/* ---- everything of a step in one vector of double precision; kinds: 0 float, 1 double, 2 whole numbers */

int pack(const void *const *tensors, const int64_t *kinds, const int64_t *sizes, int64_t number, double *found) {
  for (int64_t k = 0; k < number; k++) {
    int64_t n = sizes[k];
    const float *f = tensors[k];
    const int64_t *w = tensors[k];
    if (kinds[k] == 0)
      for (int64_t i = 0; i < n; i++) found[i] = f[i];
    else if (kinds[k] == 1)
      memcpy(found, tensors[k], n * sizeof *found);
    else
      for (int64_t i = 0; i < n; i++) found[i] = (double)w[i];
    found += n;
  }
  return 0;
}
