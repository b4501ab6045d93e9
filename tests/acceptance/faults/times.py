"""The times of the stack that is hurt, and what is allowed beyond a promise on a busy machine. Seconds."""

SWEEP_SECONDS = 1.0
LEASE_SECONDS = 3.0
# A tick travels through the broker to a process that has to get its turn on a machine with few cores.
ALLOWANCE_SECONDS = 1.5
# The broker's clients come back after at most this (their own back-off grows with the outage).
CONSUME_AGAIN_SECONDS = 60.0
ANSWER_SECONDS = 2.0
