"""Each rule for MUSA kernel sources finds its planted breach, on the right line, and is silent on the right form."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import musa_static_rules as rules  # noqa: E402  pylint: disable=wrong-import-position

# rule: (breaches, right forms)
CASES = {
    "asm": (['asm volatile("x");', '__asm__("");'], ["int asm_count;", "// asm"]),
    "warp-size": (["int lane = threadIdx.x % warpSize;", "launch(prop.warpSize);"], ["int hardware_warp_size;"]),
    "cuda-macro": (["#if __CUDA_ARCH__ >= 800", "#ifdef __CUDACC__", "#ifdef __NVCC__"], ["#if defined(__MUSA_ARCH__)"]),
    "system-atomic": (["atomicAdd_system(p, 1);", "atomicCAS_system(p, 0, 1);"], ["atomicAdd(p, 1);"]),
    "signed-64-bit-add": (["atomicAdd(reinterpret_cast<long long*>(p), v);", "atomicAdd((std::int64_t*)p, v);"],
                          ["atomicAdd(reinterpret_cast<unsigned long long*>(p), v);"]),
    "half-math": (["y = hexp2(x);", "y = __hadd(a, b);", "y = h2rcp(x);", "y = __hfma2(a, b, c);", "b = __hgt2(a, b);"],
                  ["y = __half2float(x);", "y = __float2half_rn(x);", "hash(x);"]),
    "musacc-value": (["#if __MUSACC__", "#elif X && __MUSACC__ > 3"], ["#if defined(__MUSACC__)", "#ifdef __MUSACC__", "#elif defined __MUSACC__"]),
    "extern-device": (["extern __device__ float table[3];", "extern const __constant__ int c;"], ["extern __shared__ char dynamic[];"]),
    "wide-mask": (["v = __shfl_xor_sync(0xffffffffffffffffull, v, 1, 32);", "m = ~0ull;"], ["m = 0xffffffffu;"]),
    "grid-constant": (["__global__ void k(const __grid_constant__ A a);"], ["__global__ void k(const A a);"]),
    "nanosleep": (["__nanosleep(10);"], ["sleep(1);"]),
    "async-memory": (["musaMallocAsync(&p, 1, s);", "musaMemPoolTrimTo(p, 0);"], ["musaMalloc(&p, 1);"]),
    "exchange": (["v = __shfl_xor_sync(m, v, 1);", "v = __shfl_down_sync(m, f(a, b), 1u, 64);", "v = __shfl_sync(m, v, 0, width);",
                  "v = __shfl_xor(v, 1);", "v = __shfl_xor_sync(m,\n  v, 1);"],
                 ["v = __shfl_xor_sync(m, v, 1, 32);", "v = __shfl_sync(m, f(a, b), g(1, 2), 8);", "v = __shfl_up_sync(m, v, 1u, kWarpLanes);"]),
    "constants": (["__constant__ float t[2049];", "__constant__ int a[1024];\n__constant__ double b[1024];"],
                  ["__constant__ float t[2048];", "__constant__ int a[1024];"]),
    "shared-memory": (["__shared__ float t[18433];", "__shared__ float4 t[72][65];"], ["__shared__ float t[18432];"]),
    "restrict-member": (["struct A {\n  float* __restrict__ p;\n};", "struct A { int n; const float* __restrict p = nullptr; };"],
                        ["void f(float* __restrict__ p);", "struct A { void f(float* __restrict__ p) { float* __restrict__ q = p; } };"]),
    "light-barrier": (["__syncthreads_lm();", "void sync_shared() {\n  __syncthreads_lm();\n}\n"], ["__syncthreads();"]),
}


def found(text, name="device/planted.h"):
    return [(line, rule) for line, rule, _ in rules.breaches(name, text)]


class Rules(unittest.TestCase):
    def test_planted(self):
        for rule, (wrong, right) in CASES.items():
            for text in wrong:
                with self.subTest(rule=rule, text=text):
                    hits = [line for line, r in found("\n\n" + text) if r == rule]
                    self.assertTrue(hits, "not found")
                    self.assertIn(hits[0], range(3, 4 + text.count("\n")))
            for text in right:
                with self.subTest(rule=rule, text=text):
                    self.assertEqual([], [r for _, r in found(text)])

    def test_all_rules_are_planted(self):
        emitted = {rule for rule, _, _ in rules.PATTERNS}
        emitted |= {"exchange", "constants", "shared-memory", "restrict-member", "light-barrier"}
        self.assertEqual(emitted, set(CASES))

    def test_wrapper_may_use_the_light_barrier(self):
        text = "MUSAIC_FN void sync_shared() {\n  __syncthreads_lm();\n}\n"
        self.assertEqual([], found(text, "backends/musa/primitives.h"))
        self.assertEqual([(4, "light-barrier")], found(text + "void f() { __syncthreads_lm(); }", "backends/musa/primitives.h"))

    def test_comments_and_strings_are_no_code(self):
        self.assertEqual([], found('// asm warpSize\n/* __syncthreads_lm\n atomicAdd_system */ const char* s = "asm __CUDA_ARCH__";'))

    def test_kernel_sources_keep_the_rules(self):
        files = rules.sources(ROOT)
        self.assertGreater(len(files), 10)
        for path in files:
            name = path.relative_to(ROOT).as_posix()
            with self.subTest(name):
                self.assertEqual([], list(rules.breaches(name, path.read_text())))


if __name__ == "__main__":
    unittest.main()
