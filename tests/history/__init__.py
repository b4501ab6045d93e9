"""Histories: what clients, bodies and nemeses did on a real stack, and whether all of it was right.

history = History(path)                      an append-only file that every thread and process writes to
with Api(stack.url, stack.key, history) as api: …                    every call and its outcome
with afflicted(history, stack, KillChild("worker-light")): …         what was done to the stack
judged(history, stack).must_hold()           once all has ended; the acceptance tests' conftest does it for each test
"""
