/* Numbers side by side, sums of them, and threads.
 *
 * Sums: at most 16 numbers are added in single precision, then in double.
 */

#include <stdint.h>

#if defined(__AVX__)
#define LANES 8 /* numbers in a register */
#else
#define LANES 4
#endif
#define BLOCK 4096       /* numbers that stay in the innermost cache */
#define SUM (16 * LANES) /* numbers added in single precision, 16 in each lane */
#define THREADS 64

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

typedef float halves __attribute__((vector_size(2 * LANES)));
typedef double doubles __attribute__((vector_size(4 * LANES)));

/* Some numbers of two vectors of eight, by their places in both. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define TAKE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
#endif
#ifndef TAKE /* older versions of GCC have a word of their own for it */
typedef int32_t places_of_eight __attribute__((vector_size(32)));
#define TAKE(a, b, ...) __builtin_shuffle(a, b, ((places_of_eight){__VA_ARGS__}))
#endif

typedef void (*part)(void *task, int64_t begin, int64_t end, int which);

/* Run a task on parts of ``count`` things. */
void spread(part run, void *task, int64_t count, int threads);

static inline floats load(const float *x) { return (floats) * (const loose *)x; }

static inline floats choose(ints which, floats one, floats other) {
  return (floats)((which & (ints)one) | (~which & (ints)other));
}

/* Add numbers in double precision, two of them in each lane. */
static inline doubles added(doubles to, floats x) {
  union { floats all; halves half[2]; } v = {x};
  return to + __builtin_convertvector(v.half[0], doubles) + __builtin_convertvector(v.half[1], doubles);
}

static inline double sum(doubles x) {
  double found = 0;
  for (int j = 0; j < LANES / 2; j++) found += x[j];
  return found;
}

static inline int64_t total(ints x) {
  int64_t found = 0;
  for (int j = 0; j < LANES; j++) found += x[j];
  return found;
}

/* One bit for each lane that holds. */
static inline uint64_t bits(ints which) {
#if defined(__AVX__)
  return (uint64_t)(unsigned)__builtin_ia32_movmskps256((floats)which);
#elif defined(__SSE__)
  return (uint64_t)(unsigned)__builtin_ia32_movmskps((floats)which);
#else
  uint64_t found = 0;
  for (int j = 0; j < LANES; j++) found |= (uint64_t)(which[j] != 0) << j;
  return found;
#endif
}

/* Sum over i of TERM, a product of ``a``, which is VECTOR for several numbers and SINGLE for one. */
#define SUMMED(VECTOR, SINGLE, TERM)                          \
  doubles all = {0};                                          \
  int64_t i = 0;                                              \
  while (i + LANES <= n) {                                    \
    floats s = {0};                                           \
    int64_t end = i + SUM < n ? i + SUM : n;                  \
    for (; i + LANES <= end; i += LANES) {                    \
      floats a = VECTOR;                                      \
      s += TERM;                                              \
    }                                                         \
    all = added(all, s);                                      \
  }                                                           \
  double found = sum(all);                                    \
  for (; i < n; i++) {                                        \
    double a = SINGLE;                                        \
    found += TERM;                                            \
  }                                                           \
  return found;

static inline double square_sum(const float *x, int64_t n) { SUMMED(load(x + i), x[i], a * a) }

static inline double distance_sum(const float *x, const float *y, int64_t n) {
  SUMMED(load(x + i) - load(y + i), (float)(x[i] - y[i]), a * a)
}

static inline double product_sum(const float *x, const float *y, int64_t n) {
  SUMMED(load(x + i) * load(y + i), (double)x[i] * y[i], a)
}
