"""What `manage.py plan` knows: how many processes a class needs, how many jobs may wait, and what its callers meet then.

    queueing     the waiting line as a Markov chain: who is refused, how long the others wait
    simulation   the same line played, with run times as they were recorded
    sizes        from targets to processes and waiting room, within memory and cores
    advice       a plan for one class, with its reasons
    recorded     what this installation's own attempts say
    told         a plan as text and as JSON         chart   as a PNG
    measuring    one job type in threads and in processes: which pays

`jobs.capacity` has the arithmetic that the door uses too, `workers.sizing` that of memory and cores.
"""
