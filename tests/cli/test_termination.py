import os
import signal
import threading

import pytest

from agentctx.cli.termination import defer_termination, end_on_termination, stop_on_interrupt


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_ends_the_block_and_later_ones_are_ignored(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    tidied = []

    def work() -> None:
        try:
            os.kill(os.getpid(), number)
        finally:
            os.kill(os.getpid(), number)
            tidied.append(True)

    with pytest.raises(SystemExit) as caught, end_on_termination():
        work()
    assert caught.value.code == 128 + number
    assert tidied
    assert signal.getsignal(number) == before


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with end_on_termination():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_starting_process_is_recorded_before_a_signal_takes_effect(number: signal.Signals) -> None:
    begun = []

    def work() -> None:
        with defer_termination():
            os.kill(os.getpid(), number)
            begun.append(True)

    with pytest.raises(SystemExit) as caught, end_on_termination():
        work()
    assert caught.value.code == 128 + number
    assert begun


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
