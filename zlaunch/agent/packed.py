"""Where an agent begins that came down a link: behind a keeper, which needs less than it does."""

from __future__ import annotations

from zlaunch.agent.keeper import keep


def serve(node_rank: int) -> None:
    """Serve the link at stdin and stdout."""

    def begin() -> None:
        from zlaunch.agent.node import serve  # the keeper has no use for it

        serve(node_rank)

    keep(begin)
