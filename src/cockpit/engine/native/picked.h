/* Convolutions of which few results matter: the places that max-pooling picked, in each channel other ones.
 *
 * Images have their channels last and their margins added, so that a patch is a few runs of neighbouring numbers. A run is
 * handled in blocks of WIDTH. Rows of weights have the same order, each run filled up with zeros to whole blocks. Where runs
 * are no whole blocks, what is read or written (plus zero) at the end of one is not its own; it belongs to later blocks of
 * the patch, or to none, and behind each image there is room for it.
 */

#include <stdlib.h>
#include <string.h>

#include "lanes.h"

#if defined(__AVX512F__)
#define WIDTH 16 /* numbers that are handled side by side */
#define HELD 20  /* blocks of sums that stay in registers */
#else
#define WIDTH 8 /* whatever the registers */
#define HELD 12
#endif

typedef float block __attribute__((vector_size(4 * WIDTH)));
typedef float block_anywhere __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

#define LOAD(x) ((block) * (const block_anywhere *)(x))
#define STORE(x, value) (*(block_anywhere *)(x) = (block_anywhere)(value))

int64_t picked_width(void);

typedef struct {
  int64_t channels, places, positions;
  int64_t image;          /* numbers from one image to the next */
  int64_t blocks, run;    /* of a patch, and of each of its runs */
  const int64_t *offsets; /* where each block begins, from the beginning of its patch; ascending */
  const int64_t *patches; /* where each patch begins, from the beginning of its image */
} layout;

static inline layout read_layout(const int64_t *given) {
  layout found = {given[0], given[1], given[2], given[3], given[4], given[5], given + 6, given + 6 + given[4]};
  return found;
}

static inline int64_t row(const layout *l) { return l->blocks * WIDTH; } /* numbers of a row of weights */

/* Values at places, [columns, samples, channels, places], in any order in memory: steps from one column, sample and channel to
 * the next, and then where each place is. */
typedef struct {
  const float *at;
  const int64_t *steps;
} values;

static inline const float *value(values v, int64_t n, int64_t o) { return v.at + n * v.steps[1] + o * v.steps[2]; }

/* What was picked, listed by channels: each of [samples, channels] has a part of ``places`` numbers. A position that several
 * windows picked is one entry; further places of it are repeats, from the end of the part backwards. */
typedef struct {
  const int32_t *count; /* [samples, channels, 2]: entries, repeats */
  const int32_t *at;    /* where the patch of an entry begins; of which entry a repeat is */
  const uint16_t *place;
  /* The entries of a sample in the order of their positions. */
  const int32_t *first;   /* [samples, positions + 1]: where those of a position begin */
  const int32_t *rank;    /* [samples, channels, places]: of an entry */
  const uint16_t *channel; /* [samples, channels * places]: in that order */
} lists;

typedef struct {
  int64_t entries, repeats; /* repeats begin at places - repeats */
  const int32_t *at, *rank;
  const uint16_t *place;
} listed;

static inline listed of_channel(const layout *l, const lists *all, int64_t n, int64_t o) {
  int64_t c = n * l->channels + o, from = c * l->places;
  listed found = {all->count[2 * c], all->count[2 * c + 1], all->at + from, all->rank ? all->rank + from : NULL,
                  all->place + from};
  return found;
}

/* Of the entries of a sample in the order of their positions: where the weights of their channels begin. */
static inline void where_rows_begin(const layout *l, const lists *all, int64_t n, int32_t *at) {
  const uint16_t *channel = all->channel + n * l->channels * l->places;
  for (int64_t e = 0; e < all->first[(n + 1) * (l->positions + 1) - 1]; e++) at[e] = (int32_t)(channel[e] * row(l));
}

/* Values of each entry in columns [from, from + each), the columns side by side; ``ordered``: by position. */
static inline void gather(const layout *l, listed p, values v, int64_t n, int64_t o, int64_t from, int64_t each, int ordered,
                          float *to) {
  const float *x = value(v, n, o) + from * v.steps[0];
  const int64_t *where = v.steps + 3;
  for (int64_t e = 0; e < p.entries; e++)
    for (int64_t k = 0; k < each; k++)
      to[(ordered ? p.rank[e] : e) * each + k] = x[where[p.place[e]] + k * v.steps[0]];
  for (int64_t r = l->places - p.repeats; r < l->places; r++)
    for (int64_t k = 0; k < each; k++)
      to[(ordered ? p.rank[p.at[r]] : p.at[r]) * each + k] += x[where[p.place[r]] + k * v.steps[0]];
}

#define EACH(G) _Pragma("GCC unroll 32") for (int g = 0; g < G; g++)
#define CACHE 40960 /* bytes that are likely to stay in the innermost cache */
#define GROUP 8 /* blocks of several short runs that are handled at once */
#define LONG 4  /* blocks of a run that is long: its blocks are handled by themselves, as neighbours */

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t even(int64_t count, int64_t most) { /* size of pieces of nearly the same size */
  int64_t pieces = (count + most - 1) / most;
  return (count + pieces - 1) / pieces;
}

/* Blocks that are handled at once, from this one on; of a long run at most so many. */
static inline int64_t together(const layout *l, int64_t b, int64_t most) {
  return l->run < LONG ? smaller(even(l->blocks, GROUP), l->blocks - b) : smaller(even(l->run, most), l->run - b % l->run);
}

/* Add sum_e v_e x_e to blocks [b, b + g) of a row, for patches x_e that begin at the places ``at`` of an image. */
void add_to_row(const layout *l, int64_t b, int64_t g, int64_t m, const int32_t *at, const float *v, const float *image,
                float *row);

/* The same to blocks of a patch, for rows that begin at the places ``at``. */
void add_to_patch(const layout *l, int64_t b, int64_t g, int64_t m, const int32_t *at, const float *v, const float *rows,
                  float *patch);
