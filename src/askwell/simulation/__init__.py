"""Would active learning have helped? A learner against labels that are known.

    arguments -> design, checked -> a run for each score and seed, a line of a file for each step -> curves -> verdict

`simulate` spreads the runs over processes and resumes what was begun; `curves` has the statistics, paired by seed.
"""

from askwell.simulation.simulate import Simulation, simulate

__all__ = ["Simulation", "simulate"]
