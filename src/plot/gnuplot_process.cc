// gnuplot as a child process: script, output and complaints pass through unnamed temporary files,
// so neither side ever waits for the other to empty a pipe.
#include "plot/gnuplot_process.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>
#include <system_error>

#include "base/child_process.h"

namespace spillway::plot {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { (void)std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

std::string describe(int error_number) { return std::generic_category().message(error_number); }

Result<std::string> read_back(std::FILE* file) {
  if (std::fseek(file, 0, SEEK_SET) != 0) {
    return make_error(ErrorCode::kIo, "temporary file: {}", describe(errno));
  }
  std::string text;
  std::array<char, 16384> buffer{};
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), file)) {
    text.append(buffer.data(), got);
  }
  if (std::ferror(file) != 0) {
    return make_error(ErrorCode::kIo, "temporary file: {}", describe(errno));
  }
  return text;
}

// gnuplot shows the offending line and a caret before it says what is wrong.
std::string complaint(std::string_view errors) {
  constexpr std::string_view kSpace = " \t\r\n^";
  std::string last = "it said nothing";
  while (!errors.empty()) {
    const std::size_t end = errors.find('\n');
    const std::string_view line = errors.substr(0, end);
    errors.remove_prefix(end == std::string_view::npos ? errors.size() : end + 1);
    const std::size_t first = line.find_first_not_of(kSpace);
    if (first != std::string_view::npos) {
      last = line.substr(first, line.find_last_not_of(kSpace) + 1 - first);
    }
  }
  return last;
}

}  // namespace

Result<std::string> run_gnuplot(const std::string& script, const std::string& program) {
  const File in(std::tmpfile());
  const File out(std::tmpfile());
  const File err(std::tmpfile());
  if (!in || !out || !err) {
    return make_error(ErrorCode::kIo, "cannot create a temporary file: {}", describe(errno));
  }
  if (std::fwrite(script.data(), 1, script.size(), in.get()) != script.size() ||
      std::fflush(in.get()) != 0 || std::fseek(in.get(), 0, SEEK_SET) != 0) {
    return make_error(ErrorCode::kIo, "cannot write a temporary file: {}", describe(errno));
  }

  // -d: without start-up files; -: the script is on standard input.
  const Result<ChildEnd> end = start_child({.words = {program, "-d", "-"},
                                            .in = fileno(in.get()),
                                            .out = fileno(out.get()),
                                            .err = fileno(err.get())})
                                   .and_then(wait_for_child);
  if (!end && end.error().code == ErrorCode::kUnsupported) {
    return make_error(ErrorCode::kUnsupported,
                      "{} is not installed: install it (Debian package gnuplot-nox) to draw charts",
                      program);
  }
  if (!end) {
    return tl::unexpected<Error>(end.error());
  }
  const auto errors = read_back(err.get());
  if (end->status != 0) {
    return make_error(ErrorCode::kIo, "{} failed: {} (is the Debian package gnuplot-nox intact?)",
                      program, errors ? complaint(*errors) : errors.error().message);
  }
  return read_back(out.get());
}

}  // namespace spillway::plot
