"""Pure: messages between launcher and agent, lifecycle, outcome."""
