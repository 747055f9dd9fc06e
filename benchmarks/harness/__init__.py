"""What every benchmark needs: contenders, processes, rounds, a table."""
