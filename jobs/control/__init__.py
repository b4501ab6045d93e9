"""What operators change while everything runs: limits of a class, and what is paused, takes no more, or is suspended.

    changing    the one place that writes it, with who, when and why; the API, the admin and the command call it
    effective   a class's limits as they are now
    told        what stands, where it comes from and who set it

What is paused is looked at by each claim (`claim_v1`), what is refused by each admission (`refused_v1`), in the database: no process has to hear of it.
"""
