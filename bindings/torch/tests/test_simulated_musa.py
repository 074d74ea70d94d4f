"""Every operator with all tensors on `musa`: the simulated mp_31, not hardware."""

import subprocess
import sys

import pytest
import torch

import cases
import musaic.simulated_musa as simulated
import musaic.torch

MUSA = torch.device("musa")
OURS = [n for n in musaic.torch.operators() if n in cases.CASES]
THEIRS = [n for n in musaic.torch.aliases() if n in cases.UPSTREAM]
CALLS = [("musaic", n, cases.CASES[n]) for n in OURS] + [("sgl_kernel", n, cases.UPSTREAM[n]) for n in THEIRS]
IDS = [f"{s}.{n}" for s, n, _ in CALLS]
# Across backends these agree within a tolerance (their contract says so), all others byte for byte.
STABLE = {"paged_attention"}
without_gpu_form = []


def test_it_says_what_it_is():
    assert torch.musa.get_device_name() == "simulated mp_31, not hardware" == simulated.DESCRIPTION
    assert torch.musa.get_device_capability() == (3, 1) and torch.musa.is_available()


@pytest.mark.parametrize("namespace,name,make", CALLS, ids=IDS)
def test_runs_on_the_executor_with_the_bits_of_the_host(namespace, name, make):
    op = cases.operator(namespace, name)
    torch.manual_seed(1)
    expected = cases.results(op, make())
    arguments = cases.to(make(), MUSA)
    before = simulated.launch_count()
    torch.manual_seed(1)
    try:
        got = cases.results(op, arguments)
    except ValueError as error:
        if "a backend that has this operator" not in str(error):
            raise
        without_gpu_form.append(f"{namespace}.{name}")
        pytest.skip("this operator has no GPU form yet")
    torch.musa.synchronize()
    assert simulated.launch_count() > before
    for a, b in zip(got, expected, strict=True):
        assert a.device.type == "musa"
        if name in STABLE:
            torch.testing.assert_close(a.cpu(), b, rtol=1e-5, atol=1e-5, equal_nan=True)
        else:
            assert cases.same_bytes(a, b)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_dtypes(dtype):
    x, w, out = cases.randn(9, 131, dtype=dtype), cases.randn(131, dtype=dtype), cases.poison(9, 131, dtype=dtype)
    on_musa = [t.to(MUSA) for t in (out, x, w)]
    torch.ops.musaic.rmsnorm(out, x, w)
    torch.ops.musaic.rmsnorm(*on_musa)
    assert cases.same_bytes(on_musa[0], out)


def test_current_stream_and_device():
    x = cases.randn(3, 8)
    out = torch.empty(3, 8)
    torch.ops.musaic.rmsnorm(out, x, torch.ones(8))
    second = [t.to("musa:1") for t in (torch.empty(3, 8), x, torch.ones(8))]
    assert torch.musa.current_device() == 0
    torch.ops.musaic.rmsnorm(*second)
    assert torch.musa.current_device() == 0
    assert cases.same_bytes(second[0], out)
    stream = torch.Stream(device="musa:0")
    first = [t.to("musa:0") for t in (torch.empty(3, 8), x, torch.ones(8))]
    torch.musa.synchronize()
    with stream:
        torch.ops.musaic.rmsnorm(*first)
        assert cases.same_bytes(first[0], out)


def test_wrong_calls():
    x, w, out = torch.zeros(2, 4, device=MUSA), torch.zeros(3, device=MUSA), torch.zeros(2, 4, device=MUSA)
    before = simulated.launch_count()
    with pytest.raises(ValueError, match=r"rmsnorm: weight: shape \[3\], expected \[hidden_size=4\]"):
        torch.ops.musaic.rmsnorm(out, x, w)
    with pytest.raises(ValueError, match="rmsnorm: .*device"):
        torch.ops.musaic.rmsnorm(out, x.cpu(), torch.zeros(4))
    assert simulated.launch_count() == before
    torch.ops.musaic.rmsnorm(torch.empty(0, 4, device=MUSA), torch.empty(0, 4, device=MUSA), torch.zeros(4, device=MUSA))


def test_torch_itself_on_the_device():
    a = torch.arange(12, device=MUSA).reshape(3, 4)
    assert a[:, 1:3].t().contiguous().cpu().tolist() == [[1, 5, 9], [2, 6, 10]]
    a[1] += 5
    assert a.sum().item() == 66 + 20
    assert torch.cat([a, a]).shape == (6, 4) and torch.ones(2, device=MUSA).add_(1).tolist() == [2, 2]
    strided = torch.zeros(4, 6, device=MUSA)
    strided[:, ::2].copy_(torch.ones(4, 3))
    assert strided.cpu().tolist() == [[1, 0, 1, 0, 1, 0]] * 4


def test_it_refuses_where_torch_musa_is(tmp_path):
    (tmp_path / "torch_musa").mkdir()
    (tmp_path / "torch_musa" / "__init__.py").write_text("raise RuntimeError('never imported')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport musaic.torch\nimport musaic.simulated_musa"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0 and "torch_musa is installed here" in done.stderr


def test_which_operators_have_no_gpu_form(capsys):
    with capsys.disabled():
        print(f"\n   without a GPU form yet: {', '.join(without_gpu_form) or 'none'}")
