"""Statistics of individual gradients: one file for each, no device and no layer in any."""
