"""What the user types and reads: Typer declarations, one module per command group."""
