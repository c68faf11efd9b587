/* From numbers of each sample, [parameters, samples], to a few numbers: see ``derived``. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lanes.h"

/* Mean, sample variance and mean size. */
static void moments_of(const double *totals, int64_t samples, double *found) {
  double mean = 0, sizes = 0, apart = 0;
  for (int64_t n = 0; n < samples; n++) mean += totals[n], sizes += fabs(totals[n]);
  mean /= samples;
  for (int64_t n = 0; n < samples; n++) apart += (totals[n] - mean) * (totals[n] - mean);
  found[0] = mean;
  found[1] = samples > 1 ? apart / (samples - 1) : mean * 0;
  found[2] = sizes / samples;
}

int moments(const void *rows, int wide, const double *weights, int64_t parameters, int64_t samples, double *found) {
  double *totals = calloc(samples + 1, sizeof *totals);
  if (!totals) return 1;
  for (int64_t p = 0; p < parameters; p++)
    for (int64_t n = 0; n < samples; n++) {
      int64_t at = p * samples + n;
      totals[n] += (weights ? weights[p] : 1) * (wide ? ((const double *)rows)[at] : ((const float *)rows)[at]);
    }
  moments_of(totals, samples, found);
  free(totals);
  return 0;
}

int row_sums(const float *rows, int64_t parameters, int64_t samples, double *found) {
  for (int64_t p = 0; p < parameters; p++) {
    found[p] = 0;
    for (int64_t n = 0; n < samples; n++) found[p] += rows[p * samples + n];
  }
  return 0;
}

/* Each sample's share of the loss: ``total`` is distributed as the losses are. */
int shares(const float *losses, int64_t samples, const float *total, double known, const float *arrived,
           double *found) {
  double summed = 0;
  for (int64_t n = 0; n < samples; n++) summed += losses[n];
  double factor = (summed != 0 ? *total / summed : known) * *arrived;
  for (int64_t n = 0; n < samples; n++) found[n] = factor * losses[n];
  return 0;
}

int centres(const float *dots, int64_t parameters, int64_t samples, double *found) {
  for (int64_t p = 0; p < parameters; p++) {
    double mean = 0, size = 0;
    for (int64_t n = 0; n < samples; n++) mean += dots[p * samples + n], size += fabs((double)dots[p * samples + n]);
    found[p] = mean / samples;
    found[parameters + p] = size / samples;
  }
  return 0;
}

/* Sum of all squared lengths, and of the squares of all inner products. */
int scatter(const float *squares, const float *dots, int64_t parameters, int64_t samples, double *found) {
  found[0] = found[1] = 0;
  for (int64_t n = 0; n < samples; n++) {
    double along = 0;
    for (int64_t p = 0; p < parameters; p++) {
      found[0] += squares[p * samples + n];
      along += dots[p * samples + n];
    }
    found[1] += along * along;
  }
  return 0;
}

/* ---- everything of a step in one vector of double precision; kinds: 0 float, 1 double, 2 whole numbers */

int pack(const void *const *tensors, const int64_t *kinds, const int64_t *sizes, int64_t number, double *found) {
  for (int64_t k = 0; k < number; k++) {
    int64_t n = sizes[k];
    const float *f = tensors[k];
    const int64_t *w = tensors[k];
    if (kinds[k] == 0)
      for (int64_t i = 0; i < n; i++) found[i] = f[i];
    else if (kinds[k] == 1)
      memcpy(found, tensors[k], n * sizeof *found);
    else
      for (int64_t i = 0; i < n; i++) found[i] = (double)w[i];
    found += n;
  }
  return 0;
}

/* ---- what torch does as well, but takes longer to begin than this takes to end */

int scaled(const float *x, int64_t n, float factor, float *found) {
  for (int64_t i = 0; i < n; i++) found[i] = x[i] * factor;
  return 0;
}

int stacked(const char *const *rows, int64_t number, int64_t bytes, char *found) {
  for (int64_t k = 0; k < number; k++) memcpy(found + k * bytes, rows[k], (size_t)bytes);
  return 0;
}

/* The loss of each sample: log sum_c exp(x_c) - x_target, as torch does it, but added in double precision. */
int cross_entropy(const float *x, const int64_t *target, int64_t samples, int64_t classes, int64_t ignored,
                  float *found) {
  for (int64_t n = 0; n < samples; n++, x += classes) {
    found[n] = target[n] == ignored ? 0 : NAN; /* there is no such class */
    if (target[n] == ignored || target[n] < 0 || target[n] >= classes) continue;
    float top = x[0];
    double total = 0;
    for (int64_t c = 1; c < classes; c++) top = x[c] > top ? x[c] : top;
    for (int64_t c = 0; c < classes; c++) total += expf(x[c] - top);
    found[n] = (float)(log(total) - ((double)x[target[n]] - top));
  }
  return 0;
}
