"""Data to train on: found or downloaded, split as the benchmark does it, and handed out in batches."""
