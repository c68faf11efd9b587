"""Which thread a training loop runs in: trainings in several threads must not take each other's backward passes."""

import threading
from collections.abc import Mapping

from torch import Tensor

from cockpit.engine.graph import Graph


class LoopThread:
    """The thread of one loop; a pass of another thread is told by its graph."""

    def __init__(self) -> None:
        self._here, self._within = threading.get_ident(), False

    def begin_step(self) -> None:
        """The loop is here."""
        self._here, self._within = threading.get_ident(), False

    def begin_pass(self) -> None:
        """A backward pass of the loop begins."""
        self._within = True

    def end_pass(self) -> None:
        """It is over."""
        self._within = False

    def owns(self, roots: tuple[Tensor, ...], parameters: Mapping[str, Tensor]) -> bool:
        """Whether a pass in this thread belongs to the loop; if it reaches the parameters, the loop has moved here."""
        thread = threading.get_ident()
        if thread == self._here:
            return True
        graph = Graph([root.grad_fn for root in roots if root.grad_fn is not None])
        if not any(id(parameter) in graph.leaves for parameter in parameters.values()):
            return False
        if self._within:
            raise RuntimeError("two threads backpropagate through this model at once")
        self._here = thread
        return True
