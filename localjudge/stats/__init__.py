"""Arrays in, numbers out: what a mean, a difference, a gate or a judge's agreement with people is worth."""
