/* Inner products of all pairs of rows of two matrices at a time, of which only half is made: <r_n, r_m> <c_n, c_m>.
 *
 * Rows are first laid out in panels: the numbers of PANEL rows at one place side by side. */

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
#define DEEP 128 /* numbers of a row, so that two panels stay in the innermost cache */
#define REGISTERS (PANEL / WIDTH)

typedef float many __attribute__((vector_size(4 * WIDTH)));
typedef float many_anywhere __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

typedef struct {
  const float *rows;
  int64_t step, size;
  float *panels; /* [panels, size, PANEL] */
} matrix;

typedef struct {
  matrix both[2];
  int64_t count, panels;
  double *sums; /* [shares, panels * PANEL] */
  float *norms;
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

static void lay_out(void *given, int64_t begin, int64_t end, int which) {
  (void)which;
  task *t = given;
  for (int64_t turn = begin; turn < end; turn++) {
    matrix *m = t->both + turn % 2;
    int64_t panel = turn / 2;
    float *to = m->panels + panel * m->size * PANEL;
    for (int64_t r = 0; r < PANEL; r += LANES) {
      const float *from[LANES];
      int64_t k = 0, last = t->count - 1;
      for (int i = 0; i < LANES; i++) { /* beyond the last row, that one: nobody reads what comes of it */
        int64_t n = panel * PANEL + r + i;
        from[i] = m->rows + (n < last ? n : last) * m->step;
      }
#if LANES == 8
      for (; k + LANES <= m->size; k += LANES) {
        floats x[LANES];
        for (int i = 0; i < LANES; i++) x[i] = load(from[i] + k);
        transpose(x);
        for (int i = 0; i < LANES; i++) *(loose *)(to + (k + i) * PANEL + r) = x[i];
      }
#endif
      for (; k < m->size; k++)
        for (int i = 0; i < LANES; i++) to[k * PANEL + r + i] = from[i][k];
    }
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

static void meet_all(const matrix *m, int64_t one, int64_t other, float found[PANEL][PANEL]) {
  memset(found, 0, sizeof(float) * PANEL * PANEL);
  for (int64_t k = 0; k < m->size; k += DEEP) {
    int64_t deep = m->size - k < DEEP ? m->size - k : DEEP;
    const float *tall = m->panels + (one * m->size + k) * PANEL, *wide = m->panels + (other * m->size + k) * PANEL;
    for (int i = 0; i < PANEL; i += TALL) meet(tall + i, wide, deep, found + i);
  }
}

static void multiply(void *given, int64_t begin, int64_t end, int which) {
  task *t = given;
  double *sums = t->sums + which * t->panels * PANEL;
  float r[PANEL][PANEL], c[PANEL][PANEL];
  int64_t one = 0, other = 0;
  for (int64_t pair = 0; pair < end; pair++, other++) { /* one <= other */
    if (other == t->panels) other = ++one;
    if (pair < begin) continue;
    meet_all(t->both, one, other, r);
    meet_all(t->both + 1, one, other, c);
    int64_t tall = t->count - one * PANEL, wide = t->count - other * PANEL;
    for (int i = 0; i < PANEL && i < tall; i++) {
      double total = 0;
      for (int j = 0; j < PANEL && j < wide; j++) {
        double product = (double)r[i][j] * c[i][j];
        total += product;
        if (one != other) sums[other * PANEL + j] += product;
      }
      sums[one * PANEL + i] += total;
      if (one == other) t->norms[one * PANEL + i] = r[i][i] * c[i][i];
    }
  }
}

/* sums_n = factor * sum_m <r_n, r_m> <c_n, c_m>, norms_n = <r_n, r_n> <c_n, c_n>. ``room`` for the panels of both. */
int pair_products(const float *one, int64_t one_step, int64_t one_size, const float *other, int64_t other_step,
                  int64_t other_size, int64_t count, double factor, float *sums, float *norms, float *room,
                  int threads) {
  if (threads > THREADS) threads = THREADS;
  if (threads < 1) threads = 1;
  int64_t panels = (count + PANEL - 1) / PANEL, padded = panels * PANEL;
  double *found = calloc((size_t)(threads * padded), sizeof(double));
  if (!found) return 1;
  task t = {{{one, one_step, one_size, room}, {other, other_step, other_size, room + padded * one_size}},
            count, panels, found, norms};
  spread(lay_out, &t, 2 * panels, threads);
  spread(multiply, &t, panels * (panels + 1) / 2, threads);
  for (int64_t n = 0; n < count; n++) {
    double total = 0;
    for (int k = 0; k < threads; k++) total += found[k * padded + n];
    sums[n] = (float)(factor * total);
  }
  free(found);
  return 0;
}
