"""Pure: hosts, selection, topology, environment of a worker, plan."""
