#!/usr/bin/env python3
"""Measures `musaic` against llama.cpp on the same GGUF file, in one run.

    PYTHON_WITH_LLAMA_CPP bench/against_llama_cpp.py --musaic build/release/musaic --model model.gguf

Both read a prompt of the same number of tokens, then generate greedily. They take turns, one process a turn; the
medians are compared. Needs the package llama-cpp-python. Prints a table, and JSON with --json. Exit status 1 if decode
is slower than --decode-bar times llama.cpp.
"""

import argparse
import json
import statistics
import subprocess
import sys


def time_llama_cpp(args):
    """One turn, in a process of its own: tokens per second of prefill and decode."""
    import ctypes
    import time

    import llama_cpp as lib

    lib.llama_backend_init()
    quiet = lib.llama_log_callback(lambda level, text, data: None)
    lib.llama_log_set(quiet, ctypes.c_void_p(0))
    model = lib.llama_model_load_from_file(args.model.encode(), lib.llama_model_default_params())
    vocab_size = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    params = lib.llama_context_default_params()
    params.n_ctx = args.prompt_tokens + args.tokens + 16
    params.n_batch = params.n_ubatch = 512
    params.n_threads = params.n_threads_batch = args.threads
    context = lib.llama_init_from_model(model, params)
    sampler = lib.llama_sampler_init_greedy()

    def decode(tokens):
        array = (lib.llama_token * len(tokens))(*tokens)
        if lib.llama_decode(context, lib.llama_batch_get_one(array, len(tokens))) != 0:
            sys.exit("llama_decode failed")
        return lib.llama_sampler_sample(sampler, context, -1)

    prompt = [(i * 104729 + 17) % vocab_size for i in range(args.prompt_tokens)]

    def turn(prompt_part, count):
        lib.llama_memory_clear(lib.llama_get_memory(context), True)
        start = time.perf_counter()
        token = decode(prompt_part)
        prefill = time.perf_counter()
        for _ in range(count):
            token = decode([token])
        return prefill - start, time.perf_counter() - prefill

    turn(prompt[:8], 8)
    prefill, generation = turn(prompt, args.tokens - 1)
    print(json.dumps({"prefill_tokens_per_s": args.prompt_tokens / prefill,
                      "decode_tokens_per_s": (args.tokens - 1) / generation}))


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--musaic", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt-tokens", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--decode-bar", type=float, default=1.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--turn", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.turn:
        return time_llama_cpp(args)

    sizes = ["--model", args.model, "--threads", str(args.threads), "--prompt-tokens", str(args.prompt_tokens),
             "--tokens", str(args.tokens)]
    commands = {"musaic": [args.musaic, "bench-generate", *sizes, "--json"],
                "llama.cpp": [sys.executable, __file__, "--turn", "--musaic", args.musaic, *sizes]}
    seen = {name: [] for name in commands}
    for _ in range(args.repeats):
        for name, command in commands.items():
            seen[name].append(run(command))

    result = {"threads": args.threads, "prompt_tokens": args.prompt_tokens, "tokens": args.tokens,
              "repeats": args.repeats}
    for kind in ("prefill", "decode"):
        speeds = {name: [turn[kind + "_tokens_per_s"] for turn in turns] for name, turns in seen.items()}
        medians = {name: statistics.median(values) for name, values in speeds.items()}
        result[kind] = {"tokens_per_s": medians, "ratio": medians["musaic"] / medians["llama.cpp"]}
        if not args.json:
            for name, values in speeds.items():
                print(f"{kind:8} {name:10} {medians[name]:8.1f} tokens/s   ({min(values):.1f} to {max(values):.1f})")
            print(f"{kind:8} ratio      {result[kind]['ratio']:8.2f}")
    if args.json:
        print(json.dumps(result))
    return 0 if result["decode"]["ratio"] >= args.decode_bar else 1


if __name__ == "__main__":
    sys.exit(main())
