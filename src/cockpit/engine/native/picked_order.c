/* Lists of what was picked; and sums of rows. */

#include "picked.h"

int64_t picked_width(void) { return WIDTH; }

typedef struct {
  layout l;
  const int32_t *index;
  int32_t *count, *at, *first, *rank;
  uint16_t *place, *channel;
  int failed;
} task;

/* Of one channel; no branch depends on what is there, which nothing could foresee. ``seen``: which entry a position is,
 * counted over all channels that were listed before, so that it need not be emptied. */
static int32_t list_channel(const task *t, int64_t c, int32_t *seen, int32_t before) {
  const layout *l = &t->l;
  const int32_t *index = t->index + c * l->places;
  int32_t *at = t->at + c * l->places, entries = 0, repeats = 0;
  uint16_t *place = t->place + c * l->places;
  for (int64_t s = 0; s < l->places; s++) {
    int there = index[s] < l->positions;
    int32_t known = seen[index[s]] - before;
    int again = there & (known >= 0), to = again ? (int32_t)l->places - 1 - repeats : entries;
    at[to] = again ? known : (int32_t)l->patches[there ? index[s] : 0];
    place[to] = (uint16_t)s;
    seen[index[s]] = before + (again ? known : entries);
    repeats += again;
    entries += there & !again;
  }
  t->count[2 * c] = entries;
  t->count[2 * c + 1] = repeats;
  return entries;
}

static void by_channel_of(void *given, int64_t begin, int64_t end, int which) {
  task *t = given;
  int32_t *seen = malloc(sizeof(int32_t) * (size_t)(t->l.positions + 1)), before = 0;
  (void)which;
  if (!seen) t->failed = 1;
  for (int64_t n = begin; n < end && seen; n++, before = 0) {
    for (int64_t p = 0; p <= t->l.positions; p++) seen[p] = -1;
    for (int64_t o = 0; o < t->l.channels; o++) before += list_channel(t, n * t->l.channels + o, seen, before);
  }
  free(seen);
}

/* Fill ``count``, ``at`` and ``place`` of lists. Where nothing was picked, an index, [samples, channels, places], says the
 * number of positions, which is none of them. */
int picked_by_channel(const int64_t *given, int64_t samples, const int32_t *index, int32_t *count, int32_t *at,
                      uint16_t *place, int threads) {
  task all = {.l = read_layout(given), .index = index, .count = count, .at = at, .place = place};
  spread(by_channel_of, &all, samples, threads);
  return all.failed;
}

static void by_position_of(void *given, int64_t begin, int64_t end, int which) {
  task *t = given;
  const layout *l = &t->l;
  lists all = {.count = t->count, .at = t->at, .place = t->place};
  (void)which;
  for (int64_t n = begin; n < end; n++) {
    int32_t *first = t->first + n * (l->positions + 1);
    memset(first, 0, sizeof(int32_t) * (size_t)(l->positions + 1));
    for (int filling = 0; filling < 2; filling++) { /* counted, then put there */
      for (int64_t o = 0; o < l->channels; o++) {
        listed p = of_channel(l, &all, n, o);
        int64_t from = (n * l->channels + o) * l->places;
        for (int64_t e = 0; e < p.entries; e++) {
          int32_t *next = first + t->index[from + p.place[e]];
          if (filling) t->channel[n * l->channels * l->places + (t->rank[from + e] = *next)] = (uint16_t)o;
          ++*next;
        }
      }
      /* After counting, first[p] becomes where position p begins; after filling, it is where the next one does. */
      int32_t sum = 0;
      for (int64_t p = 0; p <= l->positions; p++) {
        int32_t own = first[p];
        first[p] = sum;
        sum = filling ? own : sum + own;
      }
    }
  }
}

/* Fill ``first``, ``rank`` and ``channel`` of lists that have the others. */
int picked_by_position(const int64_t *given, int64_t samples, const int32_t *index, int32_t *count, int32_t *at,
                       uint16_t *place, int32_t *first, int32_t *rank, uint16_t *channel, int threads) {
  task all = {.l = read_layout(given), .index = index, .count = count, .at = at, .first = first, .rank = rank,
              .place = place, .channel = channel};
  spread(by_position_of, &all, samples, threads);
  return all.failed;
}

/* found += sum_e v_e x_e, some blocks of the rows x_e that begin at the places ``at``: blocks ``by`` there, ``to`` here. */
typedef void (*adder)(int64_t m, const int32_t *at, const float *v, const float *x, const int64_t *by, float *found,
                      const int64_t *to);

#define ADD(G)                                                                                                       \
  static void add_##G(int64_t m, const int32_t *at, const float *v, const float *x, const int64_t *by, float *found, \
                      const int64_t *to) {                                                                           \
    const float *from[G];                                                                                            \
    block s[G];                                                                                                      \
    EACH(G) s[g] = LOAD(found + to[g]);                                                                              \
    EACH(G) from[g] = x + by[g];                                                                                     \
    for (int64_t e = 0; e < m; e++) EACH(G) s[g] += v[e] * LOAD(from[g] + at[e]);                                    \
    EACH(G) STORE(found + to[g], s[g]);                                                                              \
  }
ADD(1) ADD(2) ADD(3) ADD(4) ADD(5) ADD(6) ADD(7) ADD(8)
static const adder adders[] = {NULL, add_1, add_2, add_3, add_4, add_5, add_6, add_7, add_8};
static const int64_t in_row[GROUP] = {0, WIDTH, 2 * WIDTH, 3 * WIDTH, 4 * WIDTH, 5 * WIDTH, 6 * WIDTH, 7 * WIDTH};

/* The same for blocks that are neighbours. */
typedef void (*runner)(int64_t m, const int32_t *at, const float *v, const float *x, float *found);

#define RUN(G)                                                                                      \
  static void run_##G(int64_t m, const int32_t *at, const float *v, const float *x, float *found) { \
    block s[G];                                                                                     \
    EACH(G) s[g] = LOAD(found + g * WIDTH);                                                         \
    for (int64_t e = 0; e < m; e++) {                                                               \
      const float *from = x + at[e];                                                                \
      EACH(G) s[g] += v[e] * LOAD(from + g * WIDTH);                                                \
    }                                                                                               \
    EACH(G) STORE(found + g * WIDTH, s[g]);                                                         \
  }
RUN(1) RUN(2) RUN(3) RUN(4) RUN(5) RUN(6) RUN(7) RUN(8) RUN(9) RUN(10) RUN(11) RUN(12)
#if HELD == 20
RUN(13) RUN(14) RUN(15) RUN(16) RUN(17) RUN(18) RUN(19) RUN(20)
#endif
static const runner runners[HELD + 1] = {NULL,  run_1, run_2, run_3,  run_4,  run_5, run_6,
                                         run_7, run_8, run_9, run_10, run_11, run_12,
#if HELD == 20
                                         run_13, run_14, run_15, run_16, run_17, run_18, run_19, run_20
#endif
};

void add_to_row(const layout *l, int64_t b, int64_t g, int64_t m, const int32_t *at, const float *v, const float *image,
                float *row) {
  if (l->run < LONG)
    adders[g](m, at, v, image, l->offsets + b, row + b * WIDTH, in_row);
  else
    runners[g](m, at, v, image + l->offsets[b], row + b * WIDTH);
}

void add_to_patch(const layout *l, int64_t b, int64_t g, int64_t m, const int32_t *at, const float *v, const float *rows,
                  float *patch) {
  if (l->run < LONG)
    adders[g](m, at, v, rows + b * WIDTH, in_row, patch, l->offsets + b);
  else
    runners[g](m, at, v, rows + b * WIDTH, patch + l->offsets[b]);
}
