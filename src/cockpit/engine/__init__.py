"""The engine: watches one backward pass on autograd's own graph and turns it into statistics."""
