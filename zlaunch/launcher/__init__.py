"""The launcher's loop: agents' events go through the lifecycle and come back as orders."""
