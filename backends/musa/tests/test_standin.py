"""The stand-in compiler accepts what public MUSA code does and refuses each planted mistake by name."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import recipe  # noqa: E402  pylint: disable=wrong-import-position

MCC = HERE.parent / "standin" / "mcc"
EXAMPLE = HERE / "vector_add.mu"


def mcc(arguments):
    return subprocess.run([str(MCC), *arguments], capture_output=True, text=True)


class Base(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.object = os.path.join(self.folder.name, "unit.o")

    def compile(self, text, target="mp_31", syntax_only=False):
        source = pathlib.Path(self.folder.name) / "unit.mu"
        source.write_text("#include <musa_fp16.h>\n#include <musa_runtime.h>\n" + text)
        mode = ["-fsyntax-only"] if syntax_only else ["-c", "-o", self.object]
        return mcc([*recipe.flags(target), *mode, str(source)])

    def refused(self, result, *words):
        self.assertNotEqual(result.returncode, 0, "was accepted")
        for word in words:
            self.assertIn(word, result.stderr)

    def accepted(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)


class Example(Base):
    def test_public_style_example_compiles_and_its_kernels_are_in_the_object(self):
        for target in ("mp_22", "mp_31"):
            self.accepted(mcc([*recipe.flags(target), "-c", "-o", self.object, str(EXAMPLE)]))
            self.assertEqual(sorted(recipe.kernels_in(self.object)),
                             ["vector_add(float const*, float const*, float*, int)",
                              "void block_sums<float>(float const*, float*, int)"])

    def test_flags_of_other_public_builds(self):
        flags = ["-x", "musa", "-mtgpu", "--cuda-gpu-arch=mp_22", "-std=c++20", "-O2", "-Od3", "-fPIC", "-ffast-math",
                 "-fmusa-flush-denormals-to-zero", "-fno-signed-zeros", "-mathx-disable-fp64"]
        self.accepted(mcc([*flags, "-fsyntax-only", str(EXAMPLE)]))


class Flags(Base):
    def test_wrong_flags_are_refused_by_name(self):
        for flag in ("--use_fast_math", "-arch=mp31", "-ptx", "-dc", "--extended-lambda", "--expt-relaxed-constexpr",
                     "-fmusa-rdc", "-fno-signed-char", "-O0", "-O9", "-Od9", "-std=gnu++17", "-fmad=false", "-march=native",
                     "-ffp-contract=fast", "--ptxas-options=-v", "-mtgpu-opt-level=1", "-W-typo"):
            with self.subTest(flag):
                self.refused(mcc([*recipe.flags("mp_31"), flag, "-fsyntax-only", str(EXAMPLE)]), f"'{flag}'")

    def test_each_flag_of_the_recipe_is_needed_to_be_spelled_right(self):
        for flag in recipe.flags("mp_31"):
            if flag.startswith("-") and not flag.startswith(("-D", "--offload-arch")):
                with self.subTest(flag):
                    self.refused(mcc([flag + "zz", "-fsyntax-only", str(EXAMPLE)]), flag + "zz")

    def test_targets(self):
        for target in ("sm_90", "mp_40", "gfx90a", "mp31"):
            flags = ["-x", "musa", f"--offload-arch={target}", "-fsyntax-only", str(EXAMPLE)]
            self.refused(mcc(flags), f"'{target}'")
        self.refused(mcc(["--offload-arch=mp_31", "-fsyntax-only", str(EXAMPLE)]), "without '-x musa'")

    def test_other_languages_and_linking(self):
        self.refused(mcc(["-x", "cuda", "-fsyntax-only", str(EXAMPLE)]), "-x cuda")
        self.refused(mcc([*recipe.flags("mp_31"), "-shared", "-o", self.object, str(EXAMPLE)]), "links nothing")

    def test_recipe_keeps_law_1(self):
        for target in recipe.TARGETS:
            flags = recipe.flags(target)
            self.assertIn("-ffp-contract=off", flags)
            for flag in ("-ffast-math", "-fno-signed-zeros", "-fmusa-flush-denormals-to-zero"):
                self.assertNotIn(flag, flags)


class Macros(Base):
    def macros(self, target, *more):
        result = mcc(["-x", "musa", f"--offload-arch={target}", "-dM", "-E", *more, str(EXAMPLE)])
        self.accepted(result)
        return dict((line.split(" ", 2) + [""])[1:3] for line in result.stdout.splitlines())

    def test_predefined(self):
        host, device = self.macros("mp_22"), self.macros("mp_22", "--cuda-device-only")
        self.assertEqual(device["__MUSA_ARCH__"], "220")
        self.assertNotIn("__MUSA_ARCH__", host)
        for macros in (host, device):
            self.assertEqual((macros["__MUSACC__"], macros["__MUSA__"]), ("", "1"))
            for absent in ("__CUDA_ARCH__", "__CUDACC__", "__NVCC__"):
                self.assertNotIn(absent, macros)


class Names(Base):
    def test_unknown_names_do_not_compile(self):
        planted = {
            "hexp2": "__global__ void k(half* p) { *p = hexp2(*p); }",
            "__hadd": "__global__ void k(half* p) { *p = __hadd(*p, *p); }",
            "__fsqrt_rn": "__global__ void k(float* p) { *p = __fsqrt_rn(*p); }",
            "__nanosleep": "__global__ void k() { __nanosleep(1); }",
            "atomicAdd_system": "__global__ void k(int* p) { atomicAdd_system(p, 1); }",
            "warpSize": "__global__ void k(int* p) { *p = warpSize; }",
            "cudaMalloc": "void f(void** p) { cudaMalloc(p, 1); }",
            "cudaLaunchKernel": "void f() { cudaLaunchKernel(nullptr, 1, 1, nullptr, 0, nullptr); }",
            "musaMallocAsync": "void f(void** p) { musaMallocAsync(p, 1, nullptr); }",
            "__nv_bfloat16": "__device__ __nv_bfloat16* q;",
        }
        for name, text in planted.items():
            with self.subTest(name):
                self.refused(self.compile(text, syntax_only=True), name)

    def test_exchange_without_width(self):
        text = "__global__ void k(float* p) { *p = __shfl_xor_sync(0xffffffffu, *p, 1); }"
        self.refused(self.compile(text, syntax_only=True), "__shfl_xor_sync")

    def test_light_barrier_is_mp_31_only(self):
        text = "__global__ void k() { __syncthreads_lm(); }"
        self.refused(self.compile(text, "mp_22", syntax_only=True), "__syncthreads_lm")

    def test_host_function_in_a_kernel(self):
        self.refused(self.compile("int f();\n__global__ void k(int* p) { *p = f(); }", syntax_only=True), "__host__ function", "__global__ function")

    def test_signed_64_bit_addition(self):
        text = "__global__ void k(long long* p) { atomicAdd(p, 1LL); }"
        self.refused(self.compile(text, syntax_only=True), "atomicAdd")


class Kernels(Base):
    TEMPLATE = "template <class T>\n__global__ void k(T* p) { *p = T{}; }\n"

    def test_template_kernel_without_instance(self):
        self.refused(self.compile(self.TEMPLATE + "__global__ void other() {}"), "'k'", "no instance")

    def test_template_kernel_that_only_a_launch_names(self):
        launch = "template <class T>\nvoid go(T* p) { k<T><<<1, 1>>>(p); }\nvoid f(int* p) { go(p); }"
        self.refused(self.compile(self.TEMPLATE + launch), "k<int>", "explicitly")
        self.accepted(self.compile(self.TEMPLATE + "template __global__ void k<int>(int*);\n" + launch))

    def test_kernel_dropped_from_the_device_code(self):
        text = "#ifndef __MUSA_ARCH__\ntemplate __global__ void k<int>(int*);\n#endif\ntemplate __global__ void k<float>(float*);"
        self.refused(self.compile(self.TEMPLATE + text), "k<int>", "dropped")

    def test_device_function_of_another_unit(self):
        text = "__device__ int elsewhere();\n__global__ void k(int* p) { *p = elsewhere(); }"
        self.refused(self.compile(text), "elsewhere()", "no body")

    def test_constants_beyond_8_kib(self):
        text = "__constant__ int table[%d];\n__global__ void k(int* p) { *p = table[*p]; }"
        self.accepted(self.compile(text % 2048))
        self.refused(self.compile(text % 2049), "8196 bytes of constants")

    def test_static_shared_memory_by_target(self):
        text = "__global__ void k(int* p) { __shared__ int s[%d]; s[*p] = *p; __syncthreads(); *p = s[p[1]]; }"
        self.accepted(self.compile(text % (192 * 256), "mp_31"))
        for target, kib in (("mp_21", 28), ("mp_22", 72), ("mp_31", 192)):
            with self.subTest(target):
                self.refused(self.compile(text % (kib * 256 + 1), target), "static shared memory", target)


if __name__ == "__main__":
    missing = [tool for tool in ("clang++", "c++filt", "objcopy") if shutil.which(tool) is None]
    if missing:
        print(f"not run: the stand-in compiler needs {', '.join(missing)}")
        sys.exit(77)
    unittest.main()
