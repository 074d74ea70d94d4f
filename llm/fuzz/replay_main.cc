// Runs a fuzz target without a fuzzer: on every file of the given directories, on every beginning of it, and
// on copies with a few bytes changed (the seed is printed; MUSAIC_SEED repeats it).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  const char* given = std::getenv("MUSAIC_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::cout << "MUSAIC_SEED=" << seed << std::endl;
  std::mt19937_64 random(seed);
  size_t files = 0, runs = 0;
  // Each run gets an exact heap copy, so that a memory checker sees a read past the end.
  const auto run = [&](const std::vector<uint8_t>& bytes) {
    const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
    LLVMFuzzerTestOneInput(copy.data(), copy.size());
    ++runs;
  };
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) continue;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file),
                                       std::istreambuf_iterator<char>()};
      ++files;
      run(bytes);
      const size_t step = bytes.size() / 256 + 1;
      for (size_t size = 0; size < bytes.size(); size += step) {
        run({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)});
      }
      for (int k = 0; k < 100 && !bytes.empty(); ++k) {
        std::vector<uint8_t> changed = bytes;
        for (uint64_t n = 1 + random() % 4; n > 0; --n) {
          changed[random() % changed.size()] = static_cast<uint8_t>(random() % 3 == 0 ? 0xFF : random());
        }
        run(changed);
      }
    }
  }
  std::cout << files << " files, " << runs << " runs\n";
  return files > 0 ? 0 : 1;
}
