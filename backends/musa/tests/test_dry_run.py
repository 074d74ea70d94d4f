"""The recipe's dry run: all units through the stand-in compiler, for mp_31 to objects and for mp_22 in syntax."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import recipe  # noqa: E402  pylint: disable=wrong-import-position


def dry_run(folder, *arguments):
    command = [sys.executable, "-B", str(HERE.parent / "recipe.py"), "build", "--out", folder, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


class DryRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.mp_31 = dry_run(cls.folder, "--target", "mp_31")

    def test_mp_31_objects_hold_every_kernel(self):
        print(self.mp_31.stdout, end="")
        self.assertEqual(self.mp_31.returncode, 0, self.mp_31.stdout + self.mp_31.stderr)
        for folder, programs in recipe.read_instances().items():
            kernels = recipe.kernels_in(pathlib.Path(self.folder) / "mp_31" / f"{folder}.o")
            # Three storage types where the program is a template of them, for groups of 32 and of 128 lanes.
            self.assertEqual(len(kernels), sum(6 if re.search(r"\bT\b", p) else 2 for p in programs), folder)
            for program in programs:
                name = re.escape(re.match(r"\w+", program).group(0))
                for lanes in (32, 128):
                    self.assertTrue([k for k in kernels if re.search(rf"rows_kernel<{lanes}, .*\b{name}\b", k)], program)

    def test_mp_22_syntax(self):
        done = dry_run(self.folder, "--target", "mp_22", "--syntax-only")
        print(done.stdout, end="")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_rows_take_whole_blocks_where_the_hardware_warp_has_128_lanes(self):
        done = dry_run(self.folder, "--target", "mp_22", "--unit", "rmsnorm")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        kernels = recipe.kernels_in(pathlib.Path(self.folder) / "mp_22" / "rmsnorm.o")
        self.assertEqual(len(kernels), 3)
        self.assertFalse([k for k in kernels if "rows_kernel<128," not in k])

    def test_contraction_is_off(self):
        source, listing = pathlib.Path(self.folder) / "c.mu", pathlib.Path(self.folder) / "c.s"
        source.write_text("__global__ void k(float* p) { p[0] = p[1] * p[2] + p[3]; }")
        for flags, contracted in ((recipe.flags("mp_31"), False),
                                  ([f for f in recipe.flags("mp_31") if f != "-ffp-contract=off"], True)):
            subprocess.run([str(recipe.STANDIN), *flags, "--cuda-device-only", "-c", "-o", str(listing), str(source)], check=True)
            self.assertEqual("fma.rn.f32" in listing.read_text(), contracted)

    def test_lost_kernel_is_noticed(self):
        unit = pathlib.Path(self.folder) / "rmsnorm.o"
        shutil.copy(pathlib.Path(self.folder) / "mp_31" / "rmsnorm.o", unit)
        self.assertEqual(recipe.check_object(unit, "rmsnorm"), "")
        image = pathlib.Path(self.folder) / "image"
        subprocess.run(["objcopy", "--dump-section", f".mt_fatbin={image}", str(unit)], check=True)
        kernel = re.search(rb"\.entry\s+([\w$]+)\(", image.read_bytes()).group(1)
        image.write_bytes(image.read_bytes().replace(kernel, b"x" + kernel[1:]))
        subprocess.run(["objcopy", "--update-section", f".mt_fatbin={image}", str(unit)], check=True)
        self.assertIn("not in the device code: void musaic::musa::rows_kernel<", recipe.check_object(unit, "rmsnorm"))
        subprocess.run(["objcopy", "--remove-section", ".mt_fatbin", str(unit)], check=True)
        self.assertIn("no kernel name can be read", recipe.check_object(unit, "rmsnorm"))


if __name__ == "__main__":
    missing = [tool for tool in ("clang++", "c++filt", "objcopy", "nm") if shutil.which(tool) is None]
    if missing:
        print(f"not run: the recipe's dry run needs {', '.join(missing)}")
        sys.exit(77)
    unittest.main()
