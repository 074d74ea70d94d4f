// The page that `musaic bench --html` writes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace musaic::cli {

/// One HTML page without any outside resource: for each device and operator the shares of the copy bandwidth as bars, and
/// the figures in a table.
std::string bench_page(const nlohmann::ordered_json& report);

}  // namespace musaic::cli
