/* What was picked in an image, in the order of its positions; and sums of rows. */

#include "picked.h"

int64_t picked_width(void) { return WIDTH; }

int make_sorted(sorted *by, const layout *l, int64_t each) {
  int64_t most = l->channels * l->places;
  by->first = malloc(sizeof(int64_t) * (size_t)(l->positions + 3 + most));
  by->channel = malloc(sizeof(int32_t) * (size_t)(2 * most));
  by->value = malloc(sizeof(float) * (size_t)(most * each));
  if (!by->first || !by->channel || !by->value) return 0;
  by->row = by->first + l->positions + 3;
  by->place = by->channel + most;
  return 1;
}

void free_sorted(sorted *by) {
  free(by->first);
  free(by->channel);
  free(by->value);
}

/* What is nowhere comes last, as if it were at one more position: no branch depends on it, which nothing could foresee. */
void sort_picked(sorted *by, const layout *l, const int32_t *index) {
  int64_t *next = by->first + 1, count = l->channels * l->places;
  memset(by->first, 0, sizeof(int64_t) * (size_t)(l->positions + 3));
  for (int64_t e = 0; e < count; e++) next[index[e] + 1]++;
  for (int64_t p = 1; p <= l->positions; p++) next[p] += next[p - 1];
  for (int64_t o = 0, e = 0; o < l->channels; o++)
    for (int64_t s = 0; s < l->places; s++, e++) {
      int64_t to = next[index[e]]++;
      by->channel[to] = (int32_t)o;
      by->place[to] = (int32_t)s;
      by->row[to] = o * row(l);
    }
}

void bring_values(sorted *by, const layout *l, values v, int64_t n, int64_t from, int64_t each) {
  const float *first = value(v, n, 0) + from * v.steps[0];
  for (int64_t e = 0; e < by->first[l->positions]; e++) {
    const float *at = first + by->channel[e] * v.steps[2] + by->place[e] * v.steps[3];
    for (int64_t k = 0; k < each; k++) by->value[e * each + k] = at[k * v.steps[0]];
  }
}

#define ADD(G)                                                                                                       \
  static void add_##G(int64_t m, const int64_t *at, const float *v, const float *x, const int64_t *by, float *found, \
                      const int64_t *to) {                                                                           \
    const float *from[G];                                                                                            \
    block s[G];                                                                                                      \
    EACH(G) s[g] = LOAD(found + to[g]);                                                                              \
    EACH(G) from[g] = x + by[g];                                                                                     \
    for (int64_t e = 0; e < m; e++) EACH(G) s[g] += v[e] * LOAD(from[g] + at[e]);                                    \
    EACH(G) STORE(found + to[g], s[g]);                                                                              \
  }
ADD(1) ADD(2) ADD(3) ADD(4) ADD(5) ADD(6) ADD(7) ADD(8)
const adder adders[] = {NULL, add_1, add_2, add_3, add_4, add_5, add_6, add_7, add_8};
const int64_t in_row[] = {0, WIDTH, 2 * WIDTH, 3 * WIDTH, 4 * WIDTH, 5 * WIDTH, 6 * WIDTH, 7 * WIDTH};
