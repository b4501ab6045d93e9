"""Histories: what clients, bodies and nemeses did on a real stack, and whether all of it was right.

history = History(path)                      an append-only file that every thread and process writes to
with RecordingApi(stack.url, stack.key, history, "c1") as api: …     every call and its outcome
with afflicted(history, stack, KillChild("worker-light")): …         what was done to the stack
verdict = check(history.events(), rows.read(stack.database_url), Bounds(…))
verdict.must_hold()
"""
