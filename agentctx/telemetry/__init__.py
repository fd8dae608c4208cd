"""Metrics and traces of what the daemon does.

Modules tell a `base.Telemetry` what they do, and know nothing of who listens: a `Recorder` that counts, and,
if the config asks for traces, `tracing.Tracing` around it. Neither prometheus nor opentelemetry is imported
before it is needed.
"""
