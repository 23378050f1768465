import pytest

torch = pytest.importorskip("torch", reason="PyTorch trains the reader, and is not installed")

from reader_recipe import network  # noqa: E402  the import needs PyTorch


def reader() -> "network.Reader":
    torch.manual_seed(0)
    result = network.Reader(torch.randn(50, network.WIDTH))
    with torch.no_grad():
        for parameter in result.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.05)
    return result


def test_padding_changes_no_logit() -> None:
    tokens = torch.tensor([[3, 4, 5, 6]])
    padded = torch.tensor([[3, 4, 5, 6, 1, 1]])
    mask = torch.tensor([0.0, 0.0, 0.0, 0.0, float("-inf"), float("-inf")])[None, None, None]
    with torch.no_grad():
        alone = reader()(tokens, None)
        beside = reader()(padded, mask)
    assert float(alone[0]) == pytest.approx(float(beside[0]), abs=1e-5)


def test_frozen_layers_get_no_gradient_and_the_others_do() -> None:
    model = reader()
    model.freeze(4)
    model(torch.tensor([[3, 4, 5]]), None).sum().backward()
    assert all(parameter.grad is not None for parameter in model.trained())
    assert all(parameter.grad is None for parameter in model.blk[:4].parameters())


def test_names_in_the_file_are_those_of_llama_cpp() -> None:
    names = {name for name, _ in network.gguf_names(reader())}
    expected = {"position_embd.weight", "token_types.weight", "blk.0.attn_q.weight"}
    expected |= {"blk.11.ffn_down.bias", "cls.weight", "cls.output.bias"}
    assert expected <= names
