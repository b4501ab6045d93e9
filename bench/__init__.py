"""Paired measurements on real stacks: `bin/bench` runs them, and decisions quote their figures.

serving     our ASGI application against granian's WSGI interface and Django's own ASGI handler, in interleaved rounds
held        five hundred callers who wait (`Prefer: wait`): what they cost, and how soon it is seen that they left
waiting     how soon after a job's end its waiting caller knows, against asking once a second

ground      where it is measured: a running stack, and what the database says of the jobs of a measurement
ways        the ways to serve Django, each as a web server of its own on that stack; plain_wsgi and plain_asgi are theirs
load        the client that sends the requests
processes   what web processes use: memory, processor time, connections
figures     medians, percentiles, ratios        tables  how they are printed
"""
