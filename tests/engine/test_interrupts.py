import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from localjudge.engine.llamacpp.model import delayed_interrupts, llama_cpp, open_model
from tests.engine.conftest import ModelMaker

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_raised_after_the_block(number: signal.Signals) -> None:
    """Like a native call, the block runs to its end."""
    reached = []

    def native_call() -> None:
        with delayed_interrupts():
            signal.raise_signal(number)
            reached.append("the end of the block")

    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt):
        native_call()
    assert reached == ["the end of the block"]
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("handlers")
def test_an_ignored_signal_stays_ignored(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    with delayed_interrupts():
        signal.raise_signal(number)
    assert signal.getsignal(number) is signal.SIG_IGN


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("handlers")
def test_a_signal_reaches_the_handler_of_the_host_after_the_block(number: signal.Signals) -> None:
    """A web server stops in its own way on SIGTERM. Two signals in the block are one."""
    order: list[str] = []
    signal.signal(number, lambda *_: order.append("handler"))
    with delayed_interrupts():
        signal.raise_signal(number)
        signal.raise_signal(number)
        order.append("block")
    assert order == ["block", "handler"]


def test_an_interrupt_waits_until_a_model_is_loaded(
    make_model: ModelMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make_model("llama")
    load = llama_cpp.llama_model_load_from_file
    loaded = []

    def interrupted(*arguments: object) -> object:
        signal.raise_signal(signal.SIGINT)
        loaded.append(load(*arguments))
        return loaded[0]

    monkeypatch.setattr(llama_cpp, "llama_model_load_from_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_model(file.path, gpu_layers=0)
    assert len(loaded) == 1
    llama_cpp.llama_model_free(loaded[0])
    monkeypatch.undo()
    with closing(open_model(file.path, gpu_layers=0)) as model:
        assert model.vocabulary.size


def test_other_threads_load_models_too() -> None:
    """Only the main thread may set signal handlers."""

    def work() -> bool:
        with delayed_interrupts():
            return True

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(work).result()
