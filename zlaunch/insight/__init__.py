"""Pure: reads what workers print."""
