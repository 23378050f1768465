"""Arrays in, numbers out: intervals, differences, gates, agreement."""
