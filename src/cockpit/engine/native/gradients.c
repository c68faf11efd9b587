/* Histograms and one-pass statistics of per-sample gradients. */

#include <stdlib.h>

#include "counting.h"

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
                 int64_t columns, double factor, float *found) {
  for (int64_t n = 0; n < rows; n++)
    found[n] = (float)(product_sum(one + n * one_step, other + n * other_step, columns) * factor);
  return 0;
}
