"""Metrics and traces of what the daemon does.

Modules report to a `base.Telemetry` and do not know who listens: a `Recorder` that counts, and,
if the config asks for traces, `tracing.Tracing` around it. Neither prometheus nor opentelemetry is imported
before it is needed.
"""
