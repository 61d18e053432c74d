"""`python -m benchmarks`: measure this queue on a database of your own."""

from benchmarks.cli import bench

bench(prog_name="python -m benchmarks")
