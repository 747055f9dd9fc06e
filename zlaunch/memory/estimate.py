"""The memory of one way to train: on a GPU at each moment of a step, on the host, on NVMe."""

from __future__ import annotations

from zlaunch.frozen import frozen
from zlaunch.memory.activations import Workload, activations
from zlaunch.memory.buffers import (
    CUDA_CONTEXT,
    FRAGMENTATION,
    backward_buffers,
    bucket_share,
    constant_buffers,
    nccl,
    pass_buffers,
    step_buffers,
)
from zlaunch.memory.host import host_terms, nvme_terms
from zlaunch.memory.settings import Settings
from zlaunch.memory.shape import ModelShape
from zlaunch.memory.states import (
    GRADIENTS,
    constant_states,
    earlier_gradients,
    gradients_for_step,
    new_gradients,
)
from zlaunch.memory.terms import Group, Phase, Term, present, share, total


@frozen
class Cluster:
    """Equal nodes with equal GPUs."""

    gpus: int
    nodes: int = 1

    @property
    def ranks(self) -> int:
        """Workers in all."""
        return self.gpus * self.nodes


@frozen
class Estimate:
    """Bytes of one rank's GPU by phase, and of a node's host memory and NVMe."""

    phases: tuple[Phase, ...]
    overhead: tuple[Term, ...]
    host: tuple[Term, ...]
    nvme: tuple[Term, ...]

    @property
    def peak(self) -> Phase:
        """The phase that takes most: what torch.cuda.max_memory_allocated shows."""
        return max(self.phases, key=lambda phase: phase.size)

    @property
    def gpu(self) -> int:
        """Bytes that the card must have: the peak and what lies outside torch's allocator."""
        return self.peak.size + total(self.overhead)

    @property
    def gpu_terms(self) -> tuple[Term, ...]:
        """The terms of `gpu`."""
        return self.peak.terms + self.overhead


def estimate(shape: ModelShape, settings: Settings, cluster: Cluster, work: Workload) -> Estimate:
    """The memory that `settings` takes to train `shape` on `cluster`."""
    phases = _phases(shape, settings, cluster.ranks, work)
    peak = max(phase.size for phase in phases)
    overhead = present(
        Term("overhead", "fragmentation, 5 %", int(peak * FRAGMENTATION)),
        Term("overhead", "CUDA context", CUDA_CONTEXT),
        Term("overhead", "NCCL", nccl(settings, cluster.ranks)),
    )
    host = host_terms(shape, settings, cluster.gpus, cluster.ranks)
    return Estimate(
        phases, overhead, host, nvme_terms(shape, settings, cluster.gpus, cluster.ranks)
    )


def initial_states(shape: ModelShape, settings: Settings, ranks: int) -> int:
    """Bytes on the GPU after initialisation, before the first step makes the moments."""
    terms = constant_states(shape, settings, ranks) + constant_buffers(shape, settings, ranks)
    later = {"optimizer moments", "cuBLAS workspaces", "small parameters, kept whole"}
    return total(term for term in terms if term.name not in later)


def _phases(shape: ModelShape, settings: Settings, ranks: int, work: Workload) -> tuple[Phase, ...]:
    """The moments at which a step can take most.

    The loss: all activations, and the logits' gradients. The last layer: the same without
    those, and with one layer recomputed. The backward pass: the activations go as the gradients
    come, so that either of its ends can be the larger one. The step: no activations, but the
    gradients in two precisions.
    """
    constant = constant_states(shape, settings, ranks) + constant_buffers(shape, settings, ranks)
    during = constant + pass_buffers(shape, settings, ranks)
    backward = backward_buffers(settings, ranks)
    kept = activations(shape, settings, work)
    earlier = earlier_gradients(shape, settings, ranks)
    came = new_gradients(shape, settings, ranks)
    # Reduced gradients have a partition as soon as the first bucket is full; where nothing is
    # reduced on the way, gradients grow as activations shrink, and the end is what counts.
    at_once = settings.stage in (2, 3) or (settings.stage == 1 and settings.overlap)
    left = 1 - bucket_share(shape, settings) if at_once else 0.0
    partition = 0
    if settings.stage == 1 and settings.contiguous:  # copied out of the buckets, for the step
        whole = settings.accumulated * share(shape.parameters, ranks)
        partition = 0 if settings.overlap else whole
    largest = settings.element * shape.largest_tensor if shape.logits else 0
    ends = present(
        Term("states", GRADIENTS, earlier + came + partition),
        Term("buffers", "gradient of the largest tensor", largest if at_once else 0),
        Term("activations", "layers", int(kept.layers * left)),
        Term("activations", "one layer recomputed", int(kept.recomputed * (left > 0))),
    )
    waiting = present(Term("states", GRADIENTS, earlier))
    step = gradients_for_step(shape, settings, ranks) + step_buffers(shape, settings)
    norm = _norm_terms(shape, settings, ranks, earlier + came + partition)
    return (
        Phase("loss", _merged(during + waiting + backward + kept.at_the_loss())),
        Phase("last layer", _merged(during + waiting + backward + kept.in_a_layer())),
        Phase("backward pass", _merged(during + ends + backward)),
        Phase("gradient norm", _merged(constant + norm)),
        Phase("optimizer step", _merged(constant + step)),
    )


def _norm_terms(
    shape: ModelShape, settings: Settings, ranks: int, gradients: int
) -> tuple[Term, ...]:
    """Stages 1 and 2 turn one gradient after the other into fp64 for its norm."""
    if settings.stage not in (1, 2) or settings.optimizer != "none":
        return present(Term("states", GRADIENTS, gradients))
    largest = min(shape.largest_tensor, share(shape.parameters, ranks))
    return present(
        Term("states", GRADIENTS, gradients), Term("buffers", "largest gradient, fp64", 8 * largest)
    )


def _merged(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Terms of one name added up, in the order in which they first came."""
    sizes: dict[tuple[Group, str], int] = {}
    for term in terms:
        key = term.group, term.name
        sizes[key] = sizes.get(key, 0) + term.size
    return tuple(Term(group, name, size) for (group, name), size in sizes.items())
