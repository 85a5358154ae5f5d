"""A random search for violations of the core's promises: hosts, services and operators in virtual time.

Open `world.py` first. `python -m tests.simulation --first 0 --count 400` runs the seeds.
"""
