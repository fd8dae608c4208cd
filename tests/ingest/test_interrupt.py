import os
import signal
import threading

import pytest

from agentctx.ingest.interrupt import stop_on_interrupt


def test_the_first_is_noted_the_second_ends() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stop_on_interrupt() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wait(5)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_outside_of_the_main_thread_nothing_is_changed() -> None:
    before = signal.getsignal(signal.SIGINT)
    inside: list[object] = []

    def run() -> None:
        with stop_on_interrupt() as stop:
            inside.extend([stop.is_set(), signal.getsignal(signal.SIGINT)])

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert inside == [False, before]
