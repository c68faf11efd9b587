/* Sums over all elements of a parameter, each computed in double precision. */

#include <float.h>

#include "lanes.h"

#define SIDE 8 /* sums side by side */

typedef struct {
  const float *one, *other; /* other: may be NULL */
  double size, stretch, epsilon;
  double sums[THREADS][2];
} task;

static double total_of(const double *x) { return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7])); }

static void curvature_of(void *given, int64_t begin, int64_t end, int which) {
  task *t = given;
  const float *s = t->one, *h = t->other;
  double sums[SIDE] = {0}, epsilon = t->epsilon;
  int64_t i = begin;
  for (; i + SIDE <= end && h; i += SIDE)
    for (int j = 0; j < SIDE; j++) sums[j] += (double)s[i + j] / ((double)h[i + j] + epsilon);
  for (; i < end; i++) sums[0] += (double)s[i] / ((h ? (double)h[i] : 0) + epsilon);
  t->sums[which][0] = total_of(sums);
}

static void signal_of(void *given, int64_t begin, int64_t end, int which) {
  task *t = given;
  const float *g = t->one, *s = t->other;
  double sums[SIDE] = {0}, terms[SIDE] = {0}, least = 8 * (double)FLT_EPSILON;
  double size = t->size, stretch = t->stretch, epsilon = t->epsilon;
  for (int64_t i = begin; i < end; i += SIDE) {
    double one[SIDE] = {0}, other[SIDE] = {0};
    int64_t left = end - i < SIDE ? end - i : SIDE;
    for (int64_t j = 0; j < left; j++) {
      one[j] = g[i + j];
      other[j] = s[i + j];
    }
    for (int j = 0; j < SIDE; j++) {
      double square = one[j] * one[j], second = other[j] / size, variance = second - square;
      variance = (variance > least * second ? variance : 0) * stretch + epsilon;
      sums[j] += variance > 0 ? square / (variance > 0 ? variance : 1) : 0;
      terms[j] += variance > 0 ? 1 : 0;
    }
  }
  t->sums[which][0] = total_of(sums);
  t->sums[which][1] = epsilon > 0 ? (double)(end - begin) : total_of(terms);
}

static int finished(part run, task *t, int64_t n, double *found, int wide, int threads) {
  spread(run, t, n, threads);
  for (int k = 0; k < wide; k++) {
    found[k] = 0;
    for (int i = 0; i < THREADS; i++) found[k] += t->sums[i][k];
  }
  return 0;
}

/* sum_j s_j / (h_j + epsilon); h may be NULL. */
int noise_to_curvature(const float *s, const float *h, int64_t n, double epsilon, double *found, int threads) {
  task all = {.one = s, .other = h, .epsilon = epsilon};
  return finished(curvature_of, &all, n, found, 1, threads);
}

/* sum_j g_j^2 / variance_j, and how many terms it has: see ``derived.signal_to_noise``. */
int signal_to_noise(const float *g, const float *s, int64_t n, double size, double stretch, double epsilon, double *found,
                    int threads) {
  task all = {.one = g, .other = s, .size = size, .stretch = stretch, .epsilon = epsilon};
  return finished(signal_of, &all, n, found, 2, threads);
}
