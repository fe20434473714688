"""Scheduling: the order in which results, timers and wake-ups are delivered to threads and tasks.

A delivery is one thing handed to the program: a result, a chunk, a timer, a post to a loop, or a
timed-out wait. Deliveries happen one at a time, each after the program has become quiescent. The
recorded order is thus the order that the program saw, and a replay repeats it."""
