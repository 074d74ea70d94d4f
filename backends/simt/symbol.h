// From an address of code to the lines of source that it was made of.
#pragma once

#include <string>
#include <vector>

namespace musaic::simt {

struct SourceLine {
  std::string file;
  int line = 0;
  std::string function;
};

/// The lines behind a return address, inlined calls first. Empty without debug information.
std::vector<SourceLine> source_lines(const void* return_address);

}  // namespace musaic::simt
