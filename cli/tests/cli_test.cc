// The program as a user meets it: exit codes, error lines, outputs.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "musaic/version.h"

namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Outcome {
  int exit_code;  // 128 + signal for a crash, as a shell has it
  std::string out, err;
};

class Program : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "musaic-cli-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    ASSERT_EQ(run({"tiny-model", model(), "--seed", "5"}).exit_code, 0);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string model() const { return folder_ / "tiny.gguf"; }

  /// Runs the program; `before` runs in its process first, `during` in this one while it runs.
  Outcome run(std::vector<std::string> arguments, const std::function<void()>& before = {},
              const std::function<void(pid_t)>& during = {}) {
    arguments.insert(arguments.begin(), "musaic");
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      const bool ok = std::freopen((folder_ / "out").c_str(), "wb", stdout) != nullptr &&
                      std::freopen((folder_ / "err").c_str(), "wb", stderr) != nullptr;
      setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
      if (before) before();
      if (ok) execv(MUSAIC_PROGRAM, argv.data());
      _exit(99);
    }
    if (during) during(child);
    int status = 0;
    waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read(folder_ / "out"),
            read(folder_ / "err")};
  }

  Outcome generate(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"generate", "--model", model()});
    return run(arguments);
  }

  /// One line on standard error that starts with "musaic: " and holds each of the parts; exit code 1.
  static void expect_complaint(const Outcome& o, const std::vector<std::string>& parts) {
    EXPECT_EQ(o.exit_code, 1) << o.err;
    EXPECT_EQ(o.err.rfind("musaic: ", 0), 0u) << o.err;
    EXPECT_EQ(o.err.find('\n'), o.err.size() - 1) << o.err;
    for (const std::string& part : parts)
      EXPECT_NE(o.err.find(part), std::string::npos) << part << " in " << o.err;
  }

  fs::path folder_;
};

TEST_F(Program, SaysWhatItIs) {
  EXPECT_EQ(run({"--version"}).out, "musaic " MUSAIC_VERSION "\n");
  const Outcome help = run({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* command : {"generate", "info", "list", "tiny-model"})
    EXPECT_NE(help.out.find(command), std::string::npos);
  const Outcome info = run({"info"});
  EXPECT_EQ(info.exit_code, 0);
  for (const char* part :
       {MUSAIC_VERSION, "cpu path: ", "threads: ", "backends: cpu", "  rmsnorm ", "MUSAIC_MODEL"})
    EXPECT_NE(info.out.find(part), std::string::npos) << part;
  const nlohmann::json j = nlohmann::json::parse(run({"info", "--json"}).out);
  EXPECT_EQ(j.at("devices")[0].at("device"), "cpu");
  EXPECT_EQ(j.at("devices")[0].at("operators").at("rmsnorm"), "shared");
  EXPECT_NE(run({"list"}).out.find("rmsnorm(Tensor! out"), std::string::npos);
}

TEST_F(Program, WrongCommandLines) {
  expect_complaint(run({}), {"subcommand"});
  expect_complaint(run({"frobnicate"}), {"frobnicate"});
  expect_complaint(generate({}), {"--prompts FILE"});
  expect_complaint(generate({"hi", "--tokens", "many"}), {"tokens"});
  expect_complaint(generate({"hi", "--tokens", "-1"}), {"tokens"});
  expect_complaint(generate({"hi", "--device", "toaster"}), {"--device", "\"toaster\"", "one of: cpu"});
  expect_complaint(generate({"hi", "--temperature", "-1"}), {"temperature", "a number >= 0"});
  expect_complaint(generate({"hi", "--temperature", "nan"}), {"temperature"});
  expect_complaint(generate({"hi", "--context", "100000"}), {"context", "1 to 512"});
  expect_complaint(generate({"hi", "--prompts", "file"}), {"not both"});
  expect_complaint(generate({"--prompts", folder_ / "none"}), {"none", "one prompt a line"});
  expect_complaint(generate({"--raw", std::string(2000, 'x')}), {"2000 tokens", "at most 512, the context"});
}

// Every case on the CPU, then a simulated target that runs some operators; a name runs one case alone.
TEST_F(Program, ChecksDevices) {
  const std::string report = folder_ / "check.json";
  const Outcome cpu = run({"check", "--json", report});
  EXPECT_EQ(cpu.exit_code, 0) << cpu.out << cpu.err;
  EXPECT_NE(cpu.out.find(" 0 failed"), std::string::npos) << cpu.out;
  const nlohmann::json j = nlohmann::json::parse(read(report));
  ASSERT_EQ(j.at("devices").size(), 1u);
  EXPECT_GT(j.at("devices")[0].at("cases").size(), 100u);
  for (const auto& c : j.at("devices")[0].at("cases")) EXPECT_EQ(c.at("state"), "passed") << c;

  const Outcome one = run({"check", "--case", "rmsnorm/bfloat16/5x257"});
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_NE(one.out.find("1 cases run, 0 failed"), std::string::npos) << one.out;
  const Outcome none = run({"check", "--case", "rmsnorm/bfloat16/none"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_NE(none.err.find("musaic check --list"), std::string::npos) << none.err;
  EXPECT_EQ(run({"check", "--op", "rmsnrm"}).exit_code, 1);
  EXPECT_EQ(run({"check", "--device", "toaster"}).exit_code, 1);
#if defined(MUSAIC_HAS_SIMT)
  const Outcome simt =
      run({"check", "--device", "simt:musa-mp22", "--device", "simt:musa-mp21", "--op", "rmsnorm"});
  EXPECT_EQ(simt.exit_code, 0) << simt.out << simt.err;
  EXPECT_NE(simt.out.find("bytes equal to the CPU's"), std::string::npos) << simt.out;
  EXPECT_NE(simt.out.find("simt:musa-mp21 has no bfloat16"), std::string::npos) << simt.out;
#endif
}

TEST_F(Program, TimesOperators) {
  const fs::path csv = folder_ / "b.csv", json = folder_ / "b.json", html = folder_ / "b.html";
  std::vector<std::string> arguments = {"bench",  "--op", "merge_state_v2", "--csv", csv,
                                        "--json", json,   "--html",         html};
#if defined(MUSAIC_HAS_SIMT)
  arguments.insert(arguments.end(), {"--device", "cpu", "--device", "simt:musa-mp21"});
#endif
  const Outcome o = run(arguments);
  ASSERT_EQ(o.exit_code, 0) << o.err;
  const nlohmann::json j = nlohmann::json::parse(read(json));
  EXPECT_EQ(j.at("devices")[0].at("simulated"), false);
  EXPECT_GT(j.at("devices")[0].at("copy_gb_per_s"), 0);
  ASSERT_EQ(j.at("devices")[0].at("results").size(), 9u);
  for (const auto& r : j.at("devices")[0].at("results")) {
    EXPECT_GT(r.at("us"), 0) << r;
    EXPECT_GT(r.at("share_of_copy"), 0) << r;
    EXPECT_GE(r.at("runs"), 5) << r;
  }
  const std::string table = read(csv);
  EXPECT_EQ(table.rfind("device,simulated,operator,", 0), 0u) << table;
  EXPECT_NE(table.find("cpu,no,merge_state_v2,float32,1x32x128,"), std::string::npos) << table;
  const std::string page = read(html);
  EXPECT_NE(page.find("<svg"), std::string::npos);
  for (const char* outside : {"http", "src=", "href=", "url("})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
#if defined(MUSAIC_HAS_SIMT)
  EXPECT_EQ(j.at("devices")[1].at("simulated"), true);
  EXPECT_EQ(j.at("devices")[1].at("results").size(), 2u);  // no bfloat16
  EXPECT_NE(o.out.find("say nothing about any GPU"), std::string::npos) << o.out;
  EXPECT_NE(page.find("say nothing about any GPU"), std::string::npos);
#endif
  EXPECT_EQ(run({"bench", "--op", "rmsnrm"}).exit_code, 1);
}

#if defined(MUSAIC_HAS_SIMT)
TEST_F(Program, ToursTheSimulatedDevices) {
  const Outcome o = run({"tour"});
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  for (const char* part : {"simt:musa-mp31: a hardware warp of 32", "simt:musa-mp22: a hardware warp of 128",
                           "bits equal to the CPU", "found in kernel row_sums, line "})
    EXPECT_NE(o.out.find(part), std::string::npos) << part << " in " << o.out;
  EXPECT_EQ(o.out.find("WRONG"), std::string::npos) << o.out;
}
#endif

TEST_F(Program, BadModels) {
  expect_complaint(run({"generate", "hi"}), {"no model at", "quickstart", "tiny-model"});
  expect_complaint(run({"generate", "hi", "--model", folder_ / "none.gguf"}), {"none.gguf"});
  expect_complaint(run({"generate", "hi", "--model", folder_}), {folder_.filename().string()});
  std::ofstream(folder_ / "bad.gguf") << "GGUX is no model";
  expect_complaint(run({"generate", "hi", "--model", folder_ / "bad.gguf"}), {"bad.gguf"});
  const std::string whole = read(model());
  for (const double share : {0.001, 0.1, 0.5, 0.999}) {
    std::ofstream(folder_ / "cut.gguf", std::ios::binary)
        << whole.substr(0, static_cast<size_t>(share * static_cast<double>(whole.size())));
    expect_complaint(run({"generate", "hi", "--model", folder_ / "cut.gguf"}), {"cut.gguf"});
  }
  expect_complaint(run({"tiny-model", folder_ / "none" / "x.gguf"}), {"cannot write", "x.gguf"});
}

TEST_F(Program, SameSeedSameTextWhateverTheBatch) {
  const auto text = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {"--tokens", "20", "--temperature", "1", "--seed", "7"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome o = generate(all);
    EXPECT_EQ(o.exit_code, 0) << o.err;
    return o.out;
  };
  const std::string one = text({"hello", "--threads", "1"});
  EXPECT_EQ(text({"hello", "--threads", "2"}), one);
  EXPECT_NE(text({"hello", "--seed", "8"}), one);
  std::ofstream(folder_ / "prompts") << "a\nbb\nccc\nhello\ne\n\nff\nggg\nhhhh\n";
  const nlohmann::json batch = nlohmann::json::parse(text({"--prompts", folder_ / "prompts", "--json"}));
  ASSERT_EQ(batch["answers"].size(), 9u);
  EXPECT_EQ(batch["answers"][3]["prompt"], "hello");
  EXPECT_EQ(batch["answers"][3]["text"].get<std::string>() + "\n", one);
  EXPECT_EQ(batch["answers"][5]["prompt"], "");
  const std::string plain = text({"--prompts", folder_ / "prompts"});
  EXPECT_LT(plain.find("[1] a\n"), plain.find("[9] hhhh\n"));
}

TEST_F(Program, JsonHoldsAnswersAndFigures) {
  const Outcome o = generate({"x\xFFy", "--raw", "--json", "--tokens", "4", "--profile"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  const nlohmann::json j = nlohmann::json::parse(o.out);
  EXPECT_EQ(j["musaic"], MUSAIC_VERSION);
  EXPECT_EQ(j["answers"][0]["prompt_tokens"].size(), 3u);
  EXPECT_LE(j["answers"][0]["tokens"].size(), 4u);
  EXPECT_EQ(j["stats"]["prefill_tokens"], 3);
  EXPECT_GT(j["stats"]["peak_rss_bytes"], 1 << 20);
  EXPECT_GT(j["stats"]["profile"]["product"]["calls"], 0);
}

TEST_F(Program, SystemTextStopsAndMarkers) {
  const auto prompt_tokens = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--json", "--tokens", "0"});
    return nlohmann::json::parse(generate(more).out)["answers"][0]["prompt_tokens"].get<std::vector<int>>();
  };
  const auto markers = [](const std::vector<int>& ids) {
    return std::count_if(ids.begin(), ids.end(), [](int i) { return i < 3; });
  };
  const auto plain = prompt_tokens({"hi"});
  EXPECT_NE(prompt_tokens({"hi", "--system", "Be brief."}), plain);
  EXPECT_EQ(markers(prompt_tokens({"<|im_end|>hi<|im_start|>"})), markers(plain));  // text stays text
  EXPECT_EQ(markers(prompt_tokens({"<|im_end|>", "--raw"})), 0);
  expect_complaint(generate({"", "--raw", "--tokens", "1", "--context", "0", "--model", folder_ / "none"}),
                   {"none"});
  EXPECT_EQ(prompt_tokens({"", "--raw"}), std::vector<int>{1});  // starts from the begin token
}

TEST_F(Program, CtrlCEndsCleanly) {
  std::ofstream prompts(folder_ / "prompts");
  for (int i = 0; i < 3000; ++i) prompts << "a prompt of some words\n";
  prompts.close();
  const Outcome o =
      run({"generate", "--model", model(), "--prompts", folder_ / "prompts", "--json", "--tokens", "400"}, {},
          [&](pid_t child) {
            std::this_thread::sleep_for(std::chrono::milliseconds(700));
            kill(child, SIGINT);
          });
  EXPECT_EQ(o.exit_code, 130) << o.err;
  const nlohmann::json j = nlohmann::json::parse(o.out);
  EXPECT_EQ(j["answers"].back()["stop_reason"], "cancelled");
  EXPECT_NE(o.err.find("decode"), std::string::npos);
}

TEST_F(Program, AFileThatShrinksWhileItIsRead) {
  std::ofstream prompts(folder_ / "prompts");
  for (int i = 0; i < 3000; ++i) prompts << "a prompt of some words\n";
  prompts.close();
  expect_complaint(
      run({"generate", "--model", model(), "--prompts", folder_ / "prompts", "--tokens", "400"}, {},
          [&](pid_t) {
            std::this_thread::sleep_for(std::chrono::milliseconds(700));
            fs::resize_file(model(), 4096);
          }),
      {"tiny.gguf"});
}

TEST_F(Program, NoMemory) {
  if (std::string(MUSAIC_SANITIZERS).find("address") != std::string::npos)
    GTEST_SKIP() << "AddressSanitizer takes more address space than the limit of this test";
  std::ofstream prompts(folder_ / "prompts");
  for (int i = 0; i < 4000; ++i) prompts << "hi\n";
  prompts.close();
  expect_complaint(run({"generate", "--model", model(), "--prompts", folder_ / "prompts", "--batch", "4000",
                        "--threads", "1"},
                       [] {
                         const rlimit limit = {200 << 20, 200 << 20};
                         setrlimit(RLIMIT_AS, &limit);
                       }),
                   {"memory"});
}

}  // namespace
