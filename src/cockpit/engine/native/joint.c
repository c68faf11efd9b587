/* Joint histograms of some rows of products with the parameters beside them. */

#include <stdlib.h>

#include "counting.h"

#define BESIDE 8 /* bins of the parameters up to which each is counted for itself */

typedef struct {
  const float *products; /* one factor of them: x = r * products[i] */
  const int32_t *places; /* bin of the parameter beside each */
  int64_t n, first, last; /* how many, and which bins of parameters there are */
} row_of;

/* Of the numbers beside parameters of one bin: how many there are, and how many are below an edge. */
static int64_t beside(const row_of *row, float r, float edge, int64_t bin, int64_t *all) {
  ints found = {0}, there = {0};
  int64_t i = 0, rest = 0, more = 0;
  for (; i + LANES <= row->n; i += LANES) {
    ints at;
    memcpy(&at, row->places + i, sizeof at);
    at = at == (int32_t)bin;
    there -= at;
    found -= at & (r * load(row->products + i) < edge);
  }
  for (; i < row->n; i++) {
    int here = row->places[i] == bin;
    more += here;
    rest += here && r * row->products[i] < edge;
  }
  *all = total(there) + more;
  return total(found) + rest;
}

static int64_t place_of(const bins *b, float x, int64_t guess) {
  if (x != x) return b->count;
  while (guess < b->count && !(x < b->edges[guess])) guess++;
  while (guess > 0 && x < b->edges[guess - 1]) guess--;
  return guess;
}

static void count_row(const row_of *row, float r, const range *of, const bins *b, int64_t width, int64_t *counts) {
  int64_t first = 0, last = b->count;
  if (of->finite && fabsf(r) <= FLT_MAX) {
    float one = r * of->low, two = r * of->high;
    first = not_above(b, one < two ? one : two);
    last = not_above(b, one < two ? two : one);
  }
  if ((last - first) * (row->last - row->first + 1) > MANY || row->last - row->first >= BESIDE) {
    int64_t guess = first;
    for (int64_t i = 0; i < row->n; i++) {
      guess = place_of(b, r * row->products[i], guess);
      counts[guess * width + row->places[i]]++;
    }
    return;
  }
  for (int64_t bin = row->first; bin <= row->last; bin++) {
    int64_t before = 0, all = 0;
    beside(row, r, 0, bin, &all);
    for (int64_t k = first; k < last; k++) {
      int64_t found = beside(row, r, b->edges[k], bin, &all);
      counts[k * width + bin] += found - before;
      before = found;
    }
    counts[last * width + bin] += all - before;
  }
}

/* ``chosen``: which rows, as n * rows + o, ascending; ``places``: bins of the parameters, [rows, columns]. */
int joint_rows(const int64_t *chosen, int64_t number, const float *row, const float *col, const int32_t *places,
               int64_t rows, int64_t columns, int64_t width, const float *edges, int64_t count, float radius,
               int64_t under, int64_t zero, int64_t *counts) {
  bins b = {edges, count, radius, under, zero};
  int64_t *ends = malloc((2 * rows + 1) * sizeof *ends), sample = -1;
  if (!ends) return 1;
  for (int64_t o = 0; o < rows; o++) {
    int32_t low = INT32_MAX, high = 0;
    for (int64_t i = 0; i < columns; i++) {
      int32_t at = places[o * columns + i];
      low = at < low ? at : low;
      high = at > high ? at : high;
    }
    ends[2 * o] = low, ends[2 * o + 1] = high;
  }
  range of = {0};
  for (int64_t k = 0; k < number; k++) {
    int64_t n = chosen[k] / rows, o = chosen[k] % rows;
    const float *c = col + n * columns;
    if (n != sample) of = range_of(c, columns), sample = n;
    row_of here = {c, places + o * columns, columns, ends[2 * o], ends[2 * o + 1]};
    count_row(&here, row[chosen[k]], &of, &b, width, counts);
  }
  free(ends);
  return 0;
}

/* The bin of each number. */
int bin_places(const float *x, int64_t n, const float *edges, int64_t count, float radius, int64_t under, int64_t zero,
               int32_t *found) {
  bins b = {edges, count, radius, under, zero};
  for (int64_t at = 0; at < n; at += BLOCK) {
    int64_t size = n - at < BLOCK ? n - at : BLOCK;
    range of = range_of(x + at, size);
    int64_t first = of.finite ? not_above(&b, of.low) : 0, last = of.finite ? not_above(&b, of.high) : count;
    int32_t *places = found + at;
    if (last - first > MANY) {
      int64_t guess = first;
      for (int64_t i = 0; i < size; i++) places[i] = (int32_t)(guess = place_of(&b, x[at + i], guess));
      continue;
    }
    for (int64_t i = 0; i < size; i++) places[i] = (int32_t)first;
    for (int64_t k = first; k < last; k++)
      for (int64_t i = 0; i < size; i++) places[i] += !(x[at + i] < edges[k]);
  }
  return 0;
}
