"""What `manage.py simulate` does: a class's limits tried on a stream of jobs by a clock of its own, before they are set.

traces      what arrives: made up by rates, or read from a file
line        the order of jobs/order.py, fast enough for a million jobs
measures    what a door goes by: departures, run times, work that is left
present     who wants room of a class, and has some
door        who is let in, by jobs/decision.py, and when the others should come back
world       the events, and what clients do with a refusal
figures     what became of it     told        the same as text and as JSON
flags       what was asked        recorded    jobs that this installation had
"""
