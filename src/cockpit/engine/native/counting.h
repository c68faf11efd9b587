/* Exact histograms.
 *
 * x belongs to bin k if k edges are not above it; NaN is below no edge and belongs to the last bin.
 */

#include <float.h>
#include <math.h>
#include <string.h>

#include "lanes.h"

#define MANY 64    /* edges from which on looking up is faster than comparing */
#define TOGETHER 4 /* edges compared with at once */

typedef struct {
  const float *edges;
  int64_t count;       /* of edges */
  float radius;        /* inside, the sign alone decides the bin */
  int64_t below, zero; /* bins of negative numbers and of the others there */
} bins;

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

#define GUESSES 64 /* numbers whose bins are guessed together */

/* Bins of numbers x = r * c[i] if the edges were exactly as far from each other as they should be. */
static inline void guess(const float *c, int64_t n, float r, const bins *b, int32_t *places) {
  float first = b->count ? b->edges[0] : 0, width = b->count ? b->edges[b->count - 1] - first : 0;
  float each = width > 0 ? (float)(b->count - 1) / width : 0, top = (float)b->count;
  for (int64_t i = 0; i < n; i++) {
    float place = (r * c[i] - first) * each + 1;
    place = place > 0 ? place : 0; /* and where it is not a number */
    places[i] = (int32_t)(place < top ? place : top);
  }
}

static inline int64_t put_right(const bins *b, float x, int64_t place) {
  while (place < b->count && !(x < b->edges[place])) place++;
  while (place > 0 && x < b->edges[place - 1]) place--;
  return place;
}

static void look_up(const float *c, int64_t n, float r, const bins *b, int64_t *counts) {
  int32_t places[GUESSES];
  for (int64_t i = 0; i < n; i += GUESSES) {
    int64_t some = n - i < GUESSES ? n - i : GUESSES;
    guess(c + i, some, r, b, places);
    for (int64_t j = 0; j < some; j++) counts[put_right(b, r * c[i + j], places[j])]++;
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
