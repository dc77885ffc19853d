// See output_file.h.
#include "cli/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

namespace spillway {
namespace {

namespace fs = std::filesystem;

std::string describe(int error_number) { return std::generic_category().message(error_number); }

using File = std::unique_ptr<std::FILE, decltype([](std::FILE* file) { std::fclose(file); })>;

bool write_all(std::FILE* file, const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
}

}  // namespace

Status check_output(const std::string& path) {
  std::error_code error;
  if (path == "-") {
    return {};
  }
  if (path == "--") {  // the option before it has swallowed it
    return make_error(ErrorCode::kInvalidInput,
                      "an option before '--' lacks its file; write for example --json record.json, "
                      "or - for standard output");
  }
  const fs::path folder = fs::path(path).parent_path();
  const bool there = fs::exists(path, error);
  const std::string needed = there ? path : folder.empty() ? "." : folder.string();
  if (fs::is_directory(path, error)) {
    errno = EISDIR;
  } else if (::access(needed.c_str(), there ? W_OK : W_OK | X_OK) == 0) {
    return {};
  }
  return make_error(ErrorCode::kInvalidInput,
                    "{}: cannot be written: {}; name a file in a folder that you may write", path,
                    describe(errno));
}

Status make_out_folder(const std::string& folder) {
  std::error_code error;
  if (!folder.empty() && !fs::create_directories(folder, error) && error) {
    return make_error(ErrorCode::kIo, "--out: {}: {}", folder, error.message());
  }
  return {};
}

Status write_output(const std::string& path, const std::string& text) {
  if (path == "-") {
    return write_all(stdout, text)
               ? Status()
               : make_error(ErrorCode::kIo, "cannot write to standard output: {}", describe(errno));
  }
  const File file(std::fopen(path.c_str(), "we"));
  if (file == nullptr || !write_all(file.get(), text)) {
    return make_error(ErrorCode::kIo, "{}: cannot be written: {}", path, describe(errno));
  }
  return {};
}

}  // namespace spillway
