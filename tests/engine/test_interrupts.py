"""An interrupt during a native call is not lost."""

import signal
import threading

import pytest

from localjudge.engine.llamacpp.interrupts import interrupts_held_back


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_raised_behind_the_block(number: signal.Signals) -> None:
    """The block runs to its end, as a native call does; then the interrupt counts."""
    reached = []

    def native_call() -> None:
        with interrupts_held_back():
            signal.raise_signal(number)
            reached.append("the end of the block")

    with pytest.raises(KeyboardInterrupt):
        native_call()
    assert reached == ["the end of the block"]


def test_the_handlers_are_put_back() -> None:
    """What the program does about signals elsewhere is its own business."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with interrupts_held_back():
        pass
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_other_threads_load_models_too() -> None:
    """Only the main thread may set handlers; elsewhere nothing is held back."""
    done = []

    def work() -> None:
        with interrupts_held_back():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
