#!/usr/bin/env python3
"""Compares musaic's logits with a plain NumPy float64 forward pass of the same model.

    oracle.py --musaic build/release/musaic --model model.gguf

A: the pass quantises the activations of products as musaic does: blocks of 32, codes of 8 bits.
   Bound: max |delta logit| <= 1e-3 * max |logit| over all positions.
   Rounding to codes is not continuous: a change of 1e-7 in the input flips enough codes to move the logits of this
   very pass by some percent, as much as quantisation itself does. So where a value lies within 0.02 of a step of the
   border between two codes, the pass takes the code that musaic took; everything else must agree by itself. musaic
   writes the inputs of its products for this. Bound: no code differs elsewhere.
B: activations stay float64. Bound: the same most probable token at 95 % of 200 or more positions; the
   Kullback-Leibler divergence is reported.

Weights are unpacked by the package gguf; text is cut into tokens by musaic. Needs numpy and gguf. Exit status 1
when a bound is missed.

Without --model, tiny models with random weights that musaic writes stand in, of several types, with and without an
output matrix of their own and biases; then A alone is checked, since random models have no sure tokens.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

PLAIN = {"F32", "F16", "BF16"}  # formats whose activations musaic does not quantise

TEXTS = [
    "The sky is blue because molecules of air scatter the short waves of sunlight more than the long ones. At sunset "
    "the light takes a longer way through the air, most of the blue is scattered out of it, and what is left looks "
    "orange or red. On the Moon, which has no air, the sky is black even at noon.",
    "def fibonacci(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a\n\n"
    "print([fibonacci(i) for i in range(10)])  # [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]\n",
    "Dear Anna, thank you for your letter of 3 March 2024. The parcel (2.5 kg, 40 x 30 x 20 cm) has arrived; it cost "
    "$17.80. Could you tell me, please, whether the second one is on its way? Yours, Tom.",
    "Paris is the capital of France, Berlin of Germany, Madrid of Spain. 北京是中国的首都。Moskau ist die Hauptstadt.",
]


class Llama:
    """Shapes, weights and the forward pass."""

    def __init__(self, path):
        reader = GGUFReader(path)
        self.tensors = {t.name: t for t in reader.tensors}

        def value(key, otherwise=None):
            field = reader.fields.get("llama." + key)
            return otherwise if field is None else field.contents()

        self.codes = Codes()
        self.layers = value("block_count")
        self.inner = value("feed_forward_length")
        self.hidden = value("embedding_length")
        self.heads = value("attention.head_count")
        self.kv_heads = value("attention.head_count_kv", self.heads)
        self.head_dim = value("attention.key_length", self.hidden // self.heads)
        self.rotary = value("rope.dimension_count", self.head_dim)
        self.base = value("rope.freq_base", 10000.0)
        self.factor = value("rope.scaling.factor", 1.0) if value("rope.scaling.type") == "linear" else 1.0
        self.eps = value("attention.layer_norm_rms_epsilon")

    def weight(self, name):
        """float64 [rows, columns], and whether musaic quantises the activations."""
        t = self.tensors[name]
        return dequantize(t.data, t.tensor_type).astype(np.float64), t.tensor_type.name not in PLAIN

    def vector(self, name):
        return self.tensors[name].data.astype(np.float64)

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.vector(name)

    def product(self, states, seen, name):
        """Of each state; the first one is quantised, with `seen` to break ties, if musaic quantises it."""
        w, quantised = self.weight(name + ".weight")
        bias = self.vector(name + ".bias") if name + ".bias" in self.tensors else 0.0
        emulated, exact = states
        return [(self.codes.a8(emulated, seen) if quantised else emulated) @ w.T + bias, exact @ w.T + bias]

    def rope(self, x, positions):
        pairs = np.arange(self.rotary // 2)
        frequency = self.base ** (-2.0 * pairs / self.rotary) / self.factor
        if "rope_freqs.weight" in self.tensors:
            frequency = frequency / self.vector("rope_freqs.weight")
        angle = positions[:, None, None] * frequency
        even, odd = x[..., 0:self.rotary:2], x[..., 1:self.rotary:2]
        out = x.copy()
        out[..., 0:self.rotary:2] = even * np.cos(angle) - odd * np.sin(angle)
        out[..., 1:self.rotary:2] = odd * np.cos(angle) + even * np.sin(angle)
        return out

    def attend(self, q, k, v, positions, prompt):
        shape = (len(q), -1, self.head_dim)
        q, k, v = (self.rope(q.reshape(shape), positions), self.rope(k.reshape(shape), positions), v.reshape(shape))
        group = self.heads // self.kv_heads
        seen = (prompt[:, None] == prompt[None, :]) & (positions[:, None] >= positions[None, :])
        out = np.empty_like(q)
        for h in range(self.heads):
            score = q[:, h] @ k[:, h // group].T / np.sqrt(self.head_dim)
            score = np.where(seen, score, -np.inf)
            p = np.exp(score - score.max(-1, keepdims=True))
            out[:, h] = p / p.sum(-1, keepdims=True) @ v[:, h // group]
        return out.reshape(len(q), -1)

    def logits(self, prompts, trace):
        """Of every position of every prompt: with emulated products, and with exact activations.

        `trace` gives the inputs of musaic's products, in the order of the computation.
        """
        ids = np.concatenate(prompts)
        prompt = np.concatenate([np.full(len(p), i) for i, p in enumerate(prompts)])
        positions = np.concatenate([np.arange(len(p)) for p in prompts]).astype(np.float64)
        embedding = self.tensors["token_embd.weight"]
        start = dequantize(embedding.data[ids], embedding.tensor_type).astype(np.float64)
        residual = [start, start]
        for i in range(self.layers):
            p = f"blk.{i}."
            x, seen = [self.norm(r, p + "attn_norm.weight") for r in residual], next(trace)
            qkv = zip(*(self.product(x, seen, p + name) for name in ("attn_q", "attn_k", "attn_v")))
            x, seen = [self.attend(q, k, v, positions, prompt) for q, k, v in qkv], next(trace)
            residual = [r + y for r, y in zip(residual, self.product(x, seen, p + "attn_output"))]
            x, seen = [self.norm(r, p + "ffn_norm.weight") for r in residual], next(trace)
            gate, up = self.product(x, seen, p + "ffn_gate"), self.product(x, seen, p + "ffn_up")
            x, seen = [g / (1.0 + np.exp(-g)) * u for g, u in zip(gate, up)], next(trace)
            residual = [r + y for r, y in zip(residual, self.product(x, seen, p + "ffn_down"))]
        x, seen = [self.norm(r, "output_norm.weight") for r in residual], next(trace)
        return self.product(x, seen, "output" if "output.weight" in self.tensors else "token_embd")


class Codes:
    """Activations as musaic's products see them, and a count of the codes that were not plain."""

    TIE = 0.02  # of a step

    def __init__(self):
        self.total = self.ties = self.wrong = 0

    @staticmethod
    def blocks(x):
        return np.pad(x, ((0, 0), (0, -x.shape[1] % 32))).reshape(len(x), -1, 32)

    @staticmethod
    def musaic(blocks):
        """The codes that musaic takes, from the contract of ggml_mul_mat_a8, to the bit."""
        scale = np.abs(blocks).max(-1, keepdims=True) / np.float32(127)
        steps = blocks * np.divide(np.float32(1), scale, where=scale > 0, out=np.zeros_like(scale))
        return np.trunc(steps + np.copysign(np.float32(float.fromhex("0x1.fffffep-2")), steps))

    def a8(self, x, seen):
        blocks = self.blocks(x)
        scale = np.abs(blocks).max(-1, keepdims=True) / 127
        steps = np.divide(blocks, scale, where=scale > 0, out=np.zeros_like(blocks))
        codes, other = np.copysign(np.floor(np.abs(steps) + 0.5), steps), self.musaic(self.blocks(seen))
        differ = codes != other
        # Both codes are next to the border if the value is: half a step, and the tolerance, from the other one.
        wrong = differ & (np.abs(steps - other) > 0.5 + self.TIE)
        self.total += codes.size
        self.ties += int(differ.sum())
        self.wrong += int(wrong.sum())
        return (np.where(differ & ~wrong, other, codes) * scale).reshape(len(x), -1)[:, :x.shape[1]]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[:2])} failed: {done.stderr.strip()}")
    return done.stdout


def tokens_of(musaic, model, text):
    out = run([musaic, "generate", "--model", model, "--raw", "--tokens", "0", "--json", text])
    return np.array(json.loads(out)["answers"][0]["prompt_tokens"])


def musaic_logits(musaic, model, prompts):
    """Logits of all positions, and an iterator over the inputs of the products."""
    logits, traces = [], []
    with tempfile.TemporaryDirectory() as folder:
        out, trace = os.path.join(folder, "logits.npy"), os.path.join(folder, "trace")
        for ids in prompts:
            run([musaic, "logits", "--model", model, "--tokens", ",".join(map(str, ids)), "--out", out,
                 "--pass-tokens", str(len(ids)), "--trace", trace])
            logits.append(np.load(out).astype(np.float64))
            traces.append(np.fromfile(trace, dtype=np.float32))

    def inputs(llama):
        at = 0  # in values of one token
        widths = [llama.hidden, llama.heads * llama.head_dim, llama.hidden, llama.inner] * llama.layers + [llama.hidden]
        for width in widths:
            yield np.concatenate([t[at * len(p):(at + width) * len(p)].reshape(len(p), width)
                                  for t, p in zip(traces, prompts)])
            at += width

    return np.concatenate(logits), inputs


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def compare(musaic, model, name, both):
    """True when the bounds hold; B is checked if `both`."""
    start = time.time()
    prompts = [tokens_of(musaic, model, text) for text in TEXTS]
    got, inputs = musaic_logits(musaic, model, prompts)
    llama = Llama(model)
    emulated, exact = llama.logits(prompts, inputs(llama))
    codes = llama.codes

    delta = np.abs(got - emulated).max() / np.abs(emulated).max()
    ok = bool(delta <= 1e-3) and codes.wrong == 0
    print(f"{name}\n  A: {len(got)} positions, max |delta logit| = {delta:.2e} of max |logit| = "
          f"{np.abs(emulated).max():.2f} (bound 1e-3); {codes.total} codes, {codes.ties} at a border, {codes.wrong} wrong: "
          f"{'ok' if ok else 'MISSED'}")
    if both:
        agree = (got.argmax(-1) == exact.argmax(-1)).mean()
        p, q = log_softmax(exact), log_softmax(got)
        kl = (np.exp(p) * (p - q)).sum(-1)
        ok_b = bool(agree >= 0.95 and len(got) >= 200)
        print(f"  B: {len(got)} positions, the same most probable token at {100 * agree:.1f} % (bound 95 %), "
              f"KL mean {kl.mean():.2e}, max {kl.max():.2e} nats: {'ok' if ok_b else 'MISSED'}")
        ok = ok and ok_b
    print(f"  {time.time() - start:.0f} s", flush=True)
    return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--musaic", required=True)
    parser.add_argument("--model")
    args = parser.parse_args()
    if args.model:
        return 0 if compare(args.musaic, args.model, os.path.basename(args.model), True) else 1
    ok = True
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tiny.gguf")
        for variant in (["--type", "Q4_1"], ["--type", "Q8_0", "--untied"], ["--type", "F32", "--biases"]):
            run([args.musaic, "tiny-model", path, "--seed", str(time.time_ns() % 2**32), *variant])
            ok = compare(args.musaic, path, "tiny model " + " ".join(variant), False) and ok
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
