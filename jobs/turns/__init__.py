"""Turns of those who were refused (P10).

pacing is what admission asks. book says what a book of turns can be asked, and there are two: in_redis, which all processes share, and in_process,
for while Redis is away, which the simulator has too; it and book are pure.
"""
