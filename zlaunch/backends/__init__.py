"""How an agent on a node is reached."""
