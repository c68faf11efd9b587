/* Joint histograms of row[n, o] * col[n, i] with the parameters theta[o, i] beside them.
 *
 * Where the sign of a product decides its bin, negative ones are only counted: the bits that are set in the signs of a
 * sample and among the parameters of a bin.
 */

#include <stdlib.h>

#include "counting.h"

#define BESIDE 8 /* bins of the parameters up to which each is counted for itself */
#define WORDS(n) (((n) + 63) / 64)

typedef struct {
  const float *products; /* one factor of them: x = r * products[i] */
  const int32_t *places; /* bin of the parameter beside each */
  int64_t n, first, last; /* how many, and which bins of parameters there are */
  int64_t all[BESIDE];    /* parameters in each of these bins, if they are few */
} row_of;

/* How many numbers beside parameters of one bin are below several edges, of which ``number`` are there. */
static void below_beside(const row_of *row, float r, const float *edges, int64_t number, int64_t bin, int64_t *found) {
  float e0 = edges[0], e1 = edges[number > 1 ? 1 : 0], e2 = edges[number > 2 ? 2 : 0], e3 = edges[number > 3 ? 3 : 0];
  ints f0 = {0}, f1 = {0}, f2 = {0}, f3 = {0};
  int64_t i = 0;
  for (; i + LANES <= row->n; i += LANES) {
    floats x = r * load(row->products + i);
    ints at;
    memcpy(&at, row->places + i, sizeof at);
    at = at == (int32_t)bin;
    f0 -= at & (x < e0);
    f1 -= at & (x < e1);
    f2 -= at & (x < e2);
    f3 -= at & (x < e3);
  }
  found[0] = total(f0), found[1] = total(f1), found[2] = total(f2), found[3] = total(f3);
  for (; i < row->n; i++) {
    float x = r * row->products[i];
    int here = row->places[i] == bin;
    found[0] += here && x < e0;
    found[1] += here && x < e1;
    found[2] += here && x < e2;
    found[3] += here && x < e3;
  }
}

static void look_up_pairs(const float *c, int64_t n, float r, const bins *b, const int32_t *beside, int64_t width,
                          int64_t *counts) {
  int32_t places[GUESSES];
  for (int64_t i = 0; i < n; i += GUESSES) {
    int64_t some = n - i < GUESSES ? n - i : GUESSES;
    guess(c + i, some, r, b, places);
    for (int64_t j = 0; j < some; j++) counts[put_right(b, r * c[i + j], places[j]) * width + beside[i + j]]++;
  }
}

/* Looked up one by one; where only one edge is reached, it decides. */
static void look_up_beside(const row_of *row, float r, const bins *b, int64_t first, int64_t last, int64_t width,
                           int64_t *counts) {
  if (last - first <= 1) {
    float edge = last > first ? b->edges[first] : INFINITY;
    int64_t *below = counts + first * width, more = last > first ? width : 0;
    for (int64_t i = 0; i < row->n; i++) below[(r * row->products[i] < edge ? 0 : more) + row->places[i]]++;
    return;
  }
  look_up_pairs(row->products, row->n, r, b, row->places, width, counts);
}

static void count_row(const row_of *row, float r, const range *of, const bins *b, int64_t width, int64_t *counts) {
  int64_t first = 0, last = b->count;
  if (of->finite && fabsf(r) <= FLT_MAX) {
    float one = r * of->low, two = r * of->high;
    first = not_above(b, one < two ? one : two);
    last = not_above(b, one < two ? two : one);
  }
  if ((last - first) * (row->last - row->first + 1) > MANY || row->last - row->first >= BESIDE) {
    look_up_beside(row, r, b, first, last, width, counts);
    return;
  }
  int64_t before[BESIDE] = {0}, bins = row->last - row->first + 1;
  for (int64_t k = first; k < last; k += TOGETHER) {
    int64_t there = last - k < TOGETHER ? last - k : TOGETHER, found[BESIDE][TOGETHER] = {{0}};
    below_each(row->products, row->n, r, b->edges + k, there, found[bins - 1]);
    for (int64_t bin = 0; bin < bins - 1; bin++) { /* those of the last bin are what remains */
      below_beside(row, r, b->edges + k, there, row->first + bin, found[bin]);
      for (int64_t j = 0; j < there; j++) found[bins - 1][j] -= found[bin][j];
    }
    for (int64_t bin = 0; bin < bins; bin++)
      for (int64_t j = 0; j < there; j++) {
        counts[(k + j) * width + row->first + bin] += found[bin][j] - before[bin];
        before[bin] = found[bin][j];
      }
  }
  for (int64_t bin = 0; bin < bins; bin++) counts[last * width + row->first + bin] += row->all[bin] - before[bin];
}

/* The bin of each of a few numbers. */
static void places_of(const float *x, int64_t n, const bins *b, int32_t *places) {
  range of = range_of(x, n);
  int64_t first = of.finite ? not_above(b, of.low) : 0, last = of.finite ? not_above(b, of.high) : b->count;
  if (last - first > MANY) {
    guess(x, n, 1, b, places);
    for (int64_t i = 0; i < n; i++) places[i] = (int32_t)put_right(b, x[i], places[i]);
    return;
  }
  for (int64_t i = 0; i < n; i++) places[i] = (int32_t)first;
  for (int64_t k = first; k < last; k++)
    for (int64_t i = 0; i < n; i++) places[i] += !(x[i] < b->edges[k]);
}

/* Bits of the numbers below zero, or above. */
static void signs_of(const float *x, int64_t n, int above, uint64_t *words) {
  memset(words, 0, (size_t)WORDS(n) * sizeof *words);
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    floats a = load(x + i);
    words[i / 64] |= bits(above ? a > 0 : a < 0) << i % 64;
  }
  for (; i < n; i++) words[i / 64] |= (uint64_t)(above ? x[i] > 0 : x[i] < 0) << i % 64;
}

static void members_of(const int32_t *places, int64_t n, int64_t bin, uint64_t *words) {
  memset(words, 0, (size_t)WORDS(n) * sizeof *words);
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    ints at;
    memcpy(&at, places + i, sizeof at);
    words[i / 64] |= bits(at == (int32_t)bin) << i % 64;
  }
  for (; i < n; i++) words[i / 64] |= (uint64_t)(places[i] == bin) << i % 64;
}

static int64_t in_both(const uint64_t *one, const uint64_t *other, int64_t words) {
  int64_t found = 0;
  for (int64_t k = 0; k < words; k++) found += __builtin_popcountll(one[k] & other[k]);
  return found;
}

typedef struct {
  const float *row, *col, *theta;
  int64_t row_step, col_step, samples, rows, columns, width;
  const range *of;       /* col, of each sample */
  const uint64_t *signs; /* of each sample: where col is negative, where it is positive */
  const bins *b, *beside;
  int64_t *counts;   /* of each thread */
  int32_t *places;   /* of each thread: bins of the parameters */
  uint64_t *members; /* of each thread: parameters in each of the first bins that there are */
} joint_task;

static int sign_decides(const joint_task *t, const range *of, float r) {
  float size = fabsf(r), top = -of->low > of->high ? -of->low : of->high;
  if (!of->finite || !(size * top < t->b->radius)) return 0;
  return t->b->below == t->b->zero || r == 0 || size * of->least >= FLT_MIN; /* a product that rounds to zero has none */
}

/* The parameters of one output: which bins there are, and where. */
static row_of parameters_of(const joint_task *t, int64_t o, int32_t *places, uint64_t *members) {
  places_of(t->theta + o * t->columns, t->columns, t->beside, places);
  row_of found = {NULL, places, t->columns, 0, 0, {0}};
  int32_t low = INT32_MAX, high = 0;
  for (int64_t i = 0; i < found.n; i++) low = places[i] < low ? places[i] : low, high = places[i] > high ? places[i] : high;
  found.first = low, found.last = high;
  if (found.last - found.first >= BESIDE) return found;
  int64_t last = found.last - found.first, words = WORDS(found.n);
  found.all[last] = found.n;
  for (int64_t bin = 0; bin < last; bin++, members += words) {
    members_of(places, found.n, found.first + bin, members);
    found.all[bin] = in_both(members, members, words);
    found.all[last] -= found.all[bin];
  }
  return found;
}

/* Count the negative products of a sample whose signs decide, beside parameters of few bins. */
static void add_negative(const joint_task *t, const row_of *row, int64_t n, float r, const uint64_t *members,
                         int64_t *negative) {
  int64_t rest = r > 0 ? t->of[n].negative : t->of[n].positive, words = WORDS(row->n), last = row->last - row->first;
  if (!rest) return;
  const uint64_t *signs = t->signs + (2 * n + (r < 0)) * words;
  for (int64_t bin = 0; bin < last; bin++) {
    int64_t found = in_both(signs, members + bin * words, words);
    negative[bin] += found;
    rest -= found;
  }
  negative[last] += rest;
}

static void joint_outputs(void *given, int64_t begin, int64_t end, int which) {
  joint_task *t = given;
  int64_t *counts = t->counts + which * (t->b->count + 1) * t->width;
  int32_t *places = t->places + which * t->columns;
  uint64_t *members = t->members + which * BESIDE * WORDS(t->columns);
  for (int64_t o = begin; o < end; o++) {
    row_of row = parameters_of(t, o, places, members);
    int few = row.last - row.first < BESIDE;
    int64_t small = 0, negative[BESIDE] = {0};
    for (int64_t n = 0; n < t->samples; n++) {
      float r = t->row[n * t->row_step + o];
      if (few && sign_decides(t, t->of + n, r)) {
        small++;
        if (t->b->below != t->b->zero && r != 0) add_negative(t, &row, n, r, members, negative);
        continue;
      }
      row.products = t->col + n * t->col_step;
      count_row(&row, r, t->of + n, t->b, t->width, counts);
    }
    for (int64_t bin = 0; small && bin <= row.last - row.first; bin++) {
      counts[t->b->below * t->width + row.first + bin] += negative[bin];
      counts[t->b->zero * t->width + row.first + bin] += small * row.all[bin] - negative[bin];
    }
  }
}

int joint_counts(const float *row, int64_t row_step, const float *col, int64_t col_step, const float *theta,
                 int64_t samples, int64_t rows, int64_t columns, const float *edges, int64_t count, float radius,
                 int64_t under, int64_t zero, const float *other_edges, int64_t other_count, float other_radius,
                 int64_t other_under, int64_t other_zero, int64_t *counts, int threads) {
  bins b = {edges, count, radius, under, zero}, beside = {other_edges, other_count, other_radius, other_under, other_zero};
  if (threads > THREADS) threads = THREADS;
  if (threads < 1) threads = 1;
  int64_t width = other_count + 1, cells = (count + 1) * width, words = WORDS(columns);
  int64_t *each = calloc((size_t)(threads * cells), sizeof *each);
  range *of = malloc((size_t)(samples + 1) * sizeof *of);
  int32_t *places = malloc((size_t)(threads * columns + 1) * sizeof *places);
  uint64_t *signs = malloc((size_t)(2 * samples * words + 1) * sizeof *signs);
  uint64_t *members = malloc((size_t)(threads * BESIDE * words + 1) * sizeof *members);
  int lacking = !each || !of || !places || !signs || !members;
  for (int64_t n = 0; n < samples && !lacking; n++) {
    const float *c = col + n * col_step;
    of[n] = range_of(c, columns);
    signs_of(c, columns, 0, signs + 2 * n * words);
    signs_of(c, columns, 1, signs + (2 * n + 1) * words);
  }
  if (!lacking) {
    joint_task task = {row, col,   theta, row_step, col_step, samples, rows,   columns, width,
                       of,  signs, &b,    &beside,  each,     places,  members};
    if (columns > 0) spread(joint_outputs, &task, rows, threads);
    for (int64_t k = 0; k < cells; k++) counts[k] = 0;
    for (int64_t k = 0; k < threads * cells; k++) counts[k % cells] += each[k];
  }
  free(each), free(of), free(places), free(signs), free(members);
  return lacking;
}

typedef struct {
  const float *g;
  int64_t step, columns, width;
  const int32_t *places;
  const bins *b;
  int64_t *counts; /* of each thread */
} pairs_task;

static void pairs_of(void *given, int64_t begin, int64_t end, int which) {
  pairs_task *t = given;
  int64_t *counts = t->counts + which * (t->b->count + 1) * t->width;
  for (int64_t n = begin; n < end; n++)
    look_up_pairs(t->g + n * t->step, t->columns, 1, t->b, t->places, t->width, counts);
}

/* Add the numbers g[n, d] of each bin beside a parameter in the bin places[d] to ``counts``, [count + 1, width]. */
int pair_counts(const float *g, int64_t step, int64_t samples, int64_t columns, const int32_t *places, int64_t width,
                const float *edges, int64_t count, float radius, int64_t under, int64_t zero, int64_t *counts,
                int threads) {
  bins b = {edges, count, radius, under, zero};
  if (threads > THREADS) threads = THREADS;
  if (threads < 1) threads = 1;
  int64_t cells = (count + 1) * width;
  int64_t *each = calloc((size_t)(threads * cells), sizeof *each);
  if (!each) return 1;
  pairs_task task = {g, step, columns, width, places, &b, each};
  spread(pairs_of, &task, samples, threads);
  for (int64_t k = 0; k < threads * cells; k++) counts[k % cells] += each[k];
  free(each);
  return 0;
}
