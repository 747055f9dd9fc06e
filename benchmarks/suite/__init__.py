"""One module per benchmark; each has `cases(bench)`, which yields what it measures."""
