"""A judge that many processes hold at once, on one machine or several: workers of a Ray cluster."""
