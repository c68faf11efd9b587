/* Products of inner products of all pairs of rows, of two matrices at a time: <r_n, r'_m> <c_n, c'_m>. If both are the same
 * rows, half of the pairs is made.
 *
 * Each thread takes some columns of both matrices, so that none reads what another wrote. Rows are laid out in panels, DEEP
 * columns at a time: the numbers of PANEL rows at one place side by side. */

#include <stdlib.h>
#include <string.h>

#include "lanes.h"

#define PANEL 16
#if defined(__AVX512F__)
#define WIDTH 16 /* numbers in a register */
#define TALL 8   /* rows of a panel that meet all of another one, in registers */
#else
#define WIDTH LANES
#define TALL 4
#endif
#define DEEP 128 /* so that two panels stay in the innermost cache */
#define REGISTERS (PANEL / WIDTH)
#define BLOCK_OF_PAIRS (PANEL * PANEL)

typedef float many __attribute__((vector_size(4 * WIDTH)));
typedef float many_anywhere __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

typedef struct {
  const float *rows[2]; /* of both matrices */
  int64_t step[2], count, panels;
} side;

typedef struct {
  side sides[2];
  int same; /* both sides */
  int64_t size[2], pairs, each; /* columns; pairs of panels; numbers of each share's room */
  float *room;
} task;

#if LANES == 8
/* The same numbers, rows as columns. */
static inline void transpose(floats x[LANES]) {
  floats y[LANES];
  for (int i = 0; i < LANES; i += 2) { /* neighbouring rows */
    y[i] = TAKE(x[i], x[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    y[i + 1] = TAKE(x[i], x[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < LANES; i += i % 4 ? 3 : 1) { /* two apart */
    x[i] = TAKE(y[i], y[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    x[i + 2] = TAKE(y[i], y[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; i++) { /* four apart */
    floats low = TAKE(x[i], x[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    x[i + 4] = TAKE(x[i], x[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    x[i] = low;
  }
}
#endif

/* Columns [k, k + deep) of one matrix, [panels, DEEP, PANEL]. */
static void lay_out(const side *all, int which, int64_t k, int64_t deep, float *to) {
  for (int64_t first = 0; first < all->panels * PANEL; first += LANES) {
    const float *from[LANES];
    float *here = to + first / PANEL * PANEL * DEEP + first % PANEL;
    int64_t j = 0, last = all->count - 1;
    for (int i = 0; i < LANES; i++) { /* beyond the last row, that one: nobody reads what comes of it */
      int64_t n = first + i < last ? first + i : last;
      from[i] = all->rows[which] + n * all->step[which] + k;
    }
#if LANES == 8
    for (; j + LANES <= deep; j += LANES) {
      floats x[LANES];
      for (int i = 0; i < LANES; i++) x[i] = load(from[i] + j);
      transpose(x);
      for (int i = 0; i < LANES; i++) *(loose *)(here + (j + i) * PANEL) = x[i];
    }
#endif
    for (; j < deep; j++)
      for (int i = 0; i < LANES; i++) here[j * PANEL + i] = from[i][j];
  }
}

/* Add the inner products of TALL rows of one panel with all of another. */
static inline void meet(const float *tall, const float *wide, int64_t deep, float (*found)[PANEL]) {
  many s[TALL][REGISTERS] = {0};
  for (int64_t k = 0; k < deep; k++, tall += PANEL, wide += PANEL) {
    many x[REGISTERS];
    for (int j = 0; j < REGISTERS; j++) {
      x[j] = (many) * (const many_anywhere *)(wide + j * WIDTH);
#if defined(__AVX512F__)
      __asm__("" : "+v"(x[j])); /* read once, not by each product */
#elif defined(__AVX__)
      __asm__("" : "+x"(x[j]));
#endif
    }
    for (int i = 0; i < TALL; i++)
      for (int j = 0; j < REGISTERS; j++) s[i][j] += tall[i] * x[j];
  }
  for (int i = 0; i < TALL; i++)
    for (int j = 0; j < REGISTERS; j++) *(many_anywhere *)(found[i] + j * WIDTH) += s[i][j];
}

/* Add the inner products of columns [k, k + deep) of one matrix to those of all pairs of panels. */
static void meet_all(const task *t, int which, int64_t k, int64_t deep, float *found, float *laid) {
  const side *mine = t->sides, *theirs = t->sides + 1;
  float *others = t->same ? laid : laid + mine->panels * PANEL * DEEP;
  lay_out(mine, which, k, deep, laid);
  if (!t->same) lay_out(theirs, which, k, deep, others);
  for (int64_t one = 0; one < mine->panels; one++)
    for (int64_t other = t->same ? one : 0; other < theirs->panels; other++, found += BLOCK_OF_PAIRS)
      for (int i = 0; i < PANEL; i += TALL)
        meet(laid + one * PANEL * DEEP + i, others + other * PANEL * DEEP, deep, (float(*)[PANEL])found + i);
}

/* The share of some columns of both matrices, counted through. */
static void multiply(void *given, int64_t begin, int64_t end, int which) {
  const task *t = given;
  int64_t size = t->pairs * BLOCK_OF_PAIRS, before = 0;
  float *found = t->room + which * t->each;
  memset(found, 0, sizeof(float) * 2 * (size_t)size);
  for (int m = 0; m < 2; before += t->size[m++]) {
    int64_t last = end - before < t->size[m] ? end - before : t->size[m];
    for (int64_t k = begin > before ? begin - before : 0; k < last; k += DEEP)
      meet_all(t, m, k, last - k < DEEP ? last - k : DEEP, found + m * size, found + 2 * size);
  }
}

/* The products of one pair of panels, whose inner products all shares have made in part. */
static void combine(const task *t, int shares, int64_t pair, float r[PANEL][PANEL], float c[PANEL][PANEL]) {
  float *found[2] = {&r[0][0], &c[0][0]};
  for (int m = 0; m < 2; m++) {
    const float *parts = t->room + (m * t->pairs + pair) * BLOCK_OF_PAIRS;
    memcpy(found[m], parts, sizeof(float) * BLOCK_OF_PAIRS);
    for (int k = 1; k < shares; k++)
      for (int i = 0; i < BLOCK_OF_PAIRS; i++) found[m][i] += parts[k * t->each + i];
  }
}

/* sums_n = factor * sum_m <r_n, r'_m> <c_n, c'_m>; r' and c' may be NULL: the same as r and c. Then norms_n = <r_n, r_n>
 * <c_n, c_n>. ``steps``: from one row of r, c, r', c' to the next. ``room`` for each thread: 2 * PANEL^2 for each pair of panels,
 * PANEL * DEEP for each panel of both sides. */
int pair_products(const float *r, const float *c, const float *r_other, const float *c_other, const int64_t *steps,
                  int64_t r_size, int64_t c_size, int64_t count, int64_t others, double factor, float *sums, float *norms,
                  float *room, int threads) {
  int same = !r_other;
  side mine = {{r, c}, {steps[0], steps[1]}, count, (count + PANEL - 1) / PANEL};
  side theirs = {{r_other, c_other}, {steps[2], steps[3]}, others, (others + PANEL - 1) / PANEL};
  task t = {{mine, same ? mine : theirs}, same, {r_size, c_size}, 0, 0, room};
  t.pairs = same ? mine.panels * (mine.panels + 1) / 2 : mine.panels * theirs.panels;
  t.each = 2 * mine.panels * theirs.panels * BLOCK_OF_PAIRS + (mine.panels + theirs.panels) * PANEL * DEEP;
  int shares = threads > THREADS ? THREADS : threads < 1 ? 1 : threads;
  if (shares > r_size + c_size) shares = (int)(r_size + c_size);
  double *found = calloc((size_t)(mine.panels * PANEL), sizeof(double));
  if (!found) return 1;
  spread(multiply, &t, r_size + c_size, shares);
  float rows[PANEL][PANEL], columns[PANEL][PANEL];
  for (int64_t one = 0, pair = 0; one < mine.panels; one++)
    for (int64_t other = same ? one : 0; other < t.sides[1].panels; other++, pair++) {
      combine(&t, shares, pair, rows, columns);
      int64_t tall = count - one * PANEL, wide = t.sides[1].count - other * PANEL;
      for (int i = 0; i < PANEL && i < tall; i++) {
        double total = 0;
        for (int j = 0; j < PANEL && j < wide; j++) {
          double product = (double)rows[i][j] * columns[i][j];
          total += product;
          if (same && one != other) found[other * PANEL + j] += product;
        }
        found[one * PANEL + i] += total;
        if (same && one == other) norms[one * PANEL + i] = rows[i][i] * columns[i][i];
      }
    }
  for (int64_t n = 0; n < count; n++) sums[n] = (float)(factor * found[n]);
  free(found);
  return 0;
}
