"""Curvature of one backward pass, computed before autograd frees its graph."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from cockpit.core.errors import why
from cockpit.engine.autograd.graph import Graph
from cockpit.engine.autograd.samples import Samples, unnoticed
from cockpit.engine.autograd.uses import COMPLEX, Uses
from cockpit.engine.curvature.gauss_newton import Memory, Network
from cockpit.engine.curvature.loss_hessian import Loss
from cockpit.engine.curvature.second_order import Curvature, Request, compute
from cockpit.engine.needs import MAX_EIGENVALUE, Diagonal, Need

CHECKPOINTED = (
    "activation checkpointing recomputes the forward pass whenever its tensors are read, "
    "and curvature reads them many times; leave it out of schedule, or train without checkpointing"
)

SPARSE = "sparse gradients of an embedding have no curvature here: use sparse=False"
LOOKED_UP = frozenset({"EmbeddingBackward", "EmbeddingBagBackward"})
UNKNOWN = "where the samples are was not found out"


def asked(needs: frozenset[Need]) -> bool:
    """Whether anything of the curvature is needed."""
    return MAX_EIGENVALUE in needs or any(isinstance(need, Diagonal) for need in needs)


def curvature_of(
    graph: Graph,
    roots: Sequence[Tensor],
    seeds: Sequence[Tensor | None],
    parameters: Mapping[str, Tensor],
    samples: Samples | str,
    needs: frozenset[Need],
    memory: Memory,
    key: int,
    accumulated: bool,
) -> Curvature:
    """Diagonals and the largest eigenvalue, as far as they are needed; ``samples``: or why they are not known."""
    network, problem = Network(graph, parameters, (), Uses(0)), None
    if isinstance(samples, str):
        problem = samples
    else:
        try:
            network = Network(graph, parameters, samples.outputs(), samples.uses())
        except Exception as error:
            problem = why(error)
    request = Request(
        Loss(roots, seeds, graph),
        network,
        problem,
        samples.place if isinstance(samples, Samples) else lambda node, output: None,
        half=graph.half is not None,
        accumulated=accumulated,
        impossible=_impossible(graph, parameters),
    )
    with unnoticed(roots[0].grad_fn):
        return compute(needs, request, memory, abs(key))


def _impossible(graph: Graph, parameters: Mapping[str, Tensor]) -> str | None:
    """Why no curvature can be had."""
    if graph.checkpointed():
        return CHECKPOINTED
    if any(getattr(node, "_saved_sparse", False) for node in graph.find(LOOKED_UP)):
        return SPARSE
    return COMPLEX if any(parameter.is_complex() for parameter in parameters.values()) else None
