"""How evenly a cluster can be used, and the least load that has to move for it: what a planner aims for, and is judged
by. Pure."""
