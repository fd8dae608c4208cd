"""The background queue that turns pending jobs into vectors.

The job table is the source of truth, so whatever is in memory can be lost at any time without loss of data.
`batch`, `retry`, `breaker` and `job_buffer` decide and do no I/O; `worker` acts.
"""
