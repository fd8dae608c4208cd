"""Metrics and traces of the daemon's work.

Modules report to a `Telemetry` and do not know who listens: a `Recorder` that counts and, if traces are
configured, `tracing.Tracing` around it. prometheus and opentelemetry are only imported when they are needed.
"""
