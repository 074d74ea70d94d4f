#include "cli/bench_page.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace musaic::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

std::string number(double v, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", digits, v);
  return text;
}

/// Bars of one operator: the share of the copy bandwidth, or where that says nothing the time.
std::string bars(const std::vector<Json>& rows, bool by_share) {
  double largest = by_share ? 1.0 : 0.0;
  for (const Json& r : rows)
    largest = std::max(largest, (by_share ? r.at("share_of_copy") : r.at("us")).get<double>());
  constexpr int kHeight = 18, kLeft = 330, kWidth = 420;
  const auto height = static_cast<int>(rows.size()) * kHeight + 22;
  std::string svg = "<svg viewBox=\"0 0 860 " + std::to_string(height) + "\" width=\"860\" height=\"" +
                    std::to_string(height) + "\" role=\"img\">";
  int y = 4;
  for (const Json& r : rows) {
    const double value = (by_share ? r.at("share_of_copy") : r.at("us")).get<double>();
    const std::string dtype = r.at("dtype"), colour = dtype == "float32"   ? "#33658a"
                                                      : dtype == "float16" ? "#86bbd8"
                                                                           : "#758e4f";
    const std::string text =
        by_share ? number(100 * value, 0) + " % of a copy, " + number(r.at("us"), 1) + " \u00b5s"
                 : number(value, 1) + " \u00b5s";
    svg += "<text x=\"" + std::to_string(kLeft - 8) + "\" y=\"" + std::to_string(y + 12) +
           "\" text-anchor=\"end\">" + escaped(r.at("shape").get<std::string>() + "  " + dtype) +
           "</text><rect x=\"" + std::to_string(kLeft) + "\" y=\"" + std::to_string(y) +
           "\" height=\"13\" width=\"" + number(std::max(1.0, kWidth * value / largest), 1) + "\" fill=\"" +
           colour + "\"/><text x=\"" + number(kLeft + 6 + kWidth * value / largest, 1) + "\" y=\"" +
           std::to_string(y + 12) + "\">" + text + "</text>";
    y += kHeight;
  }
  return svg + "</svg>";
}

std::string table(const std::vector<Json>& rows) {
  std::string t =
      "<table><tr><th>shape<th>dtype<th>\u00b5s<th>GB/s<th>share of a copy<th>empty "
      "launches<th>bytes<th>runs</tr>";
  for (const Json& r : rows)
    t +=
        "<tr><td>" + escaped(r.at("shape")) + "<td>" + r.at("dtype").get<std::string>() + "<td>" +
        number(r.at("us"), 2) + "<td>" + number(r.at("gb_per_s"), 1) + "<td>" +
        (r.at("share_of_copy").get<double>() > 0 ? number(100 * r.at("share_of_copy").get<double>(), 1) + " %"
                                                 : "") +
        "<td>" + (r.at("empty_launches").get<double>() > 0 ? number(r.at("empty_launches"), 1) : "") +
        "<td>" + r.at("bytes").dump() + "<td>" + r.at("runs").dump() + "</tr>";
  return t + "</table>";
}

}  // namespace

std::string bench_page(const Json& report) {
  std::string page =
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>musaic bench</title><style>"
      "body{font:14px sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#222}"
      "svg text{font:11px sans-serif;fill:#222}table{border-collapse:collapse;font-size:12px;margin:.5em 0 "
      "1.5em}"
      "td,th{padding:1px 10px 1px 0;text-align:left;border-bottom:1px solid "
      "#ddd}.note{background:#fff3cd;padding:.6em}"
      "</style></head><body><h1>musaic " +
      report.at("musaic").get<std::string>() + " bench</h1>";
  for (const Json& d : report.at("devices")) {
    page += "<h2>" + escaped(d.at("device").get<std::string>() + ": " + d.at("name").get<std::string>()) +
            "</h2>";
    if (d.at("simulated").get<bool>())
      page += "<p class=\"note\">" + escaped(d.at("note")) + "</p>";
    else
      page += "<p>A copy moves " + number(d.at("copy_gb_per_s"), 0) +
              " GB/s (read and written), an empty launch takes " + number(d.at("empty_launch_us"), 2) +
              " \u00b5s. " + escaped(d.at("note")) + "</p>";
    std::vector<Json> rows;
    const auto flush = [&] {
      if (rows.empty()) return;
      page += "<h3>" + escaped(rows[0].at("operator")) + "</h3>" +
              bars(rows, !d.at("simulated").get<bool>()) + table(rows);
      rows.clear();
    };
    for (const Json& r : d.at("results")) {
      if (!rows.empty() && rows[0].at("operator") != r.at("operator")) flush();
      rows.push_back(r);
    }
    flush();
  }
  return page + "</body></html>\n";
}

}  // namespace musaic::cli
