#!/usr/bin/env python3
"""Times the sampling operators beside FlashInfer's, in one run: against_flashinfer.py [--quick] [--csv FILE]

Needs PyTorch with CUDA, flashinfer-python, and a shared libmusaic built with MUSAIC_CUDA (MUSAIC_LIBRARY names it, if the
musaic package does not bring its own). A cell is the time of one call, the median over replays of a CUDA graph of up to 16
calls over different rows. The copy bandwidth of the same run stands above the table.
"""

import argparse
import csv
import itertools
import statistics
import sys

import flashinfer
import flashinfer.sampling
import torch

import musaic

K, P, MIN_P = 50, 0.9, 0.05


def rows(kind, n, vocabulary):
    generator = torch.Generator("cuda").manual_seed(vocabulary)
    if kind == "constant":
        return torch.full((n, vocabulary), 1 / vocabulary, device="cuda")
    if kind == "rising":
        return torch.softmax(torch.arange(vocabulary, device="cuda") * (8 / vocabulary), -1).repeat(n, 1)
    x = torch.randn(n, vocabulary, device="cuda", generator=generator)
    if kind == "flat":
        x *= 0.05
    elif kind == "model":
        heads = torch.rand(n, vocabulary, device="cuda", generator=generator) < 1 / 2000
        x = 2 * x + heads * (4 + 6 * torch.rand(n, vocabulary, device="cuda", generator=generator) ** 2)
    elif kind == "peaked":
        x *= 5
    elif kind == "one-hot":
        x[torch.arange(n), torch.randint(vocabulary, (n,), device="cuda", generator=generator)] = 40
    return torch.softmax(x, -1)


def operators(vocabulary):
    """name: (ours, theirs), each called with rows, outputs and seeds."""
    fi, call = flashinfer.sampling, musaic.call

    def draw(**parameters):
        def run(probs, out, tokens, seed, offset):
            call("sampling_from_probs", tokens=tokens, valid=None, probs=probs, indices=None, seed=seed, offset=offset,
                 subsequence=offset, stream=torch.cuda.current_stream().cuda_stream, **parameters)
        return run

    def rewrite(name, **parameters):
        def run(probs, out, tokens, seed, offset):
            call(name, out, probs, stream=torch.cuda.current_stream().cuda_stream, **parameters)
        return run

    return {
        "top-k top-p sampling": (draw(top_k_scalar=K, top_p_scalar=P),
                                 lambda p, *_: fi.top_k_top_p_sampling_from_probs(p, K, P, filter_apply_order="joint", seed=1, offset=2)),
        "top-p sampling": (draw(top_p_scalar=P), lambda p, *_: fi.top_p_sampling_from_probs(p, P, seed=1, offset=2)),
        "min-p sampling": (draw(min_p_scalar=MIN_P), lambda p, *_: fi.min_p_sampling_from_probs(p, MIN_P, seed=1, offset=2)),
        "sampling": (draw(), lambda p, *_: fi.sampling_from_probs(p, seed=1, offset=2)),
        "top-k renorm": (rewrite("top_k_renorm_probs", top_k_scalar=K), lambda p, *_: fi.top_k_renorm_probs(p, K)),
        "top-p renorm": (rewrite("top_p_renorm_probs", top_p_scalar=P), lambda p, *_: fi.top_p_renorm_probs(p, P)),
        "top-k mask": (rewrite("top_k_mask_logits", top_k_scalar=K), lambda p, *_: fi.top_k_mask_logits(p, K)),
        "softmax": (rewrite("softmax"), lambda p, *_: fi.softmax(p)),
    }


def time_us(function, batches):
    """Of one call; the graph goes through the batches."""
    function(*batches[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for batch in batches:
            function(*batch)
    times = []
    for i in range(8):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        if i > 1:
            times.append(begin.elapsed_time(end) * 1000 / len(batches))
    return statistics.median(times)


def copy_bytes_per_s():
    a = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    us = time_us(lambda x, y: y.copy_(x), [(a, b)])
    return 2 * a.numel() / us * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one vocabulary and four batch sizes")
    parser.add_argument("--csv", help="writes the figures to this file")
    parser.add_argument("--op", action="append", help="this operator alone; may be given again")
    arguments = parser.parse_args()
    vocabularies = [128256] if arguments.quick else [32000, 128256, 151936, 262144]
    sizes = [1, 8, 64, 512] if arguments.quick else [1, 8, 64, 256, 512, 1024]
    kinds = ["model", "flat", "peaked", "one-hot", "constant", "rising"]
    print(f"{torch.cuda.get_device_name()}, flashinfer {flashinfer.__version__}, torch {torch.__version__}")
    print(f"a copy moves {copy_bytes_per_s() / 1e12:.2f} TB/s (read and written)")
    ratios, table = {}, []
    for vocabulary, kind in itertools.product(vocabularies, kinds):
        probs = rows(kind, max(sizes), vocabulary)
        out = torch.empty_like(probs)
        tokens = torch.empty(max(sizes), dtype=torch.int32, device="cuda")
        seed = torch.arange(max(sizes), device="cuda")
        for name, (ours, theirs) in operators(vocabulary).items():
            if arguments.op and name not in arguments.op:
                continue
            for n in sizes:
                calls = min(16, max(sizes) // n)
                batches = [tuple(t[i * n:(i + 1) * n] for t in (probs, out, tokens, seed, seed)) for i in range(calls)]
                our_us, their_us = time_us(ours, batches), time_us(theirs, batches)
                ratios.setdefault(name, []).append((their_us / our_us, f"{n} x {vocabulary} {kind}"))
                table.append([name, kind, n, vocabulary, round(our_us, 2), round(their_us, 2), round(their_us / our_us, 2)])
                print(f"{name:22} {kind:9} {n:5} x {vocabulary:6}  {our_us:9.2f} us, FlashInfer {their_us:9.2f}: {their_us / our_us:5.2f}x",
                      flush=True)
    for name, values in ratios.items():
        worst = min(values)
        print(f"{name}: geometric mean {statistics.geometric_mean(v for v, _ in values):.2f}x, worst {worst[0]:.2f}x at {worst[1]}")
    if arguments.csv:
        with open(arguments.csv, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["operator", "rows", "batch", "vocabulary", "us", "flashinfer_us", "ratio"])
            writer.writerows(table)


if __name__ == "__main__":
    sys.exit(main())
