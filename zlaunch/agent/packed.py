"""Where an agent begins that came down a link: with a keeper, which needs less than it does."""

from __future__ import annotations

from zlaunch.agent.keeper import leave_keeper_behind


def serve(node_rank: int) -> None:
    """Serve the link at stdin and stdout."""
    will = leave_keeper_behind()
    from zlaunch.agent.node import serve  # the keeper has no use for it

    serve(node_rank, will)
