"""What autograd did: its graph, where the samples are in it, and what each sample contributed."""
